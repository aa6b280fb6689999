"""Statistics that sites sent, stored by site so that one can join or leave, and their total.

Each site's moments are about the mean of its own samples, and are brought to the mean of all who are there when they
are added up, in the order of the sites' names. So nothing of a site that has left remains in the total, not even in its
last digits, and samples far from zero lose none.
"""

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ggeur.federation.protocol import SiteInfo
from ggeur.federation.stored_features import HeldSamples, StoredFeatures, key_of, not_resent
from ggeur.federation.summary import digits_note
from ggeur.stats.errors import GgeurError, GgeurWarning
from ggeur.stats.features import FeatureQuery
from ggeur.stats.long_jobs import phased
from ggeur.stats.packed_statistics import packed_statistics
from ggeur.stats.site_statistics import (
    COVARIANCES,
    Breakdown,
    Covariance,
    FederationStatistics,
    SiteStatistics,
    StatisticsQuery,
)
from ggeur.stats.streaming import Piece
from ggeur.stats.types import Float, Int
from ggeur.stats.units import Units


class StoredStatistics(NamedTuple):
    """The statistics that a site sent: by domain name, moments about the mean of its samples there."""

    name: str
    class_names: tuple[str, ...]  # its own, in its own order
    kind: Covariance
    messages: Mapping[str, SiteStatistics]
    features: StoredFeatures | None = None  # of its samples, where a solver asked for them
    sequence: int = 0  # of the file that they came in; a later one replaces it

    @property
    def samples(self) -> int:
        """How many samples they are of."""
        return int(sum(m.count.sum() for m in self.messages.values()))

    def of_kind(self, kind: Covariance) -> "StoredStatistics":
        """Return the same with second moments of `kind`, which must not be more than was sent."""
        if COVARIANCES.index(kind) > COVARIANCES.index(self.kind):
            raise GgeurError(
                f"This needs {kind} second moments, and the site '{self.name}' sent {self.kind}.",
                code="statistics-covariance-missing",
            )
        return self._replace(kind=kind, messages={d: m.of_kind(kind) for d, m in self.messages.items()})

    def joined(self, more: "StoredStatistics", names: tuple[str, ...]) -> "StoredStatistics":
        """These and those of `more` samples of the same site; the classes are then `names`."""
        found = dict(self.of_classes(names).messages)
        for domain, m in more.of_classes(names).messages.items():
            found[domain] = merged([found[domain], m]) if domain in found else m
        return self._replace(class_names=names, messages=found)

    def of_classes(self, names: tuple[str, ...]) -> "StoredStatistics":
        """The same for the classes `names`, which hold the site's own."""
        moved = {d: aligned(m, self.kind, self.class_names, names) for d, m in self.messages.items()}
        return self._replace(class_names=names, messages=moved)


def stored_statistics(
    name: str,
    x: NDArray[Any],
    y: Int,
    class_names: tuple[str, ...],
    domain: Int,
    domain_names: Sequence[str],
    kind: Covariance,
) -> StoredStatistics:
    """Return the statistics of the site `name`: samples `x` (n, p) of classes `y` and domains `domain` (n,)."""
    return statistics_of_pieces(name, [Piece(x, y, domain)], class_names, domain_names, kind)


def statistics_of_pieces(
    name: str,
    pieces: Iterable[Piece],
    class_names: tuple[str, ...],
    domain_names: Sequence[str],
    kind: Covariance,
    *,
    workers: int = 0,
) -> StoredStatistics:
    """Return the statistics of the site `name`, whose samples come in `pieces`, in memory that they do not fill.

    How they are cut, and how many `workers` there are (0: one for each processor), does not matter to a bit.
    """
    packed = packed_statistics(pieces, len(class_names), kind, workers=workers)
    messages = {domain_names[d]: packed[d].statistics for d in sorted(packed, key=lambda d: domain_names[d])}
    return StoredStatistics(name, class_names, kind, messages)


def union_of_classes(each: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """The classes of all sites: in their order where all name the same, else sorted, numbers as numbers."""
    lists = set(each)
    if len(lists) == 1:
        return lists.pop()
    names = {name for one in lists for name in one}
    numbers = {name: number_of(name) for name in names}
    # The name too, since "1" and "1.0" are one number; and no mixture, which would have no order.
    by_number = all(number is not None for number in numbers.values())
    return tuple(sorted(names, key=lambda name: (numbers[name] if by_number else 0, name)))


def number_of(name: str) -> float | None:
    """The number that a class is called by, if it is one; "nan" and "inf" are names."""
    try:
        number = float(name)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in name else None


def aligned(m: SiteStatistics, kind: Covariance, own: tuple[str, ...], names: tuple[str, ...]) -> SiteStatistics:
    """The message `m` of that `kind` and the classes `own` as one of the classes `names`, which hold them all."""
    if own == names:
        return m
    at = [names.index(name) for name in own]
    count, total, second = np.zeros(len(names)), np.zeros((len(names), m.dimension)), m.second
    count[at], total[at] = m.count, m.sum
    if kind == "per-class":
        second = np.zeros((len(names), *m.second.shape[1:]))
        second[at] = m.second
    return replace(m, count=count, sum=total, second=second)


def mean_of(messages: Sequence[SiteStatistics]) -> Float:
    """(p,): the mean of all their samples, added up in the order in which they come."""
    n = sum(float(m.count.sum()) for m in messages)
    return np.asarray(sum(m.count.sum() * m.center + m.sum.sum(axis=0) for m in messages) / n)


def merged(messages: Sequence[SiteStatistics]) -> SiteStatistics:
    """Their sum, about their mean."""
    center = mean_of(messages)
    if len(messages) == 1:
        return messages[0].about(center)
    return SiteStatistics.merge(m.about(center) for m in messages)


class StoredFederation:
    """A federation of what `stored_sites` have sent, in a file or in this process, of the classes `class_names`.

    It is added up by the sites' names, each about the mean of all. Training samples stay where they are: it has no
    rounds. Statistics of features are answered from samples that are still `held` here, by site, and then stored too.
    """

    def __init__(
        self,
        stored_sites: Iterable[StoredStatistics],
        class_names: tuple[str, ...],
        held: Mapping[str, HeldSamples] | None = None,
    ) -> None:
        self.stored = tuple(sorted(stored_sites, key=lambda site: site.name))
        self.class_names, self._held = class_names, held or {}
        if not any(site.messages for site in self.stored):
            raise GgeurError("There are no sites, so there is nothing to solve a head from.", code="sites-missing")
        # What was added up once: solving and calibration ask for parts of what selection has asked for.
        self._totals: dict[Covariance, SiteStatistics] = {}
        self._kept_apart: dict[Breakdown, list[tuple[int, SiteStatistics]]] = {}
        self.domain_names = tuple(sorted({domain for site in self.stored for domain in site.messages}))

    @property
    def dimension(self) -> int:
        """Return the dimension p of the embeddings."""
        return next(m.dimension for site in self.stored for m in site.messages.values())

    @property
    def sites(self) -> Sequence[SiteInfo]:
        """Return the sites, by name."""
        each = []
        for site in self.stored:
            counts = np.zeros(len(self.class_names), np.int64)
            at = [self.class_names.index(name) for name in site.class_names]
            counts[at] = np.sum([m.count for m in site.messages.values()], axis=0)
            home = self.domain_names.index(next(iter(site.messages))) if len(site.messages) == 1 else None
            each.append(SiteInfo(site.name, counts, home))
        return each

    def statistics(self, query: StatisticsQuery) -> FederationStatistics:
        """Return the statistics of all sites, about the mean of all their samples; domains in the order of their names.

        Nothing is repaired: what is noisy was repaired by whoever stored it.
        """
        if query.features is not None:
            return self._of_features(query.features)
        total, parts = self._total(query.covariance), self._parts(query.apart)
        domains, messages = tuple(d for d, _ in parts), tuple(m for _, m in parts)
        found = FederationStatistics(total.count, total.sum, total.second, total.center, messages, domains)
        if note := digits_note(found):
            warnings.warn(note, GgeurWarning, stacklevel=2)
        return found

    def units(self) -> Units:
        """Return the units of all training samples."""
        return self._total(self.kind).units

    @property
    def kind(self) -> Covariance:
        """Return the covariance that every site has sent."""
        return min((site.kind for site in self.stored), key=COVARIANCES.index)

    def _messages(self, kind: Covariance) -> list[SiteStatistics]:
        """Every site's messages, reduced before they are aligned: what is not asked for is not moved."""
        return [
            aligned(m, kind, site.class_names, self.class_names)
            for site in self.stored
            for m in site.of_kind(kind).messages.values()
        ]

    def _total(self, kind: Covariance) -> SiteStatistics:
        if kind not in self._totals:
            self._totals[kind] = merged(self._messages(kind))
        return self._totals[kind]

    def _parts(self, apart: Breakdown | None) -> list[tuple[int, SiteStatistics]]:
        """What is kept apart, with its domains, about the mean of all samples; nothing of whoever has none."""
        if apart is None:
            return []
        if apart not in self._kept_apart:
            total = self._total(apart.kind)
            alone = apart.of == "domain" and len(self.domain_names) == 1
            each = [(0, total)] if alone else self._apart(apart)
            self._kept_apart[apart] = [(d, m.about(total.center)) for d, m in each if m.count.any()]
        return self._kept_apart[apart]

    def _of_features(self, asked: FeatureQuery) -> FederationStatistics:
        """Return the total of all sites' statistics of features; whose answer is of another question is asked again."""
        each = [(site, self._own(asked, site)) for site in self.stored]
        old = [s.name for s, own in each if s.features is None or s.features.key != key_of(own)]
        if lost := [name for name in old if name not in self._held]:
            if all(site.features is None for site in self.stored):
                raise GgeurError(
                    "Statistics of features are made of samples, and here are only statistics of them: fit to the "
                    "samples of all sites at once, or take another solver, such as ridge.",
                    code="features-need-samples",
                )
            raise not_resent(lost)
        asks = phased("features", each)
        self.stored = tuple(self._answered(site, own) if site.name in old else site for site, own in asks)
        messages = (
            aligned(site.features.message(asked), "pooled", site.class_names, self.class_names)
            for site in self.stored
            if site.features is not None
        )
        return FederationStatistics.of((0, message) for message in messages)

    def _answered(self, site: StoredStatistics, asked: FeatureQuery) -> StoredStatistics:
        """Return the same with its statistics of features."""
        held, domains = self._held[site.name], sorted(site.messages)
        return site._replace(features=StoredFeatures.of(asked, held, domains, len(site.class_names)))

    def _own(self, asked: FeatureQuery, site: StoredStatistics) -> FeatureQuery:
        """Return what is `asked` of a site, with the weights of its own groups; those that it has no samples of are 0.

        Its domains are numbered in the order of their names.
        """
        if asked.weights is None:
            return asked
        domains = [self.domain_names.index(domain) for domain in sorted(site.messages)]
        classes = [self.class_names.index(name) for name in site.class_names]
        count = np.stack([site.messages[domain].count for domain in sorted(site.messages)])
        return asked._replace(weights=np.where(count > 0, asked.weights[np.ix_(domains, classes)], 0.0))

    def _apart(self, apart: Breakdown) -> Iterator[tuple[int, SiteStatistics]]:
        """Yield the statistics that are kept apart, each with its domain."""
        sites = [site.of_kind(apart.kind).of_classes(self.class_names) for site in self.stored]
        if apart.of == "domain":
            for d, domain in enumerate(self.domain_names):
                yield d, merged([site.messages[domain] for site in sites if domain in site.messages])
            return
        homes = [self.domain_names.index(next(iter(s.messages))) if len(s.messages) == 1 else -1 for s in sites]
        if apart.of == "home":
            for d in sorted({home for home in homes if home >= 0}):
                own = [s for s, home in zip(sites, homes, strict=True) if home == d]
                yield d, merged([m for s in own for m in s.messages.values()])
            return
        for site, home in zip(sites, homes, strict=True):
            if apart.of == "site":
                yield home, merged(list(site.messages.values()))
            else:
                yield from ((self.domain_names.index(domain), m) for domain, m in site.messages.items())
