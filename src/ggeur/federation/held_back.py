"""One split of a federation's training rows, to choose numbers by: what is held back is scored in place of test rows.

A fifth of everybody's rows of each cell, which is a class in a domain; and, where some cells are seen by nobody, a
quarter of the others whole, as then the federation will be asked for what it has not seen.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ggeur.core.types import Bool, Float, Int
from ggeur.federation.choosing import cell_folds, row_folds, unseen

_ROWS, _CELLS = 5, 4  # one of so many is held back


class HeldBack(NamedTuple):
    """Rows that no client trains on, and from which cells they are."""

    kept: list[Int]  # of each client, the rows that it goes on with
    rows: Int  # held back by all clients together
    before: Int  # (D, C): training rows of every cell, before anything was held back
    whole: Bool  # (D, C): cells of which nothing is kept

    def weight(self, scored: Bool) -> Float:
        """(D, C): what each of the cells that were `scored` counts for in the accuracy to expect.

        Every class of every domain counts alike. What rows of a cell say stands for cells that somebody has seen, what
        cells held back whole say for those that nobody has.
        """
        seen, unknown = scored & ~self.whole, scored & self.whole
        weight = np.where(seen, np.count_nonzero(self.before) / max(seen.sum(), 1), 0.0)
        weight[unknown] = unseen(self.before) / max(unknown.sum(), 1)
        return np.asarray(weight / weight.sum())


def hold_back(y: Int, domains: Int, shape: tuple[int, int], parts: Sequence[Int], seed: int) -> HeldBack:
    """The split of clients with the rows `parts` of a table whose rows have classes `y` and `domains`, by `seed`.

    `shape` is how many domains and classes there are.
    """
    rows = np.concatenate(parts)
    count = np.zeros(shape, np.int64)
    np.add.at(count, (domains[rows], y[rows]), 1)
    folds = cell_folds(count, _CELLS, seed) if unseen(count) else []
    whole = np.zeros(shape, np.bool_) if not folds or folds[0].cells is None else folds[0].cells
    kept, held = [], []
    for k, own in enumerate(parts):
        out = (row_folds(y[own], domains[own], _ROWS, seed, k) == 0) | whole[domains[own], y[own]]
        kept.append(own[~out])
        held.append(own[out])
    return HeldBack(kept, np.sort(np.concatenate(held)), count, whole)
