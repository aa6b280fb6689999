"""AFL (Zhuang et al., CVPR 2025): least squares by absolute aggregation; its regularisation is taken off at the end.

C_k = X_k' X_k + gamma I,    C = sum_k C_k,    W_r = C^{-1} sum_k X_k' Y_k    (the aggregation of all K clients)
W = (C - K gamma I)^{-1} C W_r                                                (their regularisation is removed)

So W is the least-squares solution on the pooled samples. There is no intercept, and samples are not centred.
"""

import numpy as np

from ggeur.methods.algorithm import ClosedForm, Task
from ggeur.methods.oneshot.linear_head import uncentred_head
from ggeur.stats.hyperparameters import AtLeastZero
from ggeur.stats.site_statistics import Breakdown, FederationStatistics
from ggeur.stats.types import Float


def afl(*, gamma: AtLeastZero = 1.0, remove: bool = True) -> ClosedForm:
    """`gamma`: the regularisation that each client adds, in the embedding's own units.

    `remove`: take it off at the end, as published. Without, every message counts as a client.
    """

    def solve(s: FederationStatistics, task: Task) -> tuple[Float, Float]:
        gram = s.second.sum(axis=0)
        if remove:  # where the Gram matrix is singular, the limit of gamma to 0: the shortest W
            w = np.linalg.lstsq(gram, s.sum.T, rcond=None)[0]
        else:
            w = np.linalg.lstsq(gram + len(s.apart) * gamma * np.eye(s.dimension), s.sum.T, rcond=None)[0]
        return np.asarray(w.T, np.float64), np.zeros(s.n_classes)

    return uncentred_head(solve, None if remove else Breakdown("none", "client"))
