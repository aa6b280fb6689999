"""A site's half of round 0: its samples become a message; and what a server does first with messages."""

import warnings

import numpy as np
from numpy.typing import NDArray

from ggeur.core.errors import GgeurWarning
from ggeur.core.means import class_sums
from ggeur.core.site_statistics import Covariance, SiteStatistics
from ggeur.core.types import Bool, Float, Int

_FAR = 1e3  # mean over spread beyond which second moments about zero lose half of their sixteen digits


def summarise(
    x: NDArray[np.floating], y: Int, n_classes: int, kind: Covariance, center: Float | None = None
) -> SiteStatistics:
    """Return what a site with samples `x` (n, p) of classes `y` sends: moments of that `kind` about `center` (default:
    zero).
    """
    if kind == "none":
        p = x.shape[1]
        return SiteStatistics(*class_sums(x, y, n_classes), np.zeros((0, p, p)), np.zeros(p))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GgeurWarning)  # whether zero is too far off is the server's to see
        message = SiteStatistics.from_embeddings(x, y, n_classes, center=center)
    return message if kind == "per-class" else message.of_kind(kind)


def far_center(total: SiteStatistics) -> Float | None:
    """The federation's mean, where it is so far above the spread that moments about it must be asked for."""
    n, p = float(total.count.sum()), total.dimension
    if not len(total.second) or n == 0:
        return None
    mean = total.sum.sum(axis=0) / n
    square = (np.trace(total.second.sum(axis=0)) / n - mean @ mean) / p
    return mean if np.abs(mean).max() > _FAR * np.sqrt(max(square, 0.0)) else None


def digits_note(total: SiteStatistics) -> str:
    """Return what to say where a class is so far from the center, and so tight, that its covariance is half
    rounding.
    """
    if total.kind == "none":
        return ""
    n = np.where(total.present, total.count, 1.0)
    far = ((total.sum / n[:, None]) ** 2).sum(axis=1)
    pooled = total.kind == "pooled"
    spread = np.trace(total.within) if pooled else np.trace(total.second, axis1=1, axis2=2) / n - far
    if not ((far > 1e8 * spread) & (spread > 0)).any():
        return ""
    return (
        "The mean of a class is so far from the others' and its spread so small that its covariance loses more than "
        "half of its digits."
    )


def guided(count: Int, share: float) -> Bool:
    """(K, C): which clients give a class its shape; those with most of its samples, until they hold that share of it.

    The released scripts do so, class by class; a `share` of 1 takes everybody.
    """
    if share >= 1:
        return np.ones(count.shape, np.bool_)
    order = np.argsort(-count, axis=0, kind="stable")
    ranked = np.take_along_axis(count, order, axis=0)
    enough = np.cumsum(ranked, axis=0) - ranked < share * count.sum(axis=0)  # still short before this client
    chosen = np.zeros_like(enough)
    np.put_along_axis(chosen, order, enough, axis=0)
    return np.asarray(chosen)
