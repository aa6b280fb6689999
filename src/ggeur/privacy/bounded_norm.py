"""Samples brought into a ball: a public bound on what one sample can add to a sum.

    x -> sqrt(p/r) P'x,    then    x -> x min(1, R/|x|)

P (p, r) is a random orthonormal basis of a subspace, the same for everybody: its numbers are public and of no data. The
factor keeps a sample's expected length. Both are part of a model: whatever it is to label is brought into the ball
first.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ggeur.core.errors import GgeurError
from ggeur.core.types import Float

_BLOCK = 4096  # samples in float64 at once


class BoundedNorm(NamedTuple):
    """Its radius R and, where samples are projected first, to how many dimensions r."""

    radius: float | None = None
    projection: int | None = None

    def check(self, p: int) -> None:
        """GgeurError unless samples of `p` dimensions can be brought into it."""
        if self.projection is not None and self.projection > p:
            raise GgeurError(
                f"[privacy] projection = {self.projection} is more than the {p} dimensions that the embeddings have.",
                code="privacy-projection-excessive",
            )

    def apply(self, x: NDArray[Any]) -> NDArray[np.float32]:
        """The samples `x` (n, p) in the ball."""
        self.check(x.shape[1])
        basis = None if self.projection is None else basis_of(x.shape[1], self.projection)
        made = np.empty((len(x), self.projection or x.shape[1]), np.float32)
        for first in range(0, len(x), _BLOCK):
            samples = x[first : first + _BLOCK].astype(np.float64)
            samples = samples if basis is None else samples @ basis
            if self.radius is not None:
                # a little further in, as float32 rounds up as well as down
                within = self.radius * (1 - 1e-6)
                samples *= np.minimum(1.0, within / np.maximum(np.linalg.norm(samples, axis=1, keepdims=True), 1e-300))
            made[first : first + _BLOCK] = samples
        return made


@lru_cache(maxsize=4)
def basis_of(p: int, r: int) -> Float:
    """(p, r): sqrt(p/r) times the orthonormal basis that everybody takes for these numbers."""
    drawn = np.random.RandomState(0).standard_normal((p, r))  # the one stream that NumPy promises never to change
    basis, upper = np.linalg.qr(drawn)
    return np.asarray(np.sqrt(p / r) * basis * np.sign(np.diag(upper)))  # whose signs no two libraries agree on
