"""Which counts of a site's test samples stay there: those below `min_count`, and those that would give them away.

A count is small where it is neither zero nor at least `min_count`. Nothing small is shown, nor anything that is a
difference of what is shown: rows add up to the samples of a class, rights to those of the site, and a probability above
one half makes its class the answer. A hidden zero protects the others: it cannot be told from them.
"""

from typing import Any

import numpy as np

from ggeur.stats.types import Bool, Int

FEW_WRONG, FEW_RIGHT = 1, 2


def small(count: Any, least: int) -> Any:
    """Return whether a count, or each of several, is small."""
    return (count > 0) & (count < least)


def guessed(total: int, cells: int, least: int) -> bool:
    """Return whether so many hidden `cells`, each below `least`, are nearly known by their `total`."""
    most, fewest = min(least - 1, total), max(0, total - (cells - 1) * (least - 1))
    return total > 0 and most - fewest < least // 2


def hidden_cells(row: Int, c: int, least: int) -> Bool:
    """Return which cells of the confusion matrix's `row` of class `c` are withheld."""
    others = np.arange(len(row)) != c
    hidden = np.zeros(len(row), np.bool_)
    if small(row[others], least).any():
        hidden |= others & (row < least)
    hidden[c] |= bool(small(row[c], least))
    while small(row[hidden].sum(), least) or _guessed(row[hidden], least):
        shown = np.flatnonzero(~hidden & (row > 0))
        if not len(shown):
            break  # there is nothing left to hide
        hidden[shown[row[shown].argmin()]] = True
    return hidden


def _guessed(cells: Int, least: int) -> bool:
    return bool(len(cells)) and bool((cells < least).all()) and guessed(int(cells.sum()), len(cells), least)


def hidden_rights(confusion: Int, hidden: Bool, least: int) -> tuple[Bool, bool]:
    """Return what is `hidden` with more of the diagonal, and whether the number of all that are right is hidden, too.

    It is where any class's own number is: their difference would bound that one. Where a class has few wrong samples,
    those with none are hidden like it.
    """
    hidden, right, held = hidden.copy(), np.diag(confusion), confusion.sum(axis=1) > 0
    wrong = confusion.sum(axis=1) - right
    if small(wrong, least).any():
        hidden[held & (wrong < least)] = True
    alone = bool(np.diag(hidden).any() or small(right.sum(), least) or small(wrong.sum(), least))
    return hidden, alone


def kept_edges(positive: Int, negative: Int, right: int, taken: int, least: int) -> Bool:
    """Return (101,): between which bins of a class's scores counts are kept apart, so that none is small.

    `right` are its samples that are taken as such, and `taken` the others that are: a probability from one half on is
    one of them, so that what is left of them is known.
    """
    bins = len(positive)
    kept = np.zeros(bins + 1, np.bool_)
    kept[[0, -1]] = True
    if least <= 1:
        return np.ones(bins + 1, np.bool_)
    above = [np.append(np.cumsum(counts[::-1])[::-1], 0) for counts in (positive, negative)]
    last = bins
    for edge in range(bins - 1, 0, -1):
        in_bin = [counts[edge] - counts[last] for counts in above]
        below = [counts[0] - counts[edge] for counts in above]
        rest = [right - above[0][edge], taken - above[1][edge]] if 2 * edge >= bins else []
        if not any(small(count, least) or count < 0 for count in (*in_bin, *below, *rest)):
            kept[edge], last = True, edge
    return kept
