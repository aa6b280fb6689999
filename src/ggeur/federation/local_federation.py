"""A federation in one process: clients hold samples of one table. What a real site computes, is computed in a loop."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ggeur.federation.augmentation import Augmentation
from ggeur.federation.augmentation_plan import about_center, plan_augmentation
from ggeur.federation.protocol import SiteInfo
from ggeur.federation.summary import ALL, digits_note, repaired_total, summarise
from ggeur.federation.synthetic import SyntheticSamples
from ggeur.privacy.release import EXACT, Release, large_groups
from ggeur.stats.augmented_sets import AugmentedSet, NoisePlace, training_set
from ggeur.stats.errors import GgeurError, GgeurWarning
from ggeur.stats.features import FeatureQuery
from ggeur.stats.geometry import LowRank
from ggeur.stats.seeding import generator
from ggeur.stats.site_statistics import Breakdown, Covariance, FederationStatistics, SiteStatistics, StatisticsQuery
from ggeur.stats.types import Float, Int
from ggeur.stats.units import SampleMoments, Units

_LOT_ROWS = 2048  # of clients that are summed up together


class TrainingSets(NamedTuple):
    """The clients' training sets after Section 3 of the paper."""

    sets: list[AugmentedSet]
    prototypes: NDArray[Any]  # (D * C, p)
    bank: NDArray[np.float32] | None
    shapes: LowRank | None = None  # of draws whose expected loss takes their place


@dataclass(frozen=True, eq=False)
class LocalFederation:
    """The clients of one table: who holds which samples, and how they protect what they send."""

    x: NDArray[Any]  # (N, p)
    y: Int
    n_classes: int
    parts: Sequence[Int]  # each client's samples
    homes: Sequence[int | None]  # the domain of each client's samples; None where they mix, or there are none
    domains: Int  # (N,)
    release: Release = EXACT
    sends: Covariance | None = None  # in the one message of each client, where it is not exact

    @classmethod
    def of(
        cls, x: NDArray[Any], y: Int, domains: Int, n_classes: int, parts: Sequence[Int], min_count: int = 0
    ) -> "LocalFederation":
        """Return the clients with these `parts` of a table's columns; groups under `min_count` samples are left out."""
        if min_count:
            parts = [samples[large_groups(y[samples], domains[samples], min_count)] for samples in parts]
        each = [np.unique(domains[samples]) for samples in parts]
        homes = [int(d[0]) if len(d) == 1 else None for d in each]
        return cls(x, y, n_classes, parts, homes, domains)

    @cached_property
    def sites(self) -> Sequence[SiteInfo]:
        """Return the clients, which go by their numbers."""
        counts = [np.bincount(self.y[samples], minlength=self.n_classes) for samples in self.parts]
        return [SiteInfo(f"client {k}", n, home) for k, (n, home) in enumerate(zip(counts, self.homes, strict=True))]

    def statistics(self, query: StatisticsQuery) -> FederationStatistics:
        """Return the total of all clients' statistics, about a center where zero would lose digits."""
        if query.features is not None:
            return self._of_features(query.features)
        if not self.release.exact:
            return self._noisy(query)
        messages = list(self._messages(query))
        total = about_center(
            lambda center: FederationStatistics.of(
                ((key, self.message(samples, query.covariance, center)) for key, samples in messages), query.apart
            )
        )
        if note := digits_note(total):
            warnings.warn(note, GgeurWarning, stacklevel=2)
        return total

    def units(self) -> Units:
        """Return the federation's own units, from the sums that each client sends of its training samples."""
        return SampleMoments.merge(SampleMoments.of(self.x[samples]) for samples in self.parts).units

    def prepare(self, a: Augmentation, seed: int) -> TrainingSets:
        """Return every client's training set, and the prototypes and noise that they share."""
        p = self.x.shape[1]
        why = "the table has one domain" if len(np.unique(self.domains)) == 1 else "the clients mix domains"
        layout, shapes, notes = plan_augmentation(self, a, p, why)
        for note in notes:
            warnings.warn(note, GgeurWarning, stacklevel=2)
        whole = layout.bank.whole
        bank = whole.noise(shapes.factors, shapes.factor_of, seed) if a.draws_noise else None
        expected = None if a.rank is None else shapes.by_class
        sets = []
        for k, samples in enumerate(self.parts):
            others = np.zeros_like(layout.present)
            others[layout.others(k)] = layout.present[layout.others(k)]  # the base holds the prototypes of all domains
            noise = None if bank is None else NoisePlace(whole, layout.bank.offset[k], k, seed)
            y, marks = self.y[samples], expected is not None
            sets.append(training_set(samples, y, a.rule, others, noise, len(self.x), expected=marks))
        return TrainingSets(sets, layout.prototypes.reshape(-1, p), bank, expected)

    def message(self, samples: Int, kind: Covariance, center: Float | None = None) -> SiteStatistics:
        """Return the statistics of these samples."""
        return summarise(self.x[samples], self.y[samples], self.n_classes, kind, center)

    def by_domain(self, kind: Covariance) -> tuple[SiteStatistics, ...]:
        """Return the statistics of every domain that somebody has samples of, about one center."""
        return self.statistics(StatisticsQuery(kind, Breakdown(kind))).apart

    def _of_features(self, asked: FeatureQuery) -> FederationStatistics:
        """Return the total of all clients' statistics of features."""
        if not self.release.exact:
            raise GgeurError(
                "Statistics of features have no noise in them, and this release adds some: take ridge or ggeur-limit.",
                code="statistics-features-exact",
            )
        each = (
            asked.statistics(self.x[samples], self.y[samples], self.domains[samples], self.n_classes)
            for samples in _lots(self.parts)
        )
        return FederationStatistics.of((ALL, message) for message in each)

    def samples_of_groups(self, statistics: FederationStatistics, seed: int) -> SyntheticSamples:
        """Return the clients' samples in the form of synthetic ones, for cross-validation on them in this process.

        `statistics` are theirs by domain; `seed` decides the order within a group, by which folds are cut.
        """
        samples, order = np.concatenate(self.parts), []
        for d in statistics.domain:
            own = generator(seed, "real samples", d).permutation(samples[self.domains[samples] == d])
            order.append(own[np.argsort(self.y[own], kind="stable")])
        domain = np.repeat(np.arange(len(order)), [len(own) for own in order])
        every = np.concatenate(order)
        x = self.x[every].astype(np.float64) - statistics.apart[0].center
        return SyntheticSamples(x, self.y[every].astype(np.int64), domain, np.ones(len(every)), statistics.apart)

    def _messages(self, query: StatisticsQuery) -> Iterator[tuple[int, Int]]:
        """Yield the samples behind each message, with what it is kept apart by."""
        for key, samples in self._parts_of(query).items():
            alone = query.apart is not None and query.apart.of != "domain"
            for part in filter(len, samples) if alone else _lots(samples):
                yield key, part

    def _parts_of(self, query: StatisticsQuery) -> dict[int, list[Int]]:
        """The clients' samples, by what `query` keeps apart."""
        parts = list(self.parts)
        if query.classes is not None:
            parts = [samples[query.classes[k, self.y[samples]]] for k, samples in enumerate(parts)]
        if query.by_domain:
            domains = np.unique(self.domains).tolist()
            return {d: [samples[self.domains[samples] == d] for samples in parts] for d in domains}
        if query.apart is None:
            return {ALL: parts}
        whose = [ALL if home is None else home for home in self.homes]
        return {d: [part for part, home in zip(parts, whose, strict=True) if home == d] for d in sorted(set(whose))}

    def _noisy(self, query: StatisticsQuery) -> FederationStatistics:
        """Return the total of noisy messages: one of every client or, by domain, one of every domain that it has."""
        n, kind = len(self.parts), self.sends or query.covariance
        if query.apart is not None and query.apart.of == "home":
            sent = (self.release.apply(self.message(samples, kind), n, k) for k, samples in enumerate(self.parts))
            whose = [ALL if home is None else home for home in self.homes]
            total = FederationStatistics.of(
                ((d, m.of_kind(query.covariance)) for d, m in zip(whose, sent, strict=True)), query.apart
            )
            homes = zip(total.domain, total.apart, strict=True)
            apart = tuple(self.release.repair(part, [whose.count(d)], query.repair, kind) for d, part in homes)
            return replace(self.release.repair(total, [n], query.repair, kind), apart=apart)
        # Of which domains a client is, is public; of these it sends every class, whether it has samples of it or not.
        parts = self._parts_of(query)
        held = {d: [k for k, samples in enumerate(each) if d == ALL or len(samples)] for d, each in parts.items()}
        many = {d: len(those) for d, those in held.items() if those}
        messages = (
            (d, self.release.apply(self.message(parts[d][k], kind), many[d], k, d).of_kind(query.covariance))
            for d, those in held.items()
            for k in those
        )
        return repaired_total(self.release, messages, many, query.apart, query.repair)


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
