"""The data an engine trains on: one run's clients as virtual sets, and several runs stacked over the same table."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ggeur.engine.image_augmentation import ImageAugmentation
from ggeur.heads.head import Params
from ggeur.stats.augmented_sets import AugmentedSet
from ggeur.stats.errors import GgeurError
from ggeur.stats.geometry import LowRank
from ggeur.stats.types import Int


class Run(NamedTuple):
    """One seed of one setting: who holds what, how much each client weighs, and where training starts."""

    seed: int
    table: NDArray[Any]  # (N, p) embeddings or bytes of pictures, shared by all runs of a stack
    prototypes: NDArray[Any]  # (D * C, p), base samples N and on
    bank: NDArray[np.float32] | None
    sets: Sequence[AugmentedSet]
    weights: NDArray[np.float64]  # (K,), before they are normalised over a round's participants
    params: Params
    n_classes: int
    client_params: Any = ()  # (K, ...), where clients start from heads of their own and nothing is broadcast
    ids: Int | None = None  # (K,) the clients' numbers, on which what they draw depends; default: 0, 1, 2, ...
    shapes: LowRank | None = None  # of draws whose expected loss takes their place
    pictures: ImageAugmentation | None = None  # what the table's samples are, where they are that


class Stack(NamedTuple):
    """Runs over one base and one bank, their indices shifted to match."""

    base: NDArray[Any]
    bank: NDArray[np.float32] | None
    sets: list[list[AugmentedSet]]  # [run][client]


def stack_runs(runs: Sequence[Run], storage: str = "float32") -> Stack:
    """Lay the `runs`' prototypes and banks end to end behind the one table they share.

    With `storage` "float16" half the bytes are fetched in a step; arithmetic stays in float32.
    """
    table = runs[0].table
    half = storage == "float16" and table.dtype != np.uint8  # bytes stay bytes
    table = table.astype(np.float32) if table.dtype == np.float16 and not half else table
    prototypes, banks = _Concatenation(len(table)), _Concatenation(1)  # bank row 0 is the zero row that all share
    sets = []
    for run in runs:
        if run.table is not runs[0].table:
            raise GgeurError("Runs of one stack must share one table.", code="stack-tables-differ")
        if (run.shapes is None) != (runs[0].shapes is None):
            raise GgeurError(
                "Runs of one stack must all draw, or all take the expected loss of draws.",
                code="stack-augmentation-differs",
            )
        row_shift = prototypes.place(run.prototypes)
        noise_shift = 0 if run.bank is None else banks.place(run.bank, skip=1)
        sets.append([_shifted(s, len(table), row_shift, noise_shift) for s in run.sets])
    base = _filled([table, *prototypes.parts], np.float16 if half else table.dtype)
    stored = np.float16 if half else np.float32
    zero = np.zeros((1, table.shape[1]), np.float32)  # also where nobody needs a draw and all banks are empty
    bank = _filled([zero, *banks.parts], stored) if banks.parts else None
    return Stack(base, bank, sets)


def few_sizes(n: int) -> int:
    """`n` rounded up by a quarter at most: 1 to 8, then 10, 12, 14, 16, 20, 24, ...

    A program is compiled for each size of its arrays, so sizes that vary from seed to seed are rounded to a few.
    """
    step = max((1 << max(n - 1, 0).bit_length()) // 8, 1)
    return -(-n // step) * step


def _filled(parts: Sequence[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    """Return the parts end to end, with unused rows behind them up to one of a few sizes."""
    parts = [parts[0], *filter(len, parts[1:])]  # an empty list has no type
    samples = sum(map(len, parts))
    whole = _aligned((few_sizes(samples), parts[0].shape[1]), np.dtype(dtype))
    with np.errstate(over="ignore"):
        np.concatenate(parts, out=whole[:samples], casting="same_kind")
    whole[samples:] = 0
    if dtype == np.float16 and not np.isfinite(whole).all():
        raise GgeurError(
            'storage = "float16" holds values up to 65504 and yours are larger; use "float32".',
            code="embeddings-storage-overflow",
        )
    return whole


def _aligned(shape: tuple[int, int], dtype: np.dtype[Any]) -> NDArray[Any]:
    """An array that JAX takes as it lies instead of copying it; NumPy's memory has large pages, JAX's has not."""
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + 64, np.uint8)
    first = -memory.ctypes.data % 64
    return memory[first : first + size].view(dtype).reshape(shape)


class _Concatenation:
    """Arrays end to end behind `first` rows; one that several runs share is laid once."""

    def __init__(self, first: int) -> None:
        self.parts: list[NDArray[Any]] = []
        self._first = self._end = first
        self._at: dict[int, int] = {}

    def place(self, array: NDArray[Any], skip: int = 0) -> int:
        """Return how far the array's rows are shifted from where a run alone would have them."""
        if id(array) not in self._at:
            self._at[id(array)] = self._end - self._first
            self.parts.append(array[skip:])
            self._end += len(array) - skip
        return self._at[id(array)]


def _shifted(s: AugmentedSet, table_rows: int, row_shift: int, noise_shift: int) -> AugmentedSet:
    sample = np.where(s.sample >= table_rows, s.sample + row_shift, s.sample).astype(np.int32)
    return s._replace(sample=sample, noise=(s.noise + np.sign(s.noise) * noise_shift).astype(np.int32))
