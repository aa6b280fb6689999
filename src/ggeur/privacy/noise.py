"""Gaussian noise on a message of samples in a ball: what one sample, or one client, adds cannot be told from the noise.

A message is taken as one vector, (a n_c, sum_c / R, second / R^2) over all classes c. A sample of length up to R is of
one class, so to add or remove it moves that vector by at most D = sqrt(a^2 + 1 + 1), without second moments sqrt(a^2 +
1). The count has a smaller weight a than the others: heads need it least. Of a symmetric matrix, entries off the
diagonal stand twice in its norm, so that they take noise a root of two smaller: a half of Z + Z'.

A client's whole message is scaled down to a length of at most `clip` samples, clip D, where a client is to be hidden.
"""

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from scipy.special import ndtri

from ggeur.core.site_statistics import Covariance, SiteStatistics
from ggeur.core.types import Float
from ggeur.privacy.calibration import gaussian_scale

COUNT = 0.3  # a
Normals = Callable[[tuple[int, ...]], Float]  # a shape -> independent numbers of N(0, 1)


@dataclass(frozen=True)
class Noise:
    """Standard deviations of what was added to every count, sum and second moment (on its diagonal)."""

    count: float
    sum: float
    second: float

    def of_sum(self, messages: int) -> "Noise":
        """That of the sum of so many messages, each with noise of its own."""
        return Noise(*(sd * float(np.sqrt(messages)) for sd in (self.count, self.sum, self.second)))

    def __add__(self, other: "Noise") -> "Noise":
        """That of the sum of two messages."""
        return Noise(*map(math.hypot, (self.count, self.sum, self.second), (other.count, other.sum, other.second)))


@dataclass(frozen=True)
class Mechanism:
    """The promise: (epsilon, delta) for one more or one less of `unit`, of samples no longer than `radius`."""

    epsilon: float
    delta: float
    radius: float
    unit: Literal["record", "client"] = "record"
    clip: float | None = None  # samples' worth of a client's message, where a client is the unit
    secure: bool = False  # sums are secure, so that only a total is ever seen

    @cached_property
    def scale(self) -> float:
        """s: noise over sensitivity."""
        return gaussian_scale(self.epsilon, self.delta)

    def noise(self, kind: Covariance, clients: int) -> Noise:
        """That of one message among those of so many `clients`.

        Where only their total is seen, each adds its share. As a client knows its own, the others' must do alone.
        """
        share = 1 / np.sqrt(clients - 1) if self.secure else 1.0
        sigma = float(self.scale * self._row(kind) * (self.clip or 1.0) * share)
        return Noise(sigma / COUNT, sigma * self.radius, 0.0 if kind == "none" else sigma * self.radius**2)

    def apply(self, message: SiteStatistics, clients: int, normals: Normals) -> SiteStatistics:
        """The noisy `message` of one of so many `clients`; every class has noise, with samples of it or not."""
        m, noise = self._clipped(message), self.noise(message.kind, clients)
        half = normals(m.second.shape) / 2
        return replace(
            m,
            count=m.count + noise.count * normals(m.count.shape),
            sum=m.sum + noise.sum * normals(m.sum.shape),
            second=m.second + noise.second * (half + half.swapaxes(1, 2)),
        )

    def _row(self, kind: Covariance) -> float:
        """D: how far one sample can move a message."""
        return float(np.sqrt(COUNT**2 + (1 if kind == "none" else 2)))

    def _clipped(self, m: SiteStatistics) -> SiteStatistics:
        if self.clip is None:
            return m
        parts = COUNT * m.count, m.sum / self.radius, m.second / self.radius**2
        length = np.sqrt(sum(float((part**2).sum()) for part in parts))
        down = min(1.0, self.clip * self._row(m.kind) / max(length, 1e-300))
        return replace(m, count=m.count * down, sum=m.sum * down, second=m.second * down)


def system_normals(shape: tuple[int, ...]) -> Float:
    """From the operating system's randomness, which no seed gives away."""
    n = int(np.prod(shape))
    whole = np.frombuffer(secrets.token_bytes(8 * n), np.uint64) >> np.uint64(11)
    return np.asarray(ndtri((whole + 0.5) / 2.0**53).reshape(shape))
