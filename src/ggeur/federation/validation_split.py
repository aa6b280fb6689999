"""One split of a federation's training samples, to choose numbers by: what is held back is scored in place of test
samples.

A fifth of everybody's samples of each group, which is a class in a domain; and, where some groups are seen by nobody, a
quarter of the others whole, as then the federation will be asked for what it has not seen.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ggeur.core.types import Bool, Float, Int
from ggeur.federation.folds import group_folds, sample_folds, unseen

_ROWS, _CELLS = 5, 4  # one of so many is held back


class ValidationSplit(NamedTuple):
    """Samples that no client trains on, and from which groups they are."""

    kept: list[Int]  # of each client, the samples that it goes on with
    samples: Int  # held back by all clients together
    before: Int  # (D, C): training samples of every group, before anything was held back
    whole: Bool  # (D, C): groups of which nothing is kept

    def weight(self, scored: Bool) -> Float:
        """(D, C): what each of the groups that were `scored` counts for in the accuracy to expect.

        Every class of every domain counts alike. What samples of a group say stands for groups that somebody has seen,
        what groups held back whole say for those that nobody has.
        """
        seen, unknown = scored & ~self.whole, scored & self.whole
        weight = np.where(seen, np.count_nonzero(self.before) / max(seen.sum(), 1), 0.0)
        weight[unknown] = unseen(self.before) / max(unknown.sum(), 1)
        return np.asarray(weight / weight.sum())


def validation_split(y: Int, domains: Int, shape: tuple[int, int], parts: Sequence[Int], seed: int) -> ValidationSplit:
    """The split of clients with the samples `parts` of a table whose samples have classes `y` and `domains`, by `seed`.

    `shape` is how many domains and classes there are.
    """
    samples = np.concatenate(parts)
    count = np.zeros(shape, np.int64)
    np.add.at(count, (domains[samples], y[samples]), 1)
    folds = group_folds(count, _CELLS, seed) if unseen(count) else []
    whole = np.zeros(shape, np.bool_) if not folds or folds[0].groups is None else folds[0].groups
    kept, held = [], []
    for k, own in enumerate(parts):
        out = (sample_folds(y[own], domains[own], _ROWS, seed, k) == 0) | whole[domains[own], y[own]]
        kept.append(own[~out])
        held.append(own[out])
    return ValidationSplit(kept, np.sort(np.concatenate(held)), count, whole)
