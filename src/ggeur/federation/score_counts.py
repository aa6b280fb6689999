"""Count what a classifier says of a site's test samples: the only thing that leaves a site when it is evaluated.

Per class: how many samples, as what they are taken, and in which of 100 bins their probability of the class lies, those
of the class and those of the others. From counts of all sites follow accuracy, AUROC and the rest (`metrics`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ggeur.federation.small_counts import FEW_RIGHT, FEW_WRONG, hidden_cells, hidden_rights, kept_edges, small
from ggeur.stats.types import Bool, Int

BINS = 100
WITHHELD = -1


class GroupCounts(NamedTuple):
    """Sums over the groups of test samples (patients, say), for intervals: of n samples of a group r are right."""

    groups: int
    right_squared: int  # sum of r * r
    right_times_samples: int  # sum of r * n
    samples_squared: int  # sum of n * n


@dataclass(frozen=True, eq=False)
class ScoreCounts:
    """Counts of one site's test samples; with a `min_count`, -1 stands for what is withheld.

    `few` says why the number of right ones of a class is withheld: 1 for fewer than `min_count` wrong ones (or none), 2
    for fewer right ones, 0 to protect another count; the last entry is that of all classes. Bins between kept `edges`
    are merged: their counts stand in the first. Of two classes only the scores of the second are kept, the other's are
    the same.
    """

    samples: Int  # (C,)
    confusion: Int  # (C, C), true class first
    right: int
    few: Int  # (C + 1,)
    positive: Int  # (C, 100), or (1, 100) of two classes: scores of a class, of its samples
    negative: Int  # the same of the other samples
    edges: Bool  # (C, 101), or (1, 101)
    groups: GroupCounts | None = None

    @property
    def scored(self) -> Int:
        """Return the class of each row of scores."""
        return np.arange(len(self.samples)) if len(self.positive) != 1 else np.array([len(self.samples) - 1])


def count_scores(
    probabilities: NDArray[Any], y: Int, min_count: int = 0, groups: Sequence[Any] | None = None
) -> ScoreCounts:
    """Return the counts of samples with these `probabilities` (n, C) of classes `y`, without small ones.

    Samples of a class with fewer than `min_count` are left out. Counts over `groups` are kept if there are as many.

    >>> count_scores(np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]), np.array([0, 1, 1])).confusion
    array([[1, 0],
           [1, 1]])
    """
    p, n_classes = np.asarray(probabilities, np.float64), probabilities.shape[1]
    kept = np.bincount(y, minlength=n_classes)[y] >= min_count
    p, y, guess = p[kept], y[kept], p[kept].argmax(axis=1)
    samples = np.bincount(y, minlength=n_classes)
    confusion = np.bincount(y * n_classes + guess, minlength=n_classes**2).reshape(n_classes, n_classes)
    rows = np.arange(n_classes) if n_classes != 2 else np.array([1])
    place = np.minimum((p[:, rows] * BINS).astype(np.int64), BINS - 1)
    positive = np.stack([np.bincount(place[y == c, k], minlength=BINS) for k, c in enumerate(rows)])
    negative = np.stack([np.bincount(place[y != c, k], minlength=BINS) for k, c in enumerate(rows)])
    edges = np.stack(
        [
            kept_edges(positive[k], negative[k], confusion[c, c], confusion[:, c].sum() - confusion[c, c], min_count)
            for k, c in enumerate(rows)
        ]
    )
    hidden = np.stack([hidden_cells(confusion[c], c, min_count) for c in range(n_classes)])
    total, alone = hidden_rights(confusion, hidden, min_count)
    right, wrong = np.diag(confusion), samples - np.diag(confusion)
    few = np.where(wrong < min_count, FEW_WRONG, np.where(small(right, min_count), FEW_RIGHT, 0))
    few = np.append(np.where(np.diag(total), few, 0), _few(right.sum(), wrong.sum(), min_count) if alone else 0)
    return ScoreCounts(
        samples,
        np.where(total, WITHHELD, confusion),
        WITHHELD if alone else int(right.sum()),
        few.astype(np.int64),
        _merged(positive, edges),
        _merged(negative, edges),
        edges,
        None if groups is None or alone else _of_groups(np.asarray(groups, object)[kept], y == guess, min_count),
    )


def _few(right: int, wrong: int, least: int) -> int:
    return FEW_WRONG if small(wrong, least) else FEW_RIGHT if small(right, least) else 0


def _merged(counts: Int, edges: Bool) -> Int:
    """Return the counts with those of merged bins in the first of them."""
    merged = np.zeros_like(counts)
    for row, kept, out in zip(counts, edges, merged, strict=True):
        first = np.flatnonzero(kept[:-1])
        out[first] = np.add.reduceat(row, first)
    return merged


def _of_groups(groups: NDArray[Any], right: Bool, min_count: int) -> GroupCounts | None:
    if not len(groups):
        return None
    _, place = np.unique(groups.astype(str), return_inverse=True)
    n, r = np.bincount(place), np.bincount(place, right).astype(np.int64)
    if len(n) < max(min_count, 2):
        return None
    return GroupCounts(len(n), int((r * r).sum()), int((r * n).sum()), int((n * n).sum()))
