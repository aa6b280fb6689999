"""Linear discriminant analysis: one covariance for all classes, shrunk towards a sphere.

Sigma = sum_c pi_c Sigma_c,    Sigma_s = (1 - s) Sigma + s tr(Sigma)/p I
logit_c = mu_c' Sigma_s^{-1} x - mu_c' Sigma_s^{-1} mu_c / 2 + log pi_c
"""

import numpy as np

from ggeur.methods.algorithm import ClosedForm, Task
from ggeur.methods.oneshot.linear_head import linear_head
from ggeur.stats.geometry import shrunk
from ggeur.stats.hyperparameters import Fraction
from ggeur.stats.site_statistics import SiteStatistics
from ggeur.stats.types import Float


def lda(*, shrinkage: Fraction = 0.1) -> ClosedForm:
    """`shrinkage`: s, between 0 (the pooled covariance) and 1 (a sphere)."""

    def solve(s: SiteStatistics, task: Task) -> tuple[Float, Float]:
        prior = s.count / s.count.sum()
        mu = s.mean
        w = np.asarray(np.linalg.lstsq(shrunk(s.within, shrinkage), mu.T, rcond=None)[0].T, np.float64)
        b = -np.einsum("cp,cp->c", w, mu) / 2 + np.log(np.where(s.present, prior, 1.0))
        return w, b

    return linear_head("pooled", solve)
