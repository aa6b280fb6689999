"""Leave out groups that are too small to share."""

import numpy as np

from ggeur.core.types import Int


def large_groups(y: Int, domains: Int, min_count: int) -> Int:
    """Return the indices of a site's samples in groups of at least `min_count`; `y` and `domains` (n,) define groups.

    >>> large_groups(np.array([0, 0, 1, 0]), np.array([0, 0, 0, 1]), 2)
    array([0, 1])
    """
    if not min_count or not len(y):
        return np.arange(len(y))
    _, group, size = np.unique(np.stack([domains, y]), axis=1, return_inverse=True, return_counts=True)
    return np.flatnonzero(size[group.ravel()] >= min_count)
