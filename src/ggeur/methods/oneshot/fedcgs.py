"""FedCGS (Guan et al., 2025): a Gaussian classifier with the covariance of all samples, scatter of means included.

S = sum (x - mu)(x - mu)' / (n - 1)
logit_c = mu_c' S^{-1} x - mu_c' S^{-1} mu_c / 2 + log pi_c
"""

import numpy as np

from ggeur.methods.algorithm import ClosedForm, Task
from ggeur.methods.oneshot.linear_head import linear_head
from ggeur.stats.site_statistics import FederationStatistics
from ggeur.stats.types import Float


def fedcgs() -> ClosedForm:
    """It has no parameters; what is singular is inverted where it has a spread."""

    def solve(s: FederationStatistics, task: Task) -> tuple[Float, Float]:
        n, mu = s.count.sum(), s.mean
        covariance = s.second.sum(axis=0) / max(n - 1, 1)  # of samples about their mean
        w = np.asarray(np.linalg.lstsq(covariance, mu.T, rcond=None)[0].T, np.float64)
        b = -np.einsum("cp,cp->c", w, mu) / 2 + np.log(np.where(s.present, s.count / n, 1.0))
        return w, b

    return linear_head("pooled", solve)._replace(repair="floor-total")
