"""Round 0 of clients whose samples lie in one table: the same functions that real sites and servers call, in a loop."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ggeur.core.augmented_sets import AugmentedSet, NoisePlace, training_set
from ggeur.core.errors import GgeurWarning
from ggeur.core.low_rank import LowRank
from ggeur.core.site_statistics import Breakdown, Covariance, FederationStatistics, SiteStatistics
from ggeur.core.types import Bool, Float, Int
from ggeur.core.units import SampleMoments, Units
from ggeur.federation.augmentation import Augmentation
from ggeur.federation.augmentation_plan import about_center, by_home, plan_augmentation
from ggeur.federation.noisy_statistics import ALL, repaired_total
from ggeur.federation.summary import digits_note, summarise
from ggeur.privacy.release import EXACT, Release
from ggeur.privacy.repair import EigenvalueRule
from ggeur.privacy.threshold import large_groups

_LOT_ROWS = 2048  # of clients that are summed up together


class Clients(NamedTuple):
    """Who holds which samples of a table."""

    x: NDArray[Any]  # (N, p)
    y: Int
    n_classes: int
    parts: Sequence[Int]  # each client's samples
    homes: Sequence[int | None]  # the domain of each client's samples; None where they mix, or there are none
    domains: Int  # (N,)
    release: Release = EXACT  # how they protect what they send

    @classmethod
    def of(
        cls, x: NDArray[Any], y: Int, domains: Int, n_classes: int, parts: Sequence[Int], min_count: int = 0
    ) -> "Clients":
        """Of a table's columns, its `domains` (N,) among them; in groups under `min_count` samples take no part."""
        if min_count:
            parts = [samples[large_groups(y[samples], domains[samples], min_count)] for samples in parts]
        each = [np.unique(domains[samples]) for samples in parts]
        homes = [int(d[0]) if len(d) == 1 else None for d in each]
        return cls(x, y, n_classes, parts, homes, domains)

    def counts(self) -> Int:
        """(K, C): everybody's samples of each class."""
        return np.stack([np.bincount(self.y[samples], minlength=self.n_classes) for samples in self.parts])

    def group_counts(self) -> Int:
        """(D, C): all samples together, of each class in each domain."""
        samples = np.concatenate(self.parts)
        count = np.zeros((int(self.domains.max()) + 1, self.n_classes), np.int64)
        np.add.at(count, (self.domains[samples], self.y[samples]), 1)
        return count

    def message(self, samples: Int, kind: Covariance, center: Float | None = None) -> SiteStatistics:
        """Return what is to be sent of these samples."""
        return summarise(self.x[samples], self.y[samples], self.n_classes, kind, center)


class TrainingSets(NamedTuple):
    """What Section 3 of the paper makes of the clients' samples."""

    sets: list[AugmentedSet]
    prototypes: NDArray[Any]  # (D * C, p)
    bank: NDArray[np.float32] | None
    shapes: LowRank | None = None  # of draws whose expected loss takes their place


def merged_statistics(
    clients: Clients,
    kind: Covariance,
    classes: Bool | None = None,
    apart: Breakdown | None = None,
    eigenvalues: EigenvalueRule = "floor",
) -> FederationStatistics:
    """The total of all messages, about a center where zero would lose digits; of client k only `classes[k]`.

    Where messages are kept `apart`, a client whose samples are of several domains sends one for each. Of a total with
    noise in it, `eigenvalues` under the noise are raised to it, for a head, or dropped, for shapes.
    """
    kept = clients.parts
    if classes is not None:
        kept = [samples[classes[k, clients.y[samples]]] for k, samples in enumerate(kept)]
    domains = [ALL] if apart is None else np.unique(clients.domains).tolist()
    own = {d: kept if d < 0 else [samples[clients.domains[samples] == d] for samples in kept] for d in domains}
    if not clients.release.exact:
        return _noisy_total(clients, own, kind, apart, eigenvalues)
    alone = apart is not None and apart.of == "client"
    parts = [(d, samples) for d, mine in own.items() for samples in (filter(len, mine) if alone else _lots(mine))]
    total = about_center(
        lambda center: FederationStatistics.of(
            ((d, clients.message(samples, kind, center)) for d, samples in parts), apart
        )
    )
    if note := digits_note(total):
        warnings.warn(note, GgeurWarning, stacklevel=2)
    return total


def merged_by_domain(clients: Clients, kind: Covariance) -> tuple[SiteStatistics, ...]:
    """The statistics of every domain that somebody has samples of, about one center."""
    return merged_statistics(clients, kind, apart=Breakdown(kind)).apart


def _noisy_total(
    clients: Clients,
    own: Mapping[int, Sequence[Int]],
    kind: Covariance,
    apart: Breakdown | None,
    eigenvalues: EigenvalueRule,
) -> FederationStatistics:
    """Of which domains a client is, is public; of these it sends every class, whether it has samples of it or not."""
    held = {d: [k for k, samples in enumerate(mine) if d == ALL or len(samples)] for d, mine in own.items()}
    many = {d: len(those) for d, those in held.items() if those}

    def sent() -> Iterator[tuple[int, SiteStatistics]]:
        for d, those in held.items():
            for k in those:
                yield d, clients.release.apply(clients.message(own[d][k], kind), many[d], k, d)

    return repaired_total(clients.release, sent(), many, apart, eigenvalues)


def merged_units(clients: Clients) -> Units:
    """The federation's own units: of all clients' training samples, from the sums that each of them sends."""
    return SampleMoments.merge(SampleMoments.of(clients.x[samples]) for samples in clients.parts).units


def _lots(parts: Sequence[Int]) -> Iterator[Int]:
    """The clients' samples, small clients together: the message of a lot is the sum of its clients' messages.

    A client's second moments are a matrix per class however few its samples, so that ten thousand clients one by one
    would take minutes to add up. Where something acts on one message alone, this must not be used.
    """
    lot: list[Int] = []
    samples = 0
    for part in parts:
        lot.append(part)
        samples += len(part)
        if samples >= _LOT_ROWS:
            yield np.concatenate(lot)
            lot, samples = [], 0
    if samples:
        yield np.concatenate(lot)


class _Messages(NamedTuple):
    """The clients' messages, made when they are asked for."""

    clients: Clients
    kind: Covariance | None

    def total(self, classes: Bool | None = None) -> SiteStatistics:
        assert self.kind is not None
        return merged_statistics(self.clients, self.kind, classes, eigenvalues="drop")

    def means(self) -> Iterator[SiteStatistics]:
        c, release = self.clients, self.clients.release
        for k, samples in enumerate(c.parts):
            # Noise depends on what else is sent: means are read off the one message that there is.
            message = c.message(samples, "none" if release.exact or self.kind is None else self.kind)
            yield release.apply(message, len(c.parts), k).of_kind("none")

    def by_home(self, homes: Sequence[int | None]) -> dict[int, SiteStatistics]:
        found, release = by_home(self.means(), homes), self.clients.release
        return {
            home: release.repair(message, [homes.count(home)], "drop", self.kind) for home, message in found.items()
        }


def augment_clients(clients: Clients, a: Augmentation, seed: int) -> TrainingSets:
    """Every client's training set, and the prototypes and noise that they share."""
    p = clients.x.shape[1]
    why = "the table has one domain" if len(np.unique(clients.domains)) == 1 else "the clients mix domains"
    layout, shapes, notes = plan_augmentation(_Messages(clients, a.needs), a, clients.counts(), clients.homes, p, why)
    for note in notes:
        warnings.warn(note, GgeurWarning, stacklevel=2)
    whole = layout.bank.whole
    bank = whole.noise(shapes.factors, shapes.factor_of, seed) if a.draws_noise else None
    expected = None if a.rank is None else shapes.by_class
    sets = []
    for k, samples in enumerate(clients.parts):
        others = np.zeros_like(layout.present)
        others[layout.others(k)] = layout.present[layout.others(k)]  # the base holds the prototypes of all domains
        noise = None if bank is None else NoisePlace(whole, layout.bank.offset[k], k, seed)
        y, marks = clients.y[samples], expected is not None
        sets.append(training_set(samples, y, a.rule, others, noise, len(clients.x), expected=marks))
    return TrainingSets(sets, layout.prototypes.reshape(-1, p), bank, expected)
