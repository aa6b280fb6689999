"""A simulated federation without some of its samples, to choose a head by."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import jax
import numpy as np

from ggeur.core.site_statistics import FederationStatistics, statistics_bytes
from ggeur.core.types import Bool, Int
from ggeur.federation.local_clients import Clients, merged_statistics
from ggeur.federation.selection_rule import Fold, Heads, right_answers, sample_folds
from ggeur.methods.algorithm import Selection


@dataclass
class LocalFolds:
    """Clients, each with the fold of every sample of it, and what a client would send and receive."""

    clients: Clients
    chosen: Selection
    fold: Sequence[Int]
    bytes_up: int = 0
    bytes_down: int = 0

    @classmethod
    def of(
        cls, clients: Clients, chosen: Selection, seed: int, least: int = 0, *, together: bool = False
    ) -> "LocalFolds":
        """With at `least` so many samples of a group in each fold that has any of it, which fill `together`."""
        each = [
            sample_folds(clients.y[samples], clients.domains[samples], chosen.folds, seed, k, least, together=together)
            for k, samples in enumerate(clients.parts)
        ]
        return cls(clients, chosen, each)

    def _in(self, fold: Fold, client: int) -> Bool:
        samples = self.clients.parts[client]
        if fold.groups is None:
            return np.asarray(self.fold[client] == fold.number)
        return fold.groups[self.clients.domains[samples], self.clients.y[samples]]

    def rows_in(self, fold: Fold) -> Int:
        """All samples of `fold`, client after client."""
        return np.concatenate([samples[self._in(fold, k)] for k, samples in enumerate(self.clients.parts)])

    def total(self, fold: Fold) -> FederationStatistics:
        """The statistics of all samples but those of `fold`."""
        if fold.groups is None or self.chosen.needs != "per-class":  # from sums of every class, groups can be dropped
            self.bytes_up += statistics_bytes(self.chosen.needs, self.shape[1], self.clients.x.shape[1])
        kept = [samples[~self._in(fold, k)] for k, samples in enumerate(self.clients.parts)]
        return merged_statistics(self.clients._replace(parts=kept), self.chosen.needs, apart=self.chosen.apart)

    def right(self, each: Iterable[tuple[Fold, Heads]]) -> Iterator[Int]:
        """Of each fold (heads, D, C): how many samples of every group of it each head gets right."""
        return (self._right(fold, heads) for fold, heads in each)

    def _right(self, fold: Fold, heads: Heads) -> Int:
        c = self.clients
        self.bytes_up += 8 * len(heads) * self.shape[1]
        self.bytes_down += sum(leaf.nbytes for _, params in heads for leaf in jax.tree.leaves(params))
        samples = self.rows_in(fold)
        of_fold = c.x[samples], c.y[samples], c.domains[samples], self.shape
        return np.stack([right_answers(head, *of_fold) for head in heads])

    @property
    def shape(self) -> tuple[int, int]:
        """How many domains and classes there are."""
        return int(self.clients.domains.max()) + 1, self.clients.n_classes

    def count(self) -> Int:
        """(D, C): samples of every group."""
        return self.clients.group_counts()
