"""Samples shifted by one vector and divided by one number: units in which embeddings of any encoder are about one.

One number for all coordinates, so that shapes keep their form. A federation finds both from sums that sites send.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ggeur.stats.errors import GgeurError
from ggeur.stats.types import Float

_BLOCK = 4096  # samples that are in float64 at once
_CONSTANT = 1e-13  # variance over mean square, below which there is rounding and no spread
_SPREADS, _FAR = (0.01, 20.0), 100.0  # what embeddings usually have, those of length one included; the mean, in spreads


class Units(NamedTuple):
    """The shift that is taken off every sample, and the scale that it is then divided by."""

    shift: Float  # (p,)
    scale: float

    @classmethod
    def of(cls, mean: Float, variance: float) -> "Units":
        """From the mean (p,) of samples and the mean of their coordinates' variances; without a spread in units of
        one.
        """
        constant = variance <= _CONSTANT * float(mean @ mean) / len(mean)
        return cls(mean, 1.0 if constant else float(np.sqrt(variance)))

    @classmethod
    def unpack(cls, packed: Float) -> "Units":
        """Read the numbers that `pack` makes."""
        return cls(packed[1:], float(packed[0]))

    def pack(self) -> Float:
        """Return (1 + p,): the scale, then the shift."""
        return np.append(self.scale, self.shift)

    def apply(self, x: NDArray[Any]) -> NDArray[np.float32]:
        """Return the samples `x` (n, p) in these units; differences are formed in float64, as large numbers cancel."""
        made = np.empty(x.shape, np.float32)
        for first in range(0, len(x), _BLOCK):
            some = slice(first, first + _BLOCK)
            made[some] = (x[some].astype(np.float64) - self.shift) / self.scale
        return made

    def note(self, whose: str) -> str:
        """Return a warning about training on `whose` samples, where their units are far from these; else ""."""
        far = float(np.sqrt(np.mean(self.shift**2))) / self.scale
        if _SPREADS[0] <= self.scale <= _SPREADS[1] and far <= _FAR:
            return ""
        return (
            f"The embeddings of {whose} have a spread of {self.scale:.2g} and a mean {far:.2g} spreads from zero, on "
            "which training may crawl or diverge; set [data] standardise = true."
        )


class SampleMoments(NamedTuple):
    """Sums that a site sends to find the federation's units: its number of samples, their sum, and that of squares."""

    samples: float
    sum: Float  # (p,)
    square: float  # over samples and coordinates

    @classmethod
    def of(cls, x: NDArray[Any]) -> "SampleMoments":
        """Return those of the samples `x` (n, p)."""
        blocks = (x[first : first + _BLOCK].astype(np.float64) for first in range(0, len(x), _BLOCK))
        return cls(float(len(x)), np.sum(x, axis=0, dtype=np.float64), float(sum((b**2).sum() for b in blocks)))

    @classmethod
    def merge(cls, parts: Iterable["SampleMoments"]) -> "SampleMoments":
        """Add up those of many sites, `parts`."""
        samples, total, square = zip(*parts, strict=True)
        return cls(sum(samples), np.sum(total, axis=0), sum(square))

    def pack(self) -> Float:
        """Return (2 + p,): samples, square, then the sum."""
        return np.concatenate([[self.samples, self.square], self.sum])

    @property
    def units(self) -> Units:
        """The mean of all samples, and the root of the mean variance over coordinates."""
        if not self.samples:
            raise GgeurError("The federation has no training samples at all.", code="training-samples-missing")
        mean = self.sum / self.samples
        return Units.of(mean, float(self.square / self.samples - mean @ mean) / len(mean))
