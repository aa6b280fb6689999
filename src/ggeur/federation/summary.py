"""Summarise a site's samples as statistics, and merge those of all sites, repaired where they are noisy."""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ggeur.privacy.release import Release
from ggeur.stats.errors import GgeurError, GgeurWarning
from ggeur.stats.moments import class_sums
from ggeur.stats.site_statistics import Breakdown, Covariance, EigenvalueRule, FederationStatistics, SiteStatistics
from ggeur.stats.types import Bool, Float, Int

_FAR = 1e3  # mean over spread beyond which second moments about zero lose half of their sixteen digits


def summarise(
    x: NDArray[np.floating], y: Int, n_classes: int, kind: Covariance, center: Float | None = None
) -> SiteStatistics:
    """Return the statistics of samples `x` (n, p) of classes `y`: moments of that `kind` about `center` (default:
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
    """Return a warning where a class is so far from the center, and so tight, that its covariance is half
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


ALL = -1  # domains


def repaired_total(
    release: Release,
    sent: Iterable[tuple[int, SiteStatistics]],
    clients: Mapping[int, int],
    apart: Breakdown | None = None,
    eigenvalues: EigenvalueRule = "floor",
) -> FederationStatistics:
    """Return the repaired total of what was `sent` under `release`, with domains, by so many `clients` of each."""
    if apart is not None and apart.of in ("client", "site"):
        raise GgeurError(
            "Under [privacy] epsilon or mechanism no head can be solved from the means of single clients.",
            code="privacy-head-from-means",
        )
    if release.unit == "client" and set(clients) != {ALL}:
        raise GgeurError(
            'With unit = "client" a client sends one message, and this head needs one for each domain; take ridge.',
            code="privacy-client-unit-domains",
        )
    for domain, many in clients.items():
        if many < release.least_clients:
            whose = "The federation" if domain == ALL else "A domain whose statistics are kept apart"
            raise GgeurError(
                f"{whose} has {many} clients, and a secure aggregation needs {release.least_clients}: "
                "of two, each could take its own part off.",
                code="secure-aggregation-too-few-sites",
            )
    total = FederationStatistics.of(sent, apart)
    parts = tuple(
        release.repair(part, [clients[domain]], eigenvalues)
        for domain, part in zip(total.domain, total.apart, strict=True)
    )
    made = release.repair(total, clients.values(), eigenvalues)
    if not made.present.any():
        raise GgeurError(
            f"Nothing is left of any class under {release.label}"
            + (f" and min_count = {release.min_count}" if release.min_count else "")
            + ": use a weaker privacy guarantee, secure aggregation, or more samples.",
            code="privacy-noise-excessive",
        )
    return replace(made, apart=parts)
