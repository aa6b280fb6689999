"""What the clients' rows add up to: the merged statistics of a simulated federation, and the shapes they give."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ggeur.core.geometry import Geometry
from ggeur.core.means import class_means, covariance_from_means
from ggeur.core.statistics import ClassStatistics
from ggeur.core.types import Int
from ggeur.data.table import EmbeddingTable
from ggeur.settings.schema import Augment

_LOT_ROWS = 2048  # of clients that are summed up together
_FAR = 1e3  # mean over spread beyond which second moments about zero lose half of their sixteen digits


def global_geometry(table: EmbeddingTable, parts: Sequence[Int], homes: Sequence[int | None], a: Augment) -> Geometry:
    """The shape of every class from what `[augment] statistics` lets clients send."""
    if a.statistics == "means":
        each = [class_means(table.x[p], table.y[p], table.n_classes) for p in parts]
        count, mean = np.stack([n for n, _ in each]), np.stack([m for _, m in each])
        domain = np.array([-1 if home is None else home for home in homes])
        return Geometry.from_covariance(covariance_from_means(count, mean, domain), count.sum(axis=0) > 0)
    s = federation_statistics(table, parts, a.guided)
    if a.statistics == "pooled":
        return Geometry.from_covariance(s.within[None], s.present)
    return Geometry.from_statistics(s)


def federation_statistics(table: EmbeddingTable, parts: Sequence[Int], guided: float = 1.0) -> ClassStatistics:
    """The merged statistics of all clients; with `guided` < 1 only of the largest clients of each class.

    The released scripts take, class by class, clients in order of count until they hold that share of the class.
    """
    n_classes = table.n_classes
    kept: list[Int] = list(parts)
    if guided < 1:
        count = np.stack([np.bincount(table.y[p], minlength=n_classes) for p in parts])
        order = np.argsort(-count, axis=0, kind="stable")
        ranked = np.take_along_axis(count, order, axis=0)
        enough = np.cumsum(ranked, axis=0) - ranked < guided * count.sum(axis=0)  # still short before this client
        chosen = np.zeros_like(enough)
        np.put_along_axis(chosen, order, enough, axis=0)
        kept = [p[chosen[k, table.y[p]]] for k, p in enumerate(parts)]
    center = shared_center(table, kept)
    return ClassStatistics.merge(
        ClassStatistics.from_embeddings(table.x[rows], table.y[rows], n_classes, center=center) for rows in _lots(kept)
    )


def _lots(parts: Sequence[Int]) -> Iterator[Int]:
    """The clients' rows, small clients together: the sums of a lot are the sum of its clients' sums.

    A client's sums are a matrix per class however few its rows, so that ten thousand clients one by one would take
    minutes to add up.
    """
    lot: list[Int] = []
    rows = 0
    for part in parts:
        lot.append(part)
        rows += len(part)
        if rows >= _LOT_ROWS:
            yield np.concatenate(lot)
            lot, rows = [], 0
    if rows:
        yield np.concatenate(lot)


def shared_center(table: EmbeddingTable, parts: Sequence[Int]) -> NDArray[np.float64] | None:
    """The federation's mean, where it is so far above the spread that moments about zero would lose digits.

    One more sum per client; where it is not needed (nearly always) the center stays at zero and nothing is sent.
    """
    rows = np.concatenate(parts)
    mean = table.x[rows].mean(axis=0, dtype=np.float64)
    spread = np.sqrt(((table.x[rows] - mean) ** 2).mean())
    return mean if np.abs(mean).max() > _FAR * spread else None
