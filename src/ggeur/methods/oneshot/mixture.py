"""One Gaussian model per domain, mixed by likelihood: the domain of a sample is inferred, not given.

    score_c(x) = log sum_s exp(-1/2 (x - M_sc)' S_s^-1 (x - M_sc) - 1/2 log |S_s|)
    S_s = (scatter of s within its classes + tau W) / (n_s + tau), shrunk by g;  W = scatter within all groups / n
    M_sc = (n_sc m_sc + k (a_s + b_c)) / (n_sc + k)

The additive means a_s + b_c, a least-squares fit to the groups that there are, stand in for those that nobody has seen
(`fill`).
"""

from functools import lru_cache
from typing import Annotated

import numpy as np
from pydantic import Field
from scipy.linalg import solve_triangular

from ggeur.heads.head import Params
from ggeur.methods.algorithm import ClosedForm, Task
from ggeur.methods.oneshot.fill import filled_means
from ggeur.methods.oneshot.linear_head import of_the_last
from ggeur.stats.errors import GgeurError
from ggeur.stats.geometry import shrunk
from ggeur.stats.hyperparameters import Fraction, Positive
from ggeur.stats.site_statistics import Breakdown, FederationStatistics, SiteStatistics
from ggeur.stats.types import Float

NEVER = -1e9  # the score of a class that nobody holds, finite as numbers of a head must be
_LEAST = 1e-8  # variance that every direction has, of samples whose own is about one: what is singular can be solved


@lru_cache
def mixture(
    *, tau: Annotated[float, Field(ge=0)] = 300.0, shrinkage: Fraction = 0.01, fill: Positive = 10.0
) -> ClosedForm:
    """`tau`: number of samples that the covariance of all domains counts for in a domain's; infinite: one for all.

    `shrinkage`: g. `fill`: k, the number of samples that the additive mean of a group counts for.
    """

    @of_the_last
    def solve(total: FederationStatistics, task: Task) -> Params:
        if not total.present.any():
            raise GgeurError(
                "There are no samples at all, so no classifier can be computed.", code="training-samples-missing"
            )
        units = total.units
        s = total.standard
        means = group_means(s.apart, fill)
        roots = [np.linalg.cholesky(sigma) for sigma in covariances(s.apart, tau, shrinkage)]
        whiten = np.stack([solve_triangular(root, np.eye(s.dimension), lower=True) for root in roots])
        white = means @ whiten.swapaxes(1, 2)
        log_det = np.array([2 * np.log(np.diag(root)).sum() for root in roots])
        offset = -((white**2).sum(axis=2) + log_det[:, None]) / 2
        return {
            "center": units.shift,
            "whiten": (whiten / units.scale).astype(np.float32),
            "means": white.astype(np.float32),
            "offset": np.where(s.present, offset, NEVER),
        }

    return ClosedForm("pooled", solve, Breakdown("pooled"), head="mixture")


def covariances(sites: tuple[SiteStatistics, ...], tau: float, g: float) -> list[Float]:
    """S_s (p, p) of every domain."""
    n, scatter = [float(m.count.sum()) for m in sites], [m.scatter_of(0) for m in sites]
    within, p = np.sum(scatter, axis=0) / sum(n), sites[0].dimension
    if np.trace(within) < _LEAST * p:  # one sample a group, or samples all alike: the scatter is only rounding
        return [np.eye(p)] * len(sites)
    if np.isinf(tau):
        return [shrunk(within, g) + _LEAST * np.eye(p)] * len(sites)
    floor = _LEAST * np.eye(p)
    return [shrunk((own + tau * within) / (samples + tau), g) + floor for own, samples in zip(scatter, n, strict=True)]


def group_means(sites: tuple[SiteStatistics, ...], k: float) -> Float:
    """M_sc (S, C, p), where no group is empty."""
    return filled_means(np.stack([s.count for s in sites]), np.stack([s.mean for s in sites]), k)
