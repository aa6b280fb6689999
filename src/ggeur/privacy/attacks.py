"""What follows from a message about the samples behind it: the samples themselves, their span, who was among them.

A group is the samples of one class at one site. Each attack takes what a message says of a group and nothing else, so
an attacker can do all of this; whoever holds the samples too can measure how well it works (`experiment/audit`).
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ggeur.core.site_statistics import SiteStatistics
from ggeur.core.types import Bool, Float

_ZERO = 1e-10  # an eigenvalue over the largest, below which it is rounding
_ROUNDING = 1e-14  # of a scatter, over the sum of squares that the mean's were taken off
_INSIDE = 1e-6  # what may be left of a sample outside a span it is in, over the sample's distance from the mean
_EQUAL = 1e-6  # how well three norms must agree to be called equal


class Spread(NamedTuple):
    """The directions in which samples differ from their mean, largest first, and the sum of squares along each."""

    values: Float  # (r,)
    vectors: Float  # (p, r)

    @classmethod
    def of(cls, scatter: NDArray[Any], squares: float = 0.0) -> "Spread":
        """Of a symmetric matrix (p, p), without directions of rounding alone; it was formed from sums of `squares`."""
        values, vectors = np.linalg.eigh(np.asarray((scatter + scatter.T) / 2, np.float64))
        values, vectors = values[::-1], vectors[:, ::-1]
        kept = values > max(_ZERO * values[0], _ROUNDING * squares)
        return cls(values[kept], vectors[:, kept])


class Group(NamedTuple):
    """What a message says of the samples of one class."""

    n: int
    mean: Float  # (p,)
    spread: Spread | None = None  # of these samples or, where moments are pooled, of all classes' about their own means
    freedom: int = 0  # how many directions those samples can fill: their number less that of their classes


def groups(message: SiteStatistics) -> dict[int, Group]:
    """The groups of a `message`, by class."""
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
    """What is left of the `total` for a site that takes its `own` message off: with two sites, the other's message."""
    count = total.count - own.count
    return replace(
        total, count=count, sum=np.where(count[:, None] > 0, total.sum - own.sum, 0.0), second=total.second - own.second
    )


def recovered_rows(group: Group) -> Float | None:
    """The very samples (n, p) of a `group`, in some order, where they follow from what is said of it; else None.

    One sample is its mean. Of two, x = mean +- sqrt(lambda) v with the one eigenpair of their covariance. Three lie on
    an ellipse a third of a turn apart, and their norms, if they are equal, say where.
    """
    if group.n == 1:
        return group.mean[None]
    if group.spread is not None and not len(group.spread.values):  # all alike
        return np.repeat(group.mean[None], group.n, axis=0)
    if (
        group.spread is None or group.freedom != group.n - 1 or group.n > 3
    ):  # pooled with other classes: not of these samples
        return None
    if group.n == 2:
        step = np.sqrt(group.spread.values[0] / 2) * group.spread.vectors[:, 0]
        return np.asarray(np.stack([group.mean + step, group.mean - step]))
    return _three_rows(group.mean, group.spread)


def _three_rows(mean: Float, spread: Spread) -> Float | None:
    """x_k = mean + sqrt(2/3) (sqrt(l1) cos t_k v1 + sqrt(l2) sin t_k v2) with t_k = t + 2 pi k / 3, for one t.

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
    """Which of `samples` (m, p) can be among those behind `mean` and `spread`; None where the spread fills all space.

    Up to p samples leave a direction in which none of them differs from the mean. Any other sample almost surely does.
    """
    if len(spread.values) >= len(mean):
        return None
    z = np.asarray(samples, np.float64) - mean
    left = z - (z @ spread.vectors) @ spread.vectors.T
    return np.asarray(np.linalg.norm(left, axis=1) <= inside * np.linalg.norm(z, axis=1))


def likelihood_ratio(group: Group, samples: NDArray[Any]) -> Float:
    """(m,): scores that order `samples` by how much likelier the message is with the sample among the group's than
    without.

    For Gaussian samples the scatter S is Wishart, and what is left of it without a sample z has about (1 - h) times its
    determinant, h = (z - mean)' S^-1 (z - mean). The population's covariance is in the ratio too, but an attacker does
    not know it, so h decides: below 1 for every sample behind S, and about p / n; about p / (n - p) for others. Without
    second moments the covariance is taken to be round, and nearer to the mean is likelier.
    """
    z = np.asarray(samples, np.float64) - group.mean
    if group.spread is None or not len(group.spread.values):
        return np.asarray(-(z**2).sum(axis=1))
    return np.asarray(-((z @ group.spread.vectors) ** 2 / group.spread.values).sum(axis=1))


def auc(members: Float, others: Float) -> float:
    """How often a member scores above another sample, ties counted half: 0.5 is a coin, 1 tells them apart."""
    ranked = np.sort(others)
    below, upto = np.searchsorted(ranked, members, "left"), np.searchsorted(ranked, members, "right")
    return float((below + upto).mean() / 2 / len(others))


def chance(members: int, others: int) -> float:
    """The standard deviation of the AUC of a coin, with so many members and others."""
    return float(np.sqrt((members + others + 1) / (12 * members * others)))
