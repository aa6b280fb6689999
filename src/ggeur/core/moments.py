"""Counts, sums and second moments of the samples of every class, in float64."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggeur.core.errors import GgeurError, GgeurWarning
from ggeur.core.types import Float, Int
from ggeur.core.validate import fits_memory


def class_moments(x: NDArray[Any], y: Int, n_classes: int, center: Float) -> tuple[Float, Float, Float]:
    """Return count (C,), sum (C, p) and second moment (C, p, p) about `center` of samples `x` (n, p), classes `y`."""
    p = x.shape[1]
    with fits_memory(f"the second moments of {n_classes:,} classes in {p} dimensions"):
        count = np.bincount(y, minlength=n_classes).astype(np.float64)
        total, second = np.zeros((n_classes, p)), np.zeros((n_classes, p, p))
    far = False
    rows_by_class = np.split(np.argsort(y, kind="stable"), np.cumsum(count[:-1]).astype(int))
    for c, samples in enumerate(rows_by_class):
        if len(samples):  # in float64 class by class, so that a float16 table is never copied whole
            with np.errstate(over="ignore", invalid="ignore"):  # said below, once
                z = x[samples].astype(np.float64) - center
                total[c], second[c] = z.sum(axis=0), z.T @ z
                mean, spread = total[c] / len(z), z.var(axis=0).sum()
                far |= bool(mean @ mean > 1e8 * spread > 0)
    if not np.isfinite(second).all():
        raise GgeurError(
            "The embeddings are so large that their squares overflow; scale them down.", code="embeddings-overflow"
        )
    if far:
        warnings.warn(
            "The mean is so far from the center that the covariance loses more than half of its digits; "
            "pass a center near the mean, the same at every client.",
            GgeurWarning,
            stacklevel=3,
        )
    return count, total, second
