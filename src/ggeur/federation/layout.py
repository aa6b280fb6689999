"""Who draws what: counts of every client and class, prototypes of every domain, everybody's place in the noise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggeur.core.augmented_sets import BankLayout, BankPiece
from ggeur.core.site_statistics import SiteStatistics
from ggeur.core.types import Bool, Int
from ggeur.federation.augmentation import Augmentation


@dataclass(frozen=True)
class Layout:
    """Settled once for a run; a client that comes back finds its part again."""

    count: Int  # (K, C) samples that clients hold
    home: Int  # (K,) the domain of a client's samples, -1 where they mix or it has none
    domains: Int  # (D,) those with prototypes
    prototypes: NDArray[Any]  # (D, C, p)
    present: Bool  # (D, C)
    draws: Int  # (K, C)
    bank: BankLayout

    @classmethod
    def of(
        cls, count: Int, home: Sequence[int | None], by_home: Mapping[int, SiteStatistics], p: int, a: Augmentation
    ) -> "Layout":
        """From who holds how much of what, and what the clients of each domain sent together, where Step 2 is taken."""
        n_clients, n_classes = count.shape
        homes = np.array([-1 if d is None else d for d in home], np.int64)
        domains = np.array(sorted(by_home), np.int64)
        prototypes = np.zeros((0, n_classes, p))
        present = np.zeros((0, n_classes), np.bool_)
        if len(domains):
            prototypes = np.stack([by_home[d].mean for d in domains.tolist()])
            present = np.stack([by_home[d].present for d in domains.tolist()])
        draws = np.zeros((n_clients, n_classes), np.int64)
        if a.rule is not None:
            others = (homes[:, None] >= 0) & (homes[:, None] != domains)  # (K, D)
            draws = a.rule.draws(count, present & others[:, :, None])
        bank = BankLayout.of(draws if a.draws_noise else np.zeros_like(draws), p, a.bank_bytes)
        return cls(count, homes, domains, prototypes, present, draws, bank)

    def others(self, k: int) -> Int:
        """Whose prototypes client k draws around: all domains' but its own; nobody's if it mixes them."""
        return np.flatnonzero((self.domains != self.home[k]) & (self.home[k] >= 0))

    def samples(self, k: int) -> int:
        """How many samples client k trains on."""
        return int(self.count[k].sum() + self.draws[k].sum())

    def piece(self, k: int) -> BankPiece:
        """The samples of the bank that client k draws."""
        return BankPiece(self.bank.offset[k], self.draws[k], self.bank.size)


def with_prototypes(a: Augmentation, home: Sequence[int | None]) -> bool:
    """Whether Step 2 is taken and has anything to add: clients must be of several domains."""
    return a.prototypes and len({d for d in home if d is not None}) > 1
