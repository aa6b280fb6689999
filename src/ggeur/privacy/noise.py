"""The size of the noise in statistics, and the random numbers that it is made of."""

import math
import secrets
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import ndtri

from ggeur.stats.types import Float


@dataclass(frozen=True)
class Noise:
    """Standard deviations of the noise in every count, sum and second moment (on its diagonal).

    Parameters
    ----------
    count : standard deviation in every count.
    sum : in every component of a sum.
    second : in every second moment, on its diagonal.

    >>> (Noise(1.0, 2.0, 0.0).of_sum(9) + Noise(4.0, 8.0, 0.0)).sum
    10.0
    """

    count: float
    sum: float
    second: float

    def of_sum(self, messages: int) -> "Noise":
        """Return the noise of the sum of `messages` statistics, each with independent noise."""
        return Noise(*(sd * float(np.sqrt(messages)) for sd in (self.count, self.sum, self.second)))

    def __add__(self, other: "Noise") -> "Noise":
        """Return the noise of the sum of two statistics."""
        return Noise(*map(math.hypot, (self.count, self.sum, self.second), (other.count, other.sum, other.second)))


class RandomSource(Protocol):
    """Independent random numbers: a NumPy generator in simulations, `SystemRandom` on real machines."""

    def random(self, size: tuple[int, ...]) -> Float:
        """Return numbers that are uniform on [0, 1)."""

    def standard_normal(self, size: tuple[int, ...]) -> Float:
        """Return numbers of N(0, 1)."""


class SystemRandom:
    """Random numbers from the operating system, which no seed reveals."""

    def random(self, size: tuple[int, ...]) -> Float:
        """Return numbers that are uniform on (0, 1)."""
        n = int(np.prod(size))
        whole = np.frombuffer(secrets.token_bytes(8 * n), np.uint64) >> np.uint64(11)
        return np.asarray(((whole + 0.5) / 2.0**53).reshape(size))

    def standard_normal(self, size: tuple[int, ...]) -> Float:
        """Return numbers of N(0, 1)."""
        return np.asarray(ndtri(self.random(size)))
