"""Cells too small to share: their rows take no part."""

import numpy as np

from ggeur.core.types import Int


def large_cells(y: Int, domains: Int, min_count: int) -> Int:
    """Which of a site's rows are in cells of at least `min_count`, by number; `y` (n,) and `domains` (n,) say of which.

    >>> large_cells(np.array([0, 0, 1, 0]), np.array([0, 0, 0, 1]), 2)
    array([0, 1])
    """
    if not min_count or not len(y):
        return np.arange(len(y))
    _, cell, size = np.unique(np.stack([domains, y]), axis=1, return_inverse=True, return_counts=True)
    return np.flatnonzero(size[cell.ravel()] >= min_count)
