"""Rows shifted by one vector and divided by one number: units in which embeddings of any encoder are about one.

One number for all coordinates, so that shapes keep their form. A federation finds both from sums that sites send.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ggeur.core.errors import GgeurError
from ggeur.core.types import Float

_BLOCK = 4096  # rows in float64 at once
_CONSTANT = 1e-13  # variance over mean square, below which there is rounding and no spread


class Units(NamedTuple):
    """What is taken off every row, and what it is then divided by."""

    shift: Float  # (p,)
    scale: float

    @classmethod
    def of(cls, mean: Float, variance: float) -> "Units":
        """From the mean (p,) of rows and the mean of their coordinates' variances; without a spread in units of one."""
        constant = variance <= _CONSTANT * float(mean @ mean) / len(mean)
        return cls(mean, 1.0 if constant else float(np.sqrt(variance)))

    def apply(self, x: NDArray[Any]) -> NDArray[np.float32]:
        """The rows `x` (n, p) in these units; differences are formed in float64, as large numbers cancel."""
        made = np.empty(x.shape, np.float32)
        for first in range(0, len(x), _BLOCK):
            some = slice(first, first + _BLOCK)
            made[some] = (x[some].astype(np.float64) - self.shift) / self.scale
        return made


class RowSums(NamedTuple):
    """What a site sends to find the federation's units: how many rows, their sum, and the sum of their squares."""

    rows: float
    sum: Float  # (p,)
    square: float  # over rows and coordinates

    @classmethod
    def of(cls, x: NDArray[Any]) -> "RowSums":
        """Of the rows `x` (n, p)."""
        blocks = (x[first : first + _BLOCK].astype(np.float64) for first in range(0, len(x), _BLOCK))
        return cls(float(len(x)), np.sum(x, axis=0, dtype=np.float64), float(sum((b**2).sum() for b in blocks)))

    @classmethod
    def merge(cls, parts: Iterable["RowSums"]) -> "RowSums":
        """Those of many sites, `parts`, added up."""
        rows, total, square = zip(*parts, strict=True)
        return cls(sum(rows), np.sum(total, axis=0), sum(square))

    @property
    def units(self) -> Units:
        """The mean of all rows, and the root of the mean variance over coordinates."""
        if not self.rows:
            raise GgeurError("The federation has no training samples at all.")
        mean = self.sum / self.rows
        return Units.of(mean, float(self.square / self.rows - mean @ mean) / len(mean))
