"""Class covariances from client means and counts alone (FedCOF, Goswami et al., 2024): p numbers a class, not p x p.

If clients are i.i.d. within a class, the scatter of their means carries the covariance:

    Sigma_c = 1/(K_c - 1) sum_k n_kc (mu_kc - mu_c)(mu_kc - mu_c)'

Across domains they are not i.i.d., so the scatter is taken within each domain and pooled over domains.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggeur.core.errors import GgeurError
from ggeur.core.types import Float

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
