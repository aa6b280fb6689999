"""Counts, sums and second moments of every class in float64; and covariances from client means alone (FedCOF)."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggeur.stats.errors import GgeurError, GgeurWarning
from ggeur.stats.types import Float, Int
from ggeur.stats.validate import fits_memory


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


SHRINKAGE = 0.1  # gamma: K_c - 1 directions never span p dimensions, so part of the variance is made isotropic


def class_sums(x: NDArray[Any], y: NDArray[np.int64], n_classes: int) -> tuple[Float, Float]:
    """Return counts (C,) and sums (C, p) of one client's samples, in float64."""
    count = np.bincount(y, minlength=n_classes).astype(np.float64)
    total = np.zeros((n_classes, x.shape[1]))
    np.add.at(total, y, x.astype(np.float64))
    return count, total


def covariance_from_means(
    count: NDArray[np.float64], mean: Float, domain: NDArray[np.int64] | None = None, shrinkage: float = SHRINKAGE
) -> Float:
    """Estimate covariances (C, p, p) from class counts (K, C), class means (K, C, p) and the `domain` (K,) of clients.

    A class that too few clients hold takes the estimate pooled over classes. Raises GgeurError where no domain has two
    clients with a common class: then there is no scatter to go by.
    """
    n_clients, n_classes, p = mean.shape
    domain = np.zeros(n_clients, np.int64) if domain is None else domain
    scatter, freedom = np.zeros((n_classes, p, p)), np.zeros(n_classes)
    for c in range(n_classes):
        for d in np.unique(domain):
            held = (domain == d) & (count[:, c] > 0)
            if held.sum() > 1:
                n, mu = count[held, c], mean[held, c]
                z = np.sqrt(n)[:, None] * (mu - n @ mu / n.sum())
                scatter[c] += z.T @ z
                freedom[c] += held.sum() - 1
    if not freedom.any():
        raise GgeurError(
            "Covariances cannot be estimated from means: no two clients of one domain share a class; "
            'use [augment] covariance = "per-class" or "pooled".',
            code="covariance-not-estimable",
        )
    pooled = scatter.sum(axis=0) / freedom.sum()
    sigma = np.where(freedom[:, None, None] > 0, scatter / np.maximum(freedom, 1)[:, None, None], pooled)
    sphere = np.trace(sigma, axis1=1, axis2=2)[:, None, None] / p * np.eye(p)
    return np.asarray((1 - shrinkage) * sigma + shrinkage * sphere)
