"""What sites sent, kept apart so that one can join or leave: every site's sums, and what they add up to.

Each site's moments are about the mean of its own samples, and are brought to the mean of all who are there when they
are added up, in the order of the sites' names. So nothing of a site that has left remains in the total, not even in its
last digits, and samples far from zero lose none.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ggeur.core.errors import GgeurError
from ggeur.core.site_statistics import COVARIANCES, Breakdown, Covariance, FederationStatistics, SiteStatistics
from ggeur.core.types import Float, Int
from ggeur.federation.summary import summarise


class StoredStatistics(NamedTuple):
    """What a site sent of its samples: of every domain, by its name, a message about the mean of the samples there."""

    name: str
    class_names: tuple[str, ...]  # its own, in its own order
    kind: Covariance
    messages: Mapping[str, SiteStatistics]

    @property
    def samples(self) -> int:
        """How many samples they are of."""
        return int(sum(m.count.sum() for m in self.messages.values()))

    def of_kind(self, kind: Covariance) -> "StoredStatistics":
        """As much of them as `kind` is."""
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
    """Return what the site `name` sends of samples `x` (n, p) of classes `y` and domains `domain` (n,)."""
    messages = {}
    with threadpool_limits(1):  # the number of threads decides the last digits, and a site may be asked again
        for d in sorted(np.unique(domain).tolist(), key=lambda d: domain_names[d]):
            samples = np.flatnonzero(domain == d)
            center = np.asarray(np.mean(x[samples], axis=0, dtype=np.float64))
            message = summarise(x[samples], y[samples], len(class_names), kind, center)
            messages[domain_names[d]] = message.about(center) if kind == "none" else message
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
    return SiteStatistics.merge(m.about(center) for m in messages)


class MergedStatistics(NamedTuple):
    """What the sums of all sites come to, and of every domain what a head must have of it."""

    class_names: tuple[str, ...]
    message: SiteStatistics
    apart: Mapping[str, SiteStatistics]

    @property
    def total(self) -> FederationStatistics:
        """As a head is solved from it: domains in the order of their names."""
        m, center = self.message, self.message.center
        names = [d for d in sorted(self.apart) if self.apart[d].count.any()]
        parts = tuple(self.apart[d].about(center) for d in names)
        return FederationStatistics(m.count, m.sum, m.second, center, parts, tuple(range(len(names))))


def add_up(
    sites: Iterable[StoredStatistics],
    names: tuple[str, ...],
    needs: Covariance,
    apart: Breakdown | None,
) -> MergedStatistics:
    """The sums of `sites` by name, of the classes `names`.

    `needs` is what is kept of the total, `apart` what is of every domain.
    """
    if apart is not None and apart.of == "client":
        raise GgeurError(
            "This head needs every client's message apart, which sums kept by domain do not hold.",
            code="statistics-client-not-kept",
        )
    every: list[SiteStatistics] = []
    by_domain: dict[str, list[tuple[SiteStatistics, tuple[str, ...]]]] = {}
    for site in sorted(sites, key=lambda s: s.name):
        # Reduced before it is aligned: pooled moments are then the same, to the bit, whatever the site once kept.
        every += [aligned(m, needs, site.class_names, names) for m in site.of_kind(needs).messages.values()]
        for domain, m in site.of_kind(apart.kind).messages.items() if apart is not None else ():
            by_domain.setdefault(domain, []).append((m, site.class_names))
    if not every:
        raise GgeurError("There are no sites, so there is nothing to solve a head from.", code="sites-missing")
    kind = "none" if apart is None else apart.kind
    parts = {d: merged([aligned(m, kind, own, names) for m, own in found]) for d, found in sorted(by_domain.items())}
    return MergedStatistics(names, merged(every), parts)
