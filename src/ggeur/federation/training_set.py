"""A client's training set: its own rows, and draws around them and around others' prototypes, as indices."""

import numpy as np
from numpy.typing import NDArray

from ggeur.core.augment import Draws, plan_draws
from ggeur.core.types import Bool, Int
from ggeur.core.virtual import BankPiece, VirtualSet, virtual_set
from ggeur.federation.augmentation import Augmentation


def training_set(
    own: Int,
    y: Int,
    a: Augmentation,
    present: Bool,
    noise: tuple[BankPiece, Int, int, int] | None,
    prototypes_at: int,
) -> VirtualSet:
    """The set of a client that holds base rows `own` with labels `y`.

    `present` (D, C) marks the prototypes it may draw around, which lie in the base from `prototypes_at` on. `noise` is
    the piece of the bank that its draws index, where it starts in it, which client it is, and the seed.
    """
    draws = Draws(np.zeros(0, np.int64), np.zeros(0, np.int64))
    if a.rule is not None:
        draws = plan_draws(y, present.shape[1], prototypes=present, **a.rule._asdict())
    signed: NDArray[np.int32] | None = None
    if noise is not None:
        piece, offset, client, seed = noise
        signed = piece.noise_rows(offset, client, draws.label, seed)
    return virtual_set(own, y, draws, signed, prototypes_at)
