"""Clip samples to a ball: a public bound on what one sample can add to statistics.

    x -> sqrt(p/r) P'x,    then    x -> x min(1, R/|x|)

P (p, r) is a random orthonormal basis of a subspace, the same everywhere: it is public and independent of the data. The
factor keeps a sample's expected norm. Both are part of a model: samples to predict are clipped in the same way first.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ggeur.stats.errors import GgeurError
from ggeur.stats.types import Float

_BLOCK = 4096  # samples in float64 at once


class BoundedNorm(NamedTuple):
    """The radius R and, where samples are projected first, the number r of dimensions."""

    radius: float | None = None
    projection: int | None = None

    def check(self, p: int) -> None:
        """Raise GgeurError unless samples of `p` dimensions can be projected."""
        if self.projection is not None and self.projection > p:
            raise GgeurError(
                f"[privacy] projection = {self.projection} is more than the {p} dimensions that the embeddings have.",
                code="privacy-projection-excessive",
            )

    def apply(self, x: NDArray[Any]) -> NDArray[np.float32]:
        """Return the samples `x` (n, p) projected and clipped."""
        self.check(x.shape[1])
        basis = None if self.projection is None else basis_of(x.shape[1], self.projection)
        made = np.empty((len(x), self.projection or x.shape[1]), np.float32)
        for first in range(0, len(x), _BLOCK):
            samples = x[first : first + _BLOCK].astype(np.float64)
            samples = samples if basis is None else samples @ basis
            if self.radius is not None:
                # slightly smaller, as float32 may round up
                within = self.radius * (1 - 1e-6)
                samples *= np.minimum(1.0, within / np.maximum(np.linalg.norm(samples, axis=1, keepdims=True), 1e-300))
            made[first : first + _BLOCK] = samples
        return made


@lru_cache(maxsize=4)
def basis_of(p: int, r: int) -> Float:
    """Return (p, r): sqrt(p/r) times the public orthonormal basis for these dimensions."""
    drawn = np.random.RandomState(0).standard_normal((p, r))  # the one stream that NumPy guarantees never to change
    basis, upper = np.linalg.qr(drawn)
    return np.asarray(np.sqrt(p / r) * basis * np.sign(np.diag(upper)))  # signs differ between libraries
