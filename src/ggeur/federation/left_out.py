"""A simulated federation without some of its rows, to choose a head by."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import jax
import numpy as np

from ggeur.core.message import Total, message_bytes
from ggeur.core.types import Bool, Int
from ggeur.federation.choosing import Fold, Heads, right_answers, row_folds
from ggeur.federation.simulated import Clients, merged_total
from ggeur.methods.algorithm import Chosen


@dataclass
class SimulatedFolds:
    """Clients, each with the fold of every row of it, and what a client would send and receive."""

    clients: Clients
    chosen: Chosen
    fold: Sequence[Int]
    bytes_up: int = 0
    bytes_down: int = 0

    @classmethod
    def of(
        cls, clients: Clients, chosen: Chosen, seed: int, least: int = 0, *, together: bool = False
    ) -> "SimulatedFolds":
        """With at `least` so many rows of a cell in each fold that has any of it, which fill `together`."""
        each = [
            row_folds(clients.y[rows], clients.domains[rows], chosen.folds, seed, k, least, together=together)
            for k, rows in enumerate(clients.parts)
        ]
        return cls(clients, chosen, each)

    def _in(self, fold: Fold, client: int) -> Bool:
        rows = self.clients.parts[client]
        if fold.cells is None:
            return np.asarray(self.fold[client] == fold.number)
        return fold.cells[self.clients.domains[rows], self.clients.y[rows]]

    def rows_in(self, fold: Fold) -> Int:
        """All rows of `fold`, client after client."""
        return np.concatenate([rows[self._in(fold, k)] for k, rows in enumerate(self.clients.parts)])

    def total(self, fold: Fold) -> Total:
        """The statistics of all rows but those of `fold`."""
        if fold.cells is None or self.chosen.needs != "per-class":  # from sums of every class, cells can be dropped
            self.bytes_up += message_bytes(self.chosen.needs, self.shape[1], self.clients.x.shape[1])
        kept = [rows[~self._in(fold, k)] for k, rows in enumerate(self.clients.parts)]
        return merged_total(self.clients._replace(parts=kept), self.chosen.needs, apart=self.chosen.apart)

    def right(self, each: Iterable[tuple[Fold, Heads]]) -> Iterator[Int]:
        """Of each fold (heads, D, C): how many rows of every cell of it each head gets right."""
        return (self._right(fold, heads) for fold, heads in each)

    def _right(self, fold: Fold, heads: Heads) -> Int:
        c = self.clients
        self.bytes_up += 8 * len(heads) * self.shape[1]
        self.bytes_down += sum(leaf.nbytes for _, params in heads for leaf in jax.tree.leaves(params))
        rows = self.rows_in(fold)
        of_fold = c.x[rows], c.y[rows], c.domains[rows], self.shape
        return np.stack([right_answers(head, *of_fold) for head in heads])

    @property
    def shape(self) -> tuple[int, int]:
        """How many domains and classes there are."""
        return int(self.clients.domains.max()) + 1, self.clients.n_classes

    def count(self) -> Int:
        """(D, C): rows of every cell."""
        return self.clients.cell_counts()
