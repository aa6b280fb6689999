"""How far the statistics of two sites are from each other, by their messages alone, and a map of all sites.

Each site counts as one Gaussian per class, all of the same shape W, the covariance within the classes of every site,
but with a spread s of its own: tr(W^-1 S) / p of its own covariance S. The squared distance of sites a and b is, to
second order, the symmetric divergence of Kullback and Leibler of these Gaussians, averaged over the classes of both:

    d^2 = sum_c h_c (|m_ac - m_bc|^2 - p (s_a / n_ac + s_b / n_bc)) / sum_c h_c  +  p/2 log(s_a / s_b)^2

with lengths of m in units of W and h_c = 1 / (1 / n_ac + 1 / n_bc). What is taken off is how far means of so few rows
are apart at sites that are alike; below zero is zero. Whole covariances of few rows are too noisy to compare.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ggeur.core.geometry import shrunk
from ggeur.core.message import Message
from ggeur.core.types import Float

_SHRINKAGE = 0.1  # of W: with fewer rows than dimensions it has no inverse


def distances(messages: Sequence[Sequence[Message]]) -> Float:
    """(n, n), of the `messages` that each site sends; where these are means alone W is a sphere and nothing taken off.

    Sites that share no class are as far apart as the shortest way over others and, without one, as the farthest two.
    """
    first = next(message for own in messages for message in own)
    nothing = replace(first, count=0 * first.count, sum=0 * first.sum, second=0 * first.second)
    sites = [Message.merge([nothing, *own]) for own in messages]
    count = np.stack([site.count for site in sites])
    means, spread = _in_units(sites)
    d = np.full((len(sites), len(sites)), np.inf)
    for a, b in np.ndindex(d.shape):
        both = (count[a] > 0) & (count[b] > 0)
        if both.any():
            noise = spread[a] / count[a, both] + spread[b] / count[b, both]  # p is part of the spread
            h = 1 / (1 / count[a, both] + 1 / count[b, both])
            apart = ((means[a, both] - means[b, both]) ** 2).sum(axis=1) - noise
            wider = means.shape[2] / 2 * np.log(spread[a] / spread[b]) ** 2 if spread.all() else 0.0
            d[a, b] = np.sqrt(max(float(h @ apart / h.sum()), 0.0) + wider)
    np.fill_diagonal(d, 0.0)
    d = _by_way_of_others(d)
    return np.where(np.isinf(d), d[np.isfinite(d)].max(), d)


def places(distance: Float) -> Float:
    """(n, 2): classical multidimensional scaling, the plane in which the `distance` (n, n) are kept best."""
    n = len(distance)
    center = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-center @ distance**2 @ center / 2)
    axes = vectors[:, ::-1][:, :2] * np.sqrt(np.maximum(values[::-1][:2], 0.0))
    axes = np.pad(axes, ((0, 0), (0, 2 - axes.shape[1])))
    # An axis has no sign: whoever is farthest out along it is at its positive end.
    return np.asarray(axes * np.where(axes[np.abs(axes).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0))


def _in_units(sites: Sequence[Message]) -> tuple[Float, Float]:
    """Means (n, C, p) in units of W, and p s (n,); of a site whose rows say nothing of it, that of all."""
    total = Message.merge(sites)
    if not len(total.second):
        return np.stack([site.mean for site in sites]) / total.units.scale, np.zeros(len(sites))
    free = np.array([site.count.sum() - site.present.sum() for site in sites])  # rows beyond the means
    scatter = [np.sum([site.scatter_of(i) for i in range(len(site.second))], axis=0) for site in sites]
    within = np.sum(scatter, axis=0) / max(free.sum(), 1.0)
    if not within.any():
        within = np.eye(len(within))  # rows all alike have no shape
    inverse = np.linalg.inv(np.linalg.cholesky(shrunk(within, _SHRINKAGE)))
    spread = np.array([(inverse @ s * inverse).sum() / max(n, 1.0) for s, n in zip(scatter, free, strict=True)])
    means = np.stack([site.mean - total.center for site in sites]) @ inverse.T
    return means, np.where(spread > 0, spread, (inverse @ within * inverse).sum())


def _by_way_of_others(d: Float) -> Float:
    """The `d` (n, n) with what is unknown, infinite, filled in by the shortest way."""
    way = d
    for k in range(len(d)):  # Floyd and Warshall
        way = np.minimum(way, way[:, k, None] + way[None, k])
    return np.where(np.isinf(d), way, d)
