"""Attacks on the statistics of a group: reconstruction of its samples, their span, and membership inference.

A group is the samples of one class at one site. Each attack uses only the statistics of a group, as an attacker would;
`experiments/audit` has the samples too and measures how well the attacks work.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ggeur.stats.site_statistics import SiteStatistics
from ggeur.stats.types import Bool, Float

_ZERO = 1e-10  # an eigenvalue over the largest, below which it is rounding
_ROUNDING = 1e-14  # rounding in a scatter, over the sum of squares that the mean's were subtracted from
_INSIDE = 1e-6  # the largest remainder outside its span of a sample in it, over the sample's distance from the mean
_EQUAL = 1e-6  # how well three norms must agree to be called equal


class Spread(NamedTuple):
    """The directions in which samples differ from their mean, largest first, and the sum of squares along each."""

    values: Float  # (r,)
    vectors: Float  # (p, r)

    @classmethod
    def of(cls, scatter: NDArray[Any], squares: float = 0.0) -> "Spread":
        """Return the spread of a symmetric `scatter` (p, p), from sums of `squares`, without directions of rounding."""
        values, vectors = np.linalg.eigh(np.asarray((scatter + scatter.T) / 2, np.float64))
        values, vectors = values[::-1], vectors[:, ::-1]
        kept = values > max(_ZERO * values[0], _ROUNDING * squares)
        return cls(values[kept], vectors[:, kept])


class Group(NamedTuple):
    """The statistics of the samples of one class."""

    n: int
    mean: Float  # (p,)
    spread: Spread | None = (
        None  # of these samples or, where the covariance is pooled, of all classes' about their means
    )
    freedom: int = 0  # the largest rank of their scatter: the number of samples less that of their classes


def groups(message: SiteStatistics) -> dict[int, Group]:
    """Return the groups of a `message`, by class."""
    n = message.count.astype(int)
    pooled, freedom = None, int((n[n > 0] - 1).sum())
    if message.kind == "pooled" and freedom:
        pooled = Spread.of(message.scatter_of(0), float(np.trace(message.second[0])))
    found = {}
    for c in np.flatnonzero(message.present).tolist():
        if message.kind == "per-class":
            own = Spread.of(message.scatter_of(c), float(np.trace(message.second[c]))) if n[c] > 1 else None
            found[c] = Group(int(n[c]), message.mean[c], own, int(n[c]) - 1)
        else:
            found[c] = Group(int(n[c]), message.mean[c], pooled, freedom if pooled else 0)
    return found


def remainder(total: SiteStatistics, own: SiteStatistics) -> SiteStatistics:
    """Return the `total` less a site's `own` statistics: with two sites, those of the other."""
    count = total.count - own.count
    return replace(
        total, count=count, sum=np.where(count[:, None] > 0, total.sum - own.sum, 0.0), second=total.second - own.second
    )


def recovered_samples(group: Group) -> Float | None:
    """Return the samples (n, p) of a `group`, in some order, where they follow from its statistics; else None.

    One sample is its mean. Two are mean +- sqrt(lambda) v with the one eigenpair of their covariance. Three lie on an
    ellipse a third of a turn apart; equal norms determine where.
    """
    if group.n == 1:
        return group.mean[None]
    if group.spread is not None and not len(group.spread.values):  # all alike
        return np.repeat(group.mean[None], group.n, axis=0)
    if group.spread is None or group.freedom != group.n - 1 or group.n > 3:  # pooled with other classes
        return None
    if group.n == 2:
        step = np.sqrt(group.spread.values[0] / 2) * group.spread.vectors[:, 0]
        return np.asarray(np.stack([group.mean + step, group.mean - step]))
    return _three_samples(group.mean, group.spread)


def _three_samples(mean: Float, spread: Spread) -> Float | None:
    """Solve x_k = mean + sqrt(2/3) (sqrt(l1) cos t_k v1 + sqrt(l2) sin t_k v2), t_k = t + 2 pi k / 3, for t.

    Then |x_k|^2 is a constant + Re(a e^{i t_k} + c e^{2i t_k}), and the three are equal if a e^{it} + c e^{-2it} = 0.
    So 3t = arg(-c / a), and |a| = |c| tells whether the norms are equal at all.
    """
    if len(spread.values) != 2:
        return None
    axes = np.sqrt(2 / 3 * spread.values) * spread.vectors  # (p, 2)
    along = 2 * axes.T @ mean
    a, c = complex(along[0], -along[1]), (axes[:, 0] @ axes[:, 0] - axes[:, 1] @ axes[:, 1]) / 2
    if abs(a) == 0 or abs(abs(a) - c) > _EQUAL * (mean @ mean + spread.values.sum()):
        return None
    t = np.angle(-c / a) / 3 + 2 * np.pi * np.arange(3) / 3
    return np.asarray(mean + np.stack([np.cos(t), np.sin(t)], axis=1) @ axes.T)


def in_span(mean: Float, spread: Spread, samples: NDArray[Any], inside: float = _INSIDE) -> Bool | None:
    """Return which of `samples` (m, p) can belong to `mean` and `spread`; None where the spread fills the space.

    Up to p samples leave a direction in which none of them differs from the mean. Any other sample almost surely does.
    """
    if len(spread.values) >= len(mean):
        return None
    z = np.asarray(samples, np.float64) - mean
    left = z - (z @ spread.vectors) @ spread.vectors.T
    return np.asarray(np.linalg.norm(left, axis=1) <= inside * np.linalg.norm(z, axis=1))


def likelihood_ratio(group: Group, samples: NDArray[Any]) -> Float:
    """Return (m,): membership scores of `samples`, which order them as the likelihood ratio of the statistics does.

    For Gaussian samples the scatter S is Wishart, and without a sample z its determinant is about (1 - h) times as
    large, h = (z - mean)' S^-1 (z - mean). The population's covariance is in the ratio too, but an attacker does not
    know it, so h decides: below 1 and about p / n for every sample in S; about p / (n - p) for others. Without second
    moments the covariance is taken as a multiple of the identity, and samples nearer to the mean are likelier.
    """
    z = np.asarray(samples, np.float64) - group.mean
    if group.spread is None or not len(group.spread.values):
        return np.asarray(-(z**2).sum(axis=1))
    return np.asarray(-((z @ group.spread.vectors) ** 2 / group.spread.values).sum(axis=1))


def auc(members: Float, others: Float) -> float:
    """Return the AUC: how often a member scores above another sample, ties counted half; 0.5 is chance, 1 perfect."""
    ranked = np.sort(others)
    below, upto = np.searchsorted(ranked, members, "left"), np.searchsorted(ranked, members, "right")
    return float((below + upto).mean() / 2 / len(others))


def chance(members: int, others: int) -> float:
    """Return the standard deviation of a random score's AUC, with so many members and others."""
    return float(np.sqrt((members + others + 1) / (12 * members * others)))
