"""The server's half of round 0: from the statistics to who draws how much, along which shapes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ggeur.federation.augmentation import Augmentation
from ggeur.federation.protocol import Federation
from ggeur.federation.summary import far_center, guided
from ggeur.stats.augmented_sets import BankLayout, BankPiece
from ggeur.stats.geometry import Geometry, LowRank, low_rank, units_note
from ggeur.stats.moments import covariance_from_means
from ggeur.stats.site_statistics import Breakdown, SiteStatistics, StatisticsQuery
from ggeur.stats.statistics import ClassStatistics
from ggeur.stats.types import Bool, Float, Int


@dataclass(frozen=True)
class Layout:
    """Settled once for a run; a client that comes back finds its part again."""

    count: Int  # (K, C) samples that clients hold
    home: Int  # (K,) the domain of a client's samples, -1 where they mix or it has none
    domains: Int  # (D,) those with prototypes
    prototypes: NDArray[Any]  # (D, C, p)
    present: Bool  # (D, C)
    draws: Int  # (K, C)
    bank: BankLayout

    @classmethod
    def of(
        cls, count: Int, home: Sequence[int | None], by_home: Mapping[int, SiteStatistics], p: int, a: Augmentation
    ) -> "Layout":
        """From who holds how much of what, and what the clients of each domain sent together, where Step 2 is taken."""
        n_clients, n_classes = count.shape
        homes = np.array([-1 if d is None else d for d in home], np.int64)
        domains = np.array(sorted(by_home), np.int64)
        prototypes = np.zeros((0, n_classes, p))
        present = np.zeros((0, n_classes), np.bool_)
        if len(domains):
            prototypes = np.stack([by_home[d].mean for d in domains.tolist()])
            present = np.stack([by_home[d].present for d in domains.tolist()])
        draws = np.zeros((n_clients, n_classes), np.int64)
        if a.rule is not None:
            others = (homes[:, None] >= 0) & (homes[:, None] != domains)  # (K, D)
            draws = a.rule.draws(count, present & others[:, :, None])
        bank = BankLayout.of(draws if a.draws_noise else np.zeros_like(draws), p, a.bank_bytes)
        return cls(count, homes, domains, prototypes, present, draws, bank)

    def others(self, k: int) -> Int:
        """Whose prototypes client k draws around: all domains' but its own; nobody's if it mixes them."""
        return np.flatnonzero((self.domains != self.home[k]) & (self.home[k] >= 0))

    def samples(self, k: int) -> int:
        """How many samples client k trains on."""
        return int(self.count[k].sum() + self.draws[k].sum())

    def piece(self, k: int) -> BankPiece:
        """The samples of the bank that client k draws."""
        return BankPiece(self.bank.offset[k], self.draws[k], self.bank.size)


def with_prototypes(a: Augmentation, home: Sequence[int | None]) -> bool:
    """Whether Step 2 is taken and has anything to add: clients must be of several domains."""
    return a.prototypes and len({d for d in home if d is not None}) > 1


_AT_ONCE = 8  # classes whose covariances and eigenvectors are held together


class Shapes(NamedTuple):
    """Factors F of the classes' noise, whose covariance is F'F + s I; several classes may share one."""

    factors: NDArray[np.float32]  # (m, p, p), or (m, r, p) of low rank
    rest: NDArray[np.float32]  # (m,) s: zero but for factors of low rank
    factor_of: Int  # (C,) sample of `factors`, -1 where a class has none
    largest: float  # eigenvalue, for the warning about units

    @classmethod
    def none(cls, n_classes: int, p: int) -> "Shapes":
        return cls(np.zeros((0, p, p), np.float32), np.zeros(0, np.float32), np.full(n_classes, -1), 0.0)

    def of(self, classes: Bool) -> "Shapes":
        """Return the shapes that a site drawing from these `classes` needs."""
        samples = np.unique(self.factor_of[classes & (self.factor_of >= 0)])
        place = np.full(len(self.factors) + 1, -1)
        place[samples] = np.arange(len(samples))
        factor_of = np.where(classes, place[self.factor_of], -1)
        return Shapes(self.factors[samples], self.rest[samples], factor_of, self.largest)

    @property
    def by_class(self) -> LowRank | None:
        """Return the shapes for the bound of an expected loss, zeros for a class without one; None if none has one."""
        if len(self.factors) < 2:  # one for all, or none
            return LowRank(self.factors, self.rest) if len(self.factors) else None
        held = (self.factor_of >= 0).astype(np.float32)
        return LowRank(held[:, None, None] * self.factors[self.factor_of], held * self.rest[self.factor_of])


def merged_shapes(total: SiteStatistics, augmentation: Augmentation) -> Shapes:
    """From the total: a shape for each class that somebody holds, or one for all where moments are pooled."""
    if augmentation.covariance == "pooled":
        covariances: Iterator[Float] = iter([total.within[None]])
        return _shapes(covariances, np.where(total.present, 0, -1), augmentation)
    held = np.flatnonzero(total.present)
    factor_of = np.full(total.n_classes, -1)
    factor_of[held] = np.arange(len(held))
    return _shapes(_covariances(total, held), factor_of, augmentation)


def shapes_from_means(count: Float, mean: Float, domain: Int, augmentation: Augmentation) -> Shapes:
    """From every client's class counts (K, C) and means (K, C, p) alone; `domain` (K,) is each client's, or -1."""
    sigma = covariance_from_means(count, mean, domain)
    return _shapes(iter([sigma]), np.where(count.sum(axis=0) > 0, np.arange(len(sigma)), -1), augmentation)


def _covariances(s: SiteStatistics, held: Int) -> Iterator[Float]:
    """Class by class, so that of all of them only the second moments are held."""
    for first in range(0, len(held), _AT_ONCE):
        some = held[first : first + _AT_ONCE]
        yield ClassStatistics(s.count[some], s.sum[some], s.second[some], s.center).covariance


def _shapes(covariances: Iterator[Float], factor_of: Int, a: Augmentation) -> Shapes:
    assert a.noise is not None
    factors: list[NDArray[np.float32]] = []
    rest: list[NDArray[np.float32]] = []
    largest = 0.0
    for some in covariances:
        geometry = Geometry.from_covariance(some, np.ones(len(some), np.bool_))
        made = a.noise(geometry)
        few = LowRank(made, np.zeros(len(made))) if a.rank is None else low_rank(made, a.rank)
        factors.append(np.asarray(few.U, np.float32))
        rest.append(np.asarray(few.s, np.float32))
        largest = max(largest, float(geometry.eigenvalues.max(initial=0.0)))
    return Shapes(np.concatenate(factors), np.concatenate(rest), factor_of, largest)


def note_on_units(shapes: Shapes, a: Augmentation) -> str:
    """Return a warning where the noise of `a` depends on the embedding's units and they do not suit it, or ""."""
    return "" if a.noise is None or a.unit_free else units_note(shapes.largest)


M = TypeVar("M", bound=SiteStatistics)


class AugmentationPlan(NamedTuple):
    """The result of round 0: layout, shapes, and notes for people."""

    layout: Layout
    shapes: Shapes
    notes: list[str]


def plan_augmentation(federation: Federation, a: Augmentation, p: int, not_several: str) -> AugmentationPlan:
    """Lay out the training sets that `a` asks for, in `p` dimensions.

    `not_several` says why the domains are not several, if they are not.
    """
    count = np.stack([site.counts for site in federation.sites])
    homes = [site.home for site in federation.sites]
    by_home: dict[int, SiteStatistics] = {}
    notes: list[str] = []
    if with_prototypes(a, homes):
        means = federation.statistics(StatisticsQuery("none", Breakdown("none", "home"), repair="drop"))
        by_home = dict(zip(means.domain, means.apart, strict=True))
    elif a.prototypes:
        notes.append(f"Step 2 adds nothing: {not_several}, so there are no prototypes of others.")
    shapes = Shapes.none(count.shape[1], p)
    if a.noise is not None:
        shapes = _global_shapes(federation, a, count)
        notes += filter(None, [note_on_units(shapes, a)])
    return AugmentationPlan(Layout.of(count, homes, by_home, p, a), shapes, notes)


def _global_shapes(federation: Federation, a: Augmentation, count: Int) -> Shapes:
    """The shape of every class, from what the augmentation lets clients send."""
    if a.covariance == "none":
        means = federation.statistics(StatisticsQuery("none", Breakdown("none", "site")))
        each, domain = means.apart, np.array(means.domain)
        return shapes_from_means(np.stack([m.count for m in each]), np.stack([m.mean for m in each]), domain, a)
    classes = guided(count, a.guided) if a.guided < 1 else None
    needs = a.needs or a.covariance
    return merged_shapes(federation.statistics(StatisticsQuery(needs, classes=classes, repair="drop")), a)


def about_center(total: Callable[[Float | None], M]) -> M:
    """`total(None)`, or `total(center)` where moments about zero would lose digits: then everybody is asked again."""
    found = total(None)
    center = far_center(found)
    return found if center is None else total(center)
