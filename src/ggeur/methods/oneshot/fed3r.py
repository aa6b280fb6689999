"""Fed3R as published (Fani et al., ICML 2024): ridge on samples and a one, every class's weights of length 1.

A = lambda I + sum_k Z_k' Z_k,    B = sum_k Z_k' Y_k,    Z_k = [X_k, 1],    [W, b]' = A^{-1} B
w_c / |w_c|,    b_c / |w_c|

The intercept is penalised too, and samples are not centred; `ridge` is the same idea, free of units and of the mean.
"""

import numpy as np

from ggeur.methods.algorithm import ClosedForm, Task
from ggeur.methods.oneshot.linear_head import uncentred_head
from ggeur.stats.hyperparameters import Positive
from ggeur.stats.site_statistics import FederationStatistics
from ggeur.stats.types import Float


def fed3r(*, penalty: Positive = 0.01, normalise: bool = True) -> ClosedForm:
    """`penalty`: lambda, in the embedding's own units. `normalise`: divide every class's weights by their length."""

    def solve(s: FederationStatistics, task: Task) -> tuple[Float, Float]:
        total, n = s.sum.sum(axis=0), s.count.sum()
        a = np.block([[s.second.sum(axis=0), total[:, None]], [total, n]])
        found = np.linalg.solve(a + penalty * np.eye(len(a)), np.column_stack([s.sum, s.count]).T).T
        w, b = found[:, :-1], found[:, -1]
        length = np.linalg.norm(w, axis=1) if normalise else np.ones(len(w))
        length = np.where(length > 0, length, 1.0)
        return w / length[:, None], b / length

    return uncentred_head(solve)
