"""What leaves a site in place of its statistics, and what that promises: a `Release`.

A privacy mechanism is a function (*, parameters) -> Release in a file of its own; a custom one is named
package.module:name. It must be proved for statistics of samples in a ball (`bounded_norm`). The same Release is used by
a site, which applies it, and by whoever holds a total, who repairs it; simulations and audits call the same functions.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

import numpy as np

from ggeur.privacy.noise import Noise, RandomSource, SystemRandom
from ggeur.stats.custom import blaming, build_custom
from ggeur.stats.errors import GgeurError
from ggeur.stats.seeding import generator
from ggeur.stats.site_statistics import Covariance, EigenvalueRule, SiteStatistics
from ggeur.stats.types import Float, Int

M = TypeVar("M", bound=SiteStatistics)


def repaired(total: M, noise: Noise, radius: float, min_count: int = 0, eigenvalues: EigenvalueRule = "floor") -> M:
    """Return the `total` with this `noise` as statistics that samples with norms up to `radius` could have."""
    here = total.count >= max(1.0, min_count)
    shown = total.only(here)
    length = np.linalg.norm(shown.sum, axis=1)
    if math.isfinite(radius):
        inside = np.minimum(1.0, radius * shown.count / np.where(length > 0, length, 1.0))
        shown = replace(shown, sum=shown.sum * inside[:, None])
    if not len(total.second):
        return shown
    pooled = total.kind == "pooled"
    second = np.zeros_like(total.second)
    for i in [0] if pooled else np.flatnonzero(here).tolist():
        scatter = _total_scatter(shown) if pooled and eigenvalues == "floor-total" else shown.scatter_of(i)
        shift = shown.second[i] - scatter
        second[i] = shift + _denoised(scatter, noise_floor(noise, total.dimension), eigenvalues)
    return replace(shown, second=second)


def noise_floor(noise: Noise, p: int) -> float:
    """Return f: the spectral norm of the noise in a second moment, by the semicircle law."""
    return float(noise.second * np.sqrt(2 * p))


def _total_scatter(total: SiteStatistics) -> Float:
    whole = total.sum.sum(axis=0)
    return np.asarray(total.second[0] - np.outer(whole, whole) / max(float(total.count.sum()), 1.0))


def _denoised(scatter: Float, f: float, eigenvalues: EigenvalueRule) -> Float:
    values, vectors = np.linalg.eigh((scatter + scatter.T) / 2)
    values = np.where(values > f, values, 0.0) if eigenvalues == "drop" else np.maximum(values, f)
    made = vectors * values @ vectors.T
    return np.asarray((made + made.T) / 2)


Mechanism = Callable[[SiteStatistics, int, RandomSource], SiteStatistics]


def _no_noise(kind: Covariance, clients: int) -> Noise:
    return Noise(0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Release:
    """How a site protects what it sends: one message of statistics, whatever is then computed from them.

    Parameters
    ----------
    label : str
        What it does, in a few words for reports: "Gaussian noise".
    mechanism : callable, default=None
        (statistics, clients, random) -> the statistics that one of so many clients sends; all that is random in them
        comes from `random.standard_normal(shape)` or `random.random(shape)`. By default exact statistics are sent.
    noise : callable, default: none
        (covariance, clients) -> standard deviations of the noise in what one of so many clients sends.
    mu : float, default=None
        The loss of Gaussian differential privacy for one unit more or less, which a site's budget adds up. None: it has
        no such proof, and sites with a budget refuse it.
    guarantee : str, default=""
        The guarantee in a sentence, for model cards and reports.
    facts : mapping, default={}
        The numbers of the guarantee, which `model.json` keeps.
    unit : {"record", "client"}, default="record"
        Whose participation is hidden. A client that is hidden as a whole sends a single message.
    radius : float, default=inf
        The public bound on the norm of a sample; set from `[privacy]`.
    min_count : int, default=0
        The least number of samples of a class: at a site if statistics are exact, else in a noisy total. Set from
        `[privacy]`.
    least_clients : int, default=1
        How many clients a total must be of.
    seed : int, default=None
        Of a simulation's random numbers; None takes the operating system's.

    Examples
    --------
    >>> import numpy as np
    >>> from ggeur import Release, SiteStatistics
    >>> def rounded(statistics, clients, random):
    ...     return replace(statistics, sum=np.round(statistics.sum))
    >>> grid = Release("rounding", rounded, noise=lambda kind, clients: Noise(0.0, 12**-0.5, 0.0))
    >>> sent = grid.apply(SiteStatistics.from_embeddings(np.full((2, 1), 0.7), [0, 1], 2), clients=4)
    >>> sent.sum.ravel().tolist()
    [1.0, 1.0]
    """

    label: str
    mechanism: Mechanism | None = None
    noise: Callable[[Covariance, int], Noise] = field(default_factory=lambda: _no_noise)
    mu: float | None = None
    guarantee: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    unit: Literal["record", "client"] = "record"
    radius: float = float("inf")
    min_count: int = 0
    least_clients: int = 1
    seed: int | None = None

    @property
    def exact(self) -> bool:
        """Return whether statistics are sent as they are."""
        return self.mechanism is None

    @property
    def least_group(self) -> int:
        """Return how many samples a group needs to take part at a site; under noise `min_count` is for totals."""
        return self.min_count if self.exact else 0

    @property
    def statement(self) -> str:
        """Return the guarantee, or that there is none, in a sentence."""
        return self.guarantee or f"What clients send passes through {self.label}, which has no privacy guarantee."

    def simulated(self, seed: int) -> "Release":
        """Return the same with random numbers from `seed`: it shows what privacy costs, and protects nobody."""
        return replace(self, seed=seed)

    def apply(self, statistics: SiteStatistics, clients: int, client: int = 0, domain: int = -1) -> SiteStatistics:
        """Return what `client`, one of so many `clients`, sends in place of its `statistics` of a `domain`, or all."""
        if self.mechanism is None:
            return statistics
        random: RandomSource = SystemRandom()
        if self.seed is not None:
            random = generator(self.seed, "privacy", client, domain + 1)
        return self.mechanism(statistics, clients, random)

    def total_noise(self, kind: Covariance, clients: Iterable[int]) -> Noise:
        """Return the noise of the sum over groups of so many `clients` each, whose messages had that `kind`."""
        each = (self.noise(kind, many).of_sum(many) for many in clients)
        return sum(each, Noise(0.0, 0.0, 0.0))

    def repair(
        self,
        total: M,
        clients: Iterable[int],
        eigenvalues: EigenvalueRule = "floor",
        kind: Covariance | None = None,
    ) -> M:
        """Return the `total` over groups of so many `clients` each as statistics that some samples could have.

        `eigenvalues` says what becomes of those of a scatter that noise may have made (below). `kind` is the
        covariance of the messages, where the total has less of it.
        """
        if self.exact:
            return total
        noise = self.total_noise(kind or total.kind, clients)
        return repaired(total, noise, self.radius, self.min_count, eigenvalues)


EXACT = Release("no noise")


def exact_statistics() -> Release:
    """Return the release of exact statistics; with `min_count`, of groups that have so many samples."""
    return EXACT


def build_release(name: str, make: Callable[[], Any], *, custom: bool) -> Release:
    """Return what `make` returns for the mechanism `name`; errors of a `custom` one are blamed on it."""
    if not custom:
        found: Release = make()
        return found
    found = build_custom(name, _WHAT, make)
    if not isinstance(found, Release):
        raise GgeurError(
            f"'{name}' is no privacy mechanism: it must return a ggeur Release.", code="custom-release-type"
        )
    own, noise = found.mechanism, found.noise

    def applied(statistics: SiteStatistics, clients: int, random: RandomSource) -> SiteStatistics:
        assert own is not None
        with blaming(name, _WHAT):
            made = own(statistics, clients, random)
            parts = ("count", "sum", "second", "center")
            fits = isinstance(made, SiteStatistics) and all(
                np.shape(getattr(made, part)) == getattr(statistics, part).shape
                and np.isfinite(getattr(made, part)).all()
                for part in parts
            )
        if not fits:
            raise GgeurError(
                f"The {_WHAT} '{name}' must return finite SiteStatistics of the shapes that it is given.",
                code="custom-release-statistics",
            )
        return made

    def deviations(kind: Covariance, clients: int) -> Noise:
        with blaming(name, _WHAT):
            size = noise(kind, clients)
            return Noise(float(size.count), float(size.sum), float(size.second))

    return replace(found, mechanism=None if own is None else applied, noise=deviations)


_WHAT = "privacy mechanism"


def large_groups(y: Int, domains: Int, min_count: int) -> Int:
    """Return the indices of a site's samples in groups of at least `min_count`; `y` and `domains` (n,) define groups.

    >>> large_groups(np.array([0, 0, 1, 0]), np.array([0, 0, 0, 1]), 2)
    array([0, 1])
    """
    if not min_count or not len(y):
        return np.arange(len(y))
    _, group, size = np.unique(np.stack([domains, y]), axis=1, return_inverse=True, return_counts=True)
    return np.flatnonzero(size[group.ravel()] >= min_count)
