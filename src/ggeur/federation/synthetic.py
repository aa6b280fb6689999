"""Synthetic samples with the exact moments of every group, made from a federation's statistics alone.

A group is the samples of one class in one domain, or at one site: n of them, of mean m and scatter S about it. With
F (r x p), F'F = S, r = min(n - 1, p), and a standard normal Z (n x r) without its column means,

    x = m + Q F,    Q = Z L'^-1,    Z'Z = L L'

have that mean and that scatter. If the group is Gaussian, this is the law of its samples, given n, m and S: Q is
uniform among all matrices with orthogonal columns that are orthogonal to the constant. With pooled moments a domain
has one Q, orthogonal to the indicators of its classes, and F'F is the domain's scatter within classes. Class means say
nothing of how samples scatter, so no samples can be made of means alone: this is refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from ggeur.stats.errors import GgeurError
from ggeur.stats.seeding import generator
from ggeur.stats.site_statistics import Breakdown, Covariance, FederationStatistics, SiteStatistics, largest
from ggeur.stats.types import Bool, Float, Int

MOST = 2000  # samples made of a group; of a larger group, each stands for several
_LEAN = 10.0  # samples that a domain's covariance counts for, beside a group's own
_ROUNDING = 1e-10  # share of a covariance's trace
_DOMAIN_LEAN = 50.0  # samples that all domains' covariance counts for, beside a domain's own


@dataclass(frozen=True, eq=False)
class SyntheticSamples:
    """Samples of all groups, domain by domain and class by class, and what they were made from.

    Weighted by `weight`, they have the count, the mean and the scatter of every group.
    """

    x: Float  # (n, p), about the statistics' center
    y: Int  # (n,)
    domain: Int  # (n,), positions in `statistics`
    weight: Float  # (n,), how many samples of its group each stands for
    statistics: tuple[SiteStatistics, ...]  # of every domain, about one center

    @property
    def made(self) -> Int:
        """(D, C): how many samples were made of every group."""
        found = np.zeros((len(self.statistics), self.statistics[0].n_classes), np.int64)
        np.add.at(found, (self.domain, self.y), 1)
        return found

    def samples(self, chosen: Bool | Int) -> Float:
        """Return the chosen samples as embeddings (n, p)."""
        return np.asarray(self.x[chosen] + self.statistics[0].center)

    def folds(self, n_folds: int, seed: int) -> Int:
        """Return the fold (n,) of every sample, spread evenly within each group from a fold that `seed` decides."""
        at = np.arange(len(self.y))
        starts = np.flatnonzero(np.diff(self.domain * len(self.statistics[0].count) + self.y, prepend=-1))
        within = at - np.repeat(starts, np.diff(starts, append=len(at)))
        first = generator(seed, "synthetic folds").integers(n_folds, size=self.made.shape)
        return np.asarray((within + first[self.domain, self.y]) % n_folds)

    def without(self, left: Bool, needs: Covariance, apart: Breakdown | None) -> FederationStatistics:
        """Return the federation's statistics without the samples marked in `left` (n,).

        `needs` is the kind of the total, `apart` what is kept of every domain.
        """
        kind = largest([needs, None if apart is None else apart.kind, "pooled"])
        from_these = self.statistics if kind == "per-class" else self._pooled
        parts = [self._part(d, whole, left) for d, whole in enumerate(from_these)]
        return FederationStatistics.of(((d, part.of_kind(needs)) for d, part in enumerate(parts)), apart)

    @cached_property
    def _pooled(self) -> tuple[SiteStatistics, ...]:
        """The statistics with one second moment for all classes."""
        return tuple(m.of_kind("pooled") for m in self.statistics)

    def _part(self, d: int, whole: SiteStatistics, left: Bool) -> SiteStatistics:
        """The statistics of domain `d`, which are `whole`, without these samples."""
        gone = np.flatnonzero(left & (self.domain == d))
        if not len(gone):
            return whole
        y, made = self.y[gone], np.bincount(self.y[self.domain == d], minlength=whole.n_classes)
        lost = np.bincount(y, minlength=whole.n_classes)
        count = whole.count * (made - lost) / np.maximum(made, 1)  # exactly zero where nothing is left
        z = np.sqrt(self.weight[gone])[:, None] * self.x[gone]
        total, second = whole.sum.copy(), whole.second.copy()
        for c in np.unique(y):
            own = y == c
            total[c] -= (np.sqrt(self.weight[gone[own]])[:, None] * z[own]).sum(axis=0)
            if whole.kind == "per-class":
                second[c] -= z[own].T @ z[own]
        if whole.kind == "pooled":
            second[0] -= z.T @ z
        held = count > 0
        total[~held] = 0.0
        second[~held if whole.kind == "per-class" else not held.any()] = 0.0
        return replace(whole, count=count, sum=total, second=second)


def synthetic_samples(
    by_domain: Sequence[SiteStatistics], seed: int, *, making: int = 0, most: int = MOST
) -> SyntheticSamples:
    """Return samples that have the moments of every group in `by_domain`, a message of every domain or site.

    `seed` and `making` decide the random numbers, group by group. Of a group, `most` samples are made at most, or twice
    as many as there are dimensions: fewer than dimensions could not have its scatter.
    """
    messages = _about_one(by_domain)
    most = max(most, 2 * messages[0].dimension)
    x, y, domain, weight = [], [], [], []
    for d, m in enumerate(messages):
        held = np.flatnonzero(m.present)
        made = np.clip(np.round(m.count[held]), 1, most).astype(np.int64)
        share = m.count[held] / made
        if m.kind == "per-class":
            for i, c in enumerate(held.tolist()):
                rng = generator(seed, "synthetic", making, d, c)
                residual = exact_residuals(m.scatter_of(c), made[i : i + 1], rng)
                x.append(m.sum[c] / m.count[c] + residual / np.sqrt(share[i]))
        else:
            residual = exact_residuals(m.scatter_of(0), made, generator(seed, "synthetic", making, d))
            mean = np.repeat(m.sum[held] / m.count[held, None], made, axis=0)
            x.append(mean + residual / np.sqrt(np.repeat(share, made))[:, None])
        w = np.repeat(share, made)
        y.append(np.repeat(held, made))
        domain.append(np.full(len(w), d))
        weight.append(w)
    return SyntheticSamples(
        np.concatenate(x), np.concatenate(y), np.concatenate(domain), np.concatenate(weight), messages
    )


def exact_residuals(scatter: Float, sizes: Int, rng: np.random.Generator) -> Float:
    """Return (n, p) of that `scatter`, of sum zero in each of the groups that lie one after the other, by `sizes`."""
    n, p = int(sizes.sum()), len(scatter)
    f = square_root(scatter)[: max(n - len(sizes), 0)]
    if not len(f):  # a sample a group, or no scatter
        return np.zeros((n, p))
    z = rng.normal(size=(n, len(f)))
    starts = np.cumsum(sizes) - sizes
    z -= np.repeat(np.add.reduceat(z, starts) / sizes[:, None], sizes, axis=0)
    z = _orthonormal(z)
    return np.asarray(_orthonormal(z) @ f)  # the second time mends what rounding left, where n is about p


def _orthonormal(z: Float) -> Float:
    """The columns made orthonormal by Z'Z = L L': uniform where they are normal."""
    return np.asarray(solve_triangular(np.linalg.cholesky(z.T @ z), z.T, lower=True).T)


def square_root(covariance: Float) -> Float:
    """Return F (rank, p) with F'F = `covariance`, which may be singular: Cholesky's, with pivots."""
    found, pivots, rank, _ = dpstrf(np.asfortranarray(covariance))
    f = np.zeros((rank, len(covariance)))
    f[:, pivots - 1] = np.triu(found)[:rank]
    return f


class GroupCovariances(NamedTuple):
    """Covariances of groups, also where the statistics hold less than a covariance.

    N(m, a S/(n-1) + (1-a) P), a = (n-1) / (n-1+10): P is the scatter within groups of the domain over its degrees of
    freedom, and leans by 50 samples on that of all domains. With pooled moments, a is zero.
    """

    messages: tuple[SiteStatistics, ...]
    roots: tuple[Float, ...]  # F of every domain's P

    @classmethod
    def of(cls, by_domain: Sequence[SiteStatistics]) -> "GroupCovariances":
        """From a message of every domain or site."""
        messages = _about_one(by_domain)
        scatter = [np.sum([s for _, s in _group_scatters(m)], axis=0) for m in messages]
        freedom = [max(float(m.count.sum() - m.present.sum()), 0.0) for m in messages]
        within = np.sum(scatter, axis=0) / max(sum(freedom), 1.0)
        lean = _DOMAIN_LEAN
        each = [(s + lean * within) / (f + lean) for s, f in zip(scatter, freedom, strict=True)]
        return cls(messages, tuple(_above_rounding(square_root(one)) for one in each))

    def draws(self, domain: int, c: int, n: int, rng: np.random.Generator) -> Float:
        """Return `n` embeddings (n, p) drawn as samples of class `c` in that domain."""
        m, like = self.messages[domain], self.roots[domain]
        own, share = np.zeros((0, m.dimension)), 0.0
        if m.kind == "per-class" and m.count[c] > 1:
            freedom = float(m.count[c]) - 1
            share = freedom / (freedom + _LEAN)
            own = _above_rounding(square_root(m.scatter_of(c) * share / freedom))
        noise = rng.normal(size=(n, len(own) + len(like)))
        return np.asarray(m.mean[c] + noise @ np.concatenate([own, np.sqrt(1 - share) * like]))


def _above_rounding(f: Float) -> Float:
    """The rows of a root that are not mere rounding, which would decide how many random numbers are drawn."""
    square = (f**2).sum(axis=1)
    return np.asarray(f[square > _ROUNDING * square.sum()])


def _group_scatters(m: SiteStatistics) -> list[tuple[int, Float]]:
    """Each group's scatter, or the one of all groups of the domain."""
    if m.kind == "per-class":
        return [(int(c), m.scatter_of(int(c))) for c in np.flatnonzero(m.present)]
    return [(0, m.scatter_of(0))]


def _about_one(by_domain: Sequence[SiteStatistics]) -> tuple[SiteStatistics, ...]:
    """The messages that are of any samples, about one center."""
    held = [m for m in by_domain if m.present.any()]
    if not held:
        raise GgeurError(
            "There are no samples at all, so no synthetic samples can be made.", code="training-samples-missing"
        )
    if any(m.kind == "none" for m in held):
        raise GgeurError(
            'Synthetic samples need second moments, and the sites sent class means alone: use covariance = "pooled" '
            'or "per-class".',
            code="statistics-covariance-missing",
        )
    if all(np.array_equal(m.center, held[0].center) for m in held):
        return tuple(held)
    n = sum(float(m.count.sum()) for m in held)
    center = np.asarray(sum(m.count.sum() * m.center + m.sum.sum(axis=0) for m in held) / n)
    return tuple(m.about(center) for m in held)
