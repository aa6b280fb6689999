"""Symmetric matrices as triangles: half of the numbers, for files and for what is sent."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def triangle_size(p: int) -> int:
    """Return how many numbers a triangle of a p x p matrix has."""
    return p * (p + 1) // 2


def triangles(matrices: NDArray[Any]) -> NDArray[Any]:
    """Return the upper triangles (n, p (p + 1) / 2) of symmetric `matrices` (n, p, p), row by row."""
    return np.ascontiguousarray(matrices[:, *np.triu_indices(matrices.shape[-1])])


def from_triangles(packed: NDArray[Any], p: int) -> NDArray[Any]:
    """Return the symmetric matrices (n, p, p) of the triangles `packed` (n, p (p + 1) / 2)."""
    rows, columns = np.triu_indices(p)
    full = np.empty((len(packed), p, p), packed.dtype)
    full[:, rows, columns] = packed
    full[:, columns, rows] = packed
    return full
