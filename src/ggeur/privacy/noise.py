"""Gaussian noise on the statistics of clipped samples, which hides what one sample, or one client, adds.

Statistics are one vector, (a n_c, sum_c / R, second / R^2) over all classes c. A sample with a norm up to R has one
class, so adding or removing it moves that vector by at most D = sqrt(a^2 + 1 + 1), without second moments sqrt(a^2 +
1). The count has a smaller weight a than the others: heads need it least. Entries off the diagonal of a symmetric
matrix count twice in its norm, so their noise is smaller by the root of two: (Z + Z') / 2.

Where a whole client is to be hidden, its vector is scaled down to a norm of at most `clip` samples, clip D.
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
    """Standard deviations of the noise in every count, sum and second moment (on its diagonal)."""

    count: float
    sum: float
    second: float

    def of_sum(self, messages: int) -> "Noise":
        """Return the noise of the sum of `messages` statistics, each with independent noise."""
        return Noise(*(sd * float(np.sqrt(messages)) for sd in (self.count, self.sum, self.second)))

    def __add__(self, other: "Noise") -> "Noise":
        """Return the noise of the sum of two statistics."""
        return Noise(*map(math.hypot, (self.count, self.sum, self.second), (other.count, other.sum, other.second)))


@dataclass(frozen=True)
class Mechanism:
    """The (epsilon, delta)-private mechanism for one `unit` more or less, with sample norms up to `radius`."""

    epsilon: float
    delta: float
    radius: float
    unit: Literal["record", "client"] = "record"
    clip: float | None = None  # the largest norm of a client's statistics, in samples, where a client is the unit
    secure: bool = False  # under secure aggregation only a total is ever seen

    @cached_property
    def scale(self) -> float:
        """Return s: noise over sensitivity."""
        return gaussian_scale(self.epsilon, self.delta)

    def noise(self, kind: Covariance, clients: int) -> Noise:
        """Return the noise of one client's statistics among those of so many `clients`.

        Where only their total is seen, each adds a share. As a client knows its own, the others' shares must suffice.
        """
        share = 1 / np.sqrt(clients - 1) if self.secure else 1.0
        sigma = float(self.scale * self._sensitivity(kind) * (self.clip or 1.0) * share)
        return Noise(sigma / COUNT, sigma * self.radius, 0.0 if kind == "none" else sigma * self.radius**2)

    def apply(self, message: SiteStatistics, clients: int, normals: Normals) -> SiteStatistics:
        """Return the noisy `message` of one of so many `clients`; every class has noise, also without samples."""
        m, noise = self._clipped(message), self.noise(message.kind, clients)
        half = normals(m.second.shape) / 2
        return replace(
            m,
            count=m.count + noise.count * normals(m.count.shape),
            sum=m.sum + noise.sum * normals(m.sum.shape),
            second=m.second + noise.second * (half + half.swapaxes(1, 2)),
        )

    def _sensitivity(self, kind: Covariance) -> float:
        """Return D, the sensitivity: how far one sample can move the vector."""
        return float(np.sqrt(COUNT**2 + (1 if kind == "none" else 2)))

    def _clipped(self, m: SiteStatistics) -> SiteStatistics:
        if self.clip is None:
            return m
        parts = COUNT * m.count, m.sum / self.radius, m.second / self.radius**2
        length = np.sqrt(sum(float((part**2).sum()) for part in parts))
        down = min(1.0, self.clip * self._sensitivity(m.kind) / max(length, 1e-300))
        return replace(m, count=m.count * down, sum=m.sum * down, second=m.second * down)


def system_normals(shape: tuple[int, ...]) -> Float:
    """Return normal numbers from the operating system's randomness, which no seed reveals."""
    n = int(np.prod(shape))
    whole = np.frombuffer(secrets.token_bytes(8 * n), np.uint64) >> np.uint64(11)
    return np.asarray(ndtri((whole + 0.5) / 2.0**53).reshape(shape))
