"""What an engine trains on: one run's clients as virtual sets, and several runs stacked over the same table."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ggeur.core.errors import GgeurError
from ggeur.core.virtual import VirtualSet
from ggeur.heads.head import Params


class Run(NamedTuple):
    """One seed of one setting: who holds what, how much each client weighs, and where training starts."""

    seed: int
    table: NDArray[Any]  # (N, p) embeddings, shared by all runs of a stack
    prototypes: NDArray[Any]  # (D * C, p), base rows N and on
    bank: NDArray[np.float32] | None
    sets: Sequence[VirtualSet]
    weights: NDArray[np.float64]  # (K,), before they are normalised over a round's participants
    params: Params
    n_classes: int
    own_params: Any = ()  # (K, ...), where clients start from heads of their own and nothing is broadcast


class Stack(NamedTuple):
    """Runs over one base and one bank, their indices shifted to match."""

    base: NDArray[Any]
    bank: NDArray[np.float32] | None
    sets: list[list[VirtualSet]]  # [run][client]


def stack_runs(runs: Sequence[Run]) -> Stack:
    """Lay the runs' prototypes and banks end to end behind the one table they share."""
    table = runs[0].table
    table = table.astype(np.float32) if table.dtype == np.float16 else table
    base = np.concatenate([table, *(run.prototypes for run in runs)], dtype=table.dtype)
    with_noise = [run.bank for run in runs if run.bank is not None]
    bank = np.concatenate([with_noise[0][:1], *(b[1:] for b in with_noise)]) if with_noise else None
    sets, row_shift, noise_shift = [], 0, 0
    for run in runs:
        if run.table is not runs[0].table:
            raise GgeurError("Runs of one stack must share one table.")
        sets.append([_shifted(s, len(table), row_shift, noise_shift) for s in run.sets])
        row_shift += len(run.prototypes)
        noise_shift += 0 if run.bank is None else len(run.bank) - 1
    return Stack(base, bank, sets)


def _shifted(s: VirtualSet, table_rows: int, row_shift: int, noise_shift: int) -> VirtualSet:
    row = np.where(s.row >= table_rows, s.row + row_shift, s.row).astype(np.int32)
    return s._replace(row=row, noise=(s.noise + np.sign(s.noise) * noise_shift).astype(np.int32))
