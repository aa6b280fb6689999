"""The statistics that a site sends in round 0: counts, sums and second moments; a federation needs their total.

Second moments are per class, pooled over the classes, or left out where means suffice. In each case they add
up, and means and covariances (Eq. 4) are read off the total, as `ClassStatistics` does it for the per-class case.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from ggeur.stats.errors import GgeurError
from ggeur.stats.statistics import ClassStatistics
from ggeur.stats.types import Bool, Float
from ggeur.stats.units import Units
from ggeur.stats.validate import check_choice, check_numbers

if TYPE_CHECKING:
    from ggeur.stats.features import FeatureQuery, FeatureStatistics

Covariance = Literal["none", "pooled", "per-class"]
_ROUNDING = 1e-13  # rounding of a scatter, over the moments that it is a difference of
COVARIANCES: tuple[Covariance, ...] = ("none", "pooled", "per-class")  # each holds what those before it hold


def largest(kinds: Iterable[Covariance | None]) -> Covariance | None:
    """Return the covariance that serves all of these; None where nothing is needed.

    >>> largest(["none", None, "per-class"])
    'per-class'
    """
    return max((kind for kind in kinds if kind is not None), key=COVARIANCES.index, default=None)


def matrices(kind: Covariance, n_classes: int) -> int:
    """Return how many second moments statistics with that covariance hold."""
    return {"per-class": n_classes, "pooled": 1, "none": 0}[kind]


def statistics_bytes(kind: Covariance | None, n_classes: int, p: int) -> int:
    """Return the bytes that statistics take on their way: float64, and a triangle for each symmetric matrix."""
    return 0 if kind is None else 8 * (n_classes * (1 + p) + matrices(kind, n_classes) * p * (p + 1) // 2)


@dataclass(frozen=True, eq=False)
class SiteStatistics(ClassStatistics):
    """Statistics whose `second` is (C, p, p), or (1, p, p) summed over the classes, or (0, p, p).

    >>> m = SiteStatistics.from_embeddings([[0.0, 1.0], [2.0, 1.0], [5.0, 5.0]], [0, 0, 1], 2).of_kind("pooled")
    >>> m.mean[0], m.within[0, 0]
    (array([1., 1.]), np.float64(0.666...))
    """

    least_count: ClassVar[float] = -np.inf  # noise that protects a count may take it below zero

    @staticmethod
    def _moments(n_classes: int) -> tuple[int, ...]:
        return 0, 1, n_classes

    @property
    def kind(self) -> Covariance:
        held = len(self.second)
        return "per-class" if held == len(self.count) else "pooled" if held else "none"

    def of_kind(self, kind: Covariance) -> Self:
        """Return the same with second moments of `kind`: per class, summed over classes, or none."""
        check_choice("kind", kind, COVARIANCES)
        if kind == "per-class":
            return self
        return replace(self, second=self.second.sum(axis=0, keepdims=True)[: matrices(kind, self.n_classes)])

    @property
    def covariance(self) -> Float:
        """(C, p, p), as `ClassStatistics` has it; needs per-class moments."""
        self._require("per-class")
        return super().covariance

    @property
    def within(self) -> Float:
        """(p, p): the classes' covariances averaged by count, one covariance for all of them."""
        self._require("pooled")
        if self.kind == "per-class":
            return super().within
        n, p = max(float(self.count.sum()), 1.0), self.dimension
        sigma, least = self.scatter_of(0) / n, _ROUNDING * float(np.trace(self.second[0])) / n
        if np.trace(sigma) <= least:  # one sample a class leaves nothing but rounding, of either sign: no direction
            return np.asarray(max(least, np.finfo(np.float64).tiny) / p * np.eye(p))
        return np.asarray((sigma + sigma.T) / 2)

    def scatter_of(self, i: int) -> Float:
        """(p, p): sum of (x - mean)(x - mean)' of class `i` or, where moments are pooled, over all classes."""
        mine = slice(i, i + 1) if self.kind == "per-class" else slice(None)
        shift = self.sum[mine] / np.sqrt(self._n[mine])[:, None]
        return np.asarray(self.second[i] - shift.T @ shift)

    def about(self, center: ArrayLike) -> Self:
        """Return the same with moments about another `center` (p,)."""
        if self.kind == "per-class":
            return super().about(center)
        center = check_numbers("center", center, (self.dimension,))
        if np.array_equal(center, self.center):
            return self
        d = self.center - center
        cross = np.outer(self.sum.sum(axis=0), d)
        second = self.second + (cross + cross.T + self.count.sum() * np.outer(d, d))
        return replace(self, sum=self.sum + self.count[:, None] * d, second=second, center=center)

    @property
    def units(self) -> Units:
        """The grand mean, and the root of the mean variance over coordinates; where means alone are known, of these."""
        n = float(self.count.sum())
        about = self.about(self.center + self.sum.sum(axis=0) / n)
        squares = np.trace(about.second.sum(axis=0)) if len(self.second) else (about.sum**2 / self._n[:, None]).sum()
        return Units.of(about.center, float(squares) / n / self.dimension)

    def in_units(self, units: Units) -> Self:
        """Return the statistics of the same samples in these `units`."""
        about, s = self.about(units.shift), units.scale
        return replace(about, sum=about.sum / s, second=about.second / s**2, center=np.zeros(self.dimension))

    def only(self, classes: Bool) -> Self:
        """Return the statistics of the marked `classes` (C,), the others emptied; pooled moments stay."""
        second = np.where(classes[:, None, None], self.second, 0.0) if self.kind == "per-class" else self.second
        return replace(
            self, count=np.where(classes, self.count, 0.0), sum=np.where(classes[:, None], self.sum, 0.0), second=second
        )

    def _scatters(self) -> Iterator[tuple[int, Float]]:
        return ((i, self.scatter_of(i)) for i in range(len(self.second)))

    def _named(self, i: int) -> str:
        return f"class {i}" if self.kind == "per-class" else "all classes"

    def _require(self, kind: Covariance) -> None:
        if COVARIANCES.index(self.kind) < COVARIANCES.index(kind):
            raise GgeurError(
                f"This needs {kind} second moments, and the sites sent {self.kind}.",
                code="statistics-covariance-missing",
            )


class Breakdown(NamedTuple):
    """The statistics that are kept apart, beside the total of all.

    `of` says whose: of every "domain"; of every "client" and domain; of every "site", whatever domains it has; or of
    every "home", which is the domain of all samples of a site: of sites with several, nothing is kept.
    """

    kind: Covariance
    of: Literal["domain", "client", "site", "home"] = "domain"


EigenvalueRule = Literal["floor", "floor-total", "drop"]  # what becomes of eigenvalues that noise may have made


class StatisticsQuery(NamedTuple):
    """A question to all sites: second moments of the total, and what is kept apart by domain or site.

    `classes` (sites, C) marks the classes that a site sends, by default all. Under noise, directions that it hides are
    raised to it ("floor") for a classifier, or left out ("drop") for a geometry. With `features` the statistics are of
    features of samples, and nothing is kept apart.
    """

    covariance: Covariance
    apart: Breakdown | None = None
    classes: Bool | None = None
    repair: EigenvalueRule = "floor"
    features: FeatureQuery | None = None

    @property
    def by_domain(self) -> bool:
        """Return whether a site sends the samples of each domain by themselves."""
        return self.apart is not None and self.apart.of in ("domain", "client")


@dataclass(frozen=True, eq=False)
class FederationStatistics(SiteStatistics):
    """The total of all statistics and, where a solver asks for them, those of domains or clients kept `apart`.

    `features` are statistics of the same samples' features, which sites are asked for next.
    """

    apart: tuple[SiteStatistics, ...] = ()
    domain: tuple[int, ...] = ()  # of each that is kept apart
    features: FeatureStatistics | None = None

    @classmethod
    def of(cls, messages: Iterable[tuple[int, SiteStatistics]], apart: Breakdown | None = None) -> FederationStatistics:
        """Add up every site's statistics, each with its domain, keeping as much of them as `apart` asks for.

        A negative domain is that of a site with several, of which no "home" is kept.
        """
        kept: dict[int, tuple[int, SiteStatistics]] = {}

        def each() -> Iterator[SiteStatistics]:
            for number, (domain, message) in enumerate(messages):
                if apart is not None:
                    mine, key = message.of_kind(apart.kind), domain if apart.of in ("domain", "home") else number
                    kept[key] = domain, kept[key][1] + mine if key in kept else mine
                yield message

        total = SiteStatistics.merge(each())
        held = [kept[key] for key in sorted(kept) if kept[key][1].count.any()]
        if apart is not None and apart.of == "home":
            held = [one for one in held if one[0] >= 0]
        domains, parts = tuple(domain for domain, _ in held), tuple(part for _, part in held)
        return cls(total.count, total.sum, total.second, total.center, parts, domains)

    @cached_property
    def units(self) -> Units:  # found once: several heads are solved from one total
        """Return the units of all samples."""
        return super().units

    @cached_property
    def within(self) -> Float:
        """Return the covariance within classes, pooled."""
        return super().within

    @cached_property
    def standard(self) -> FederationStatistics:
        """Return the same in units of its own, about its grand mean: what heads are solved from, kept for the next."""
        return self.in_units(self.units)

    def about(self, center: ArrayLike) -> Self:
        """Return the same with moments about another `center` (p,), also of what is kept apart."""
        return replace(super().about(center), apart=tuple(part.about(center) for part in self.apart))

    def in_units(self, units: Units) -> Self:
        """Return the same of samples in these `units`, also of what is kept apart."""
        return replace(super().in_units(units), apart=tuple(part.in_units(units) for part in self.apart))
