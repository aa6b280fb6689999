"""Ridge regression on one-hot targets (Fed3R, Fani et al., ICML 2024), with an intercept that is not penalised.

W = (G + alpha tr(G)/p I)^{-1} X_c' Y_c,    G = X_c' X_c,    b = mean(y) - W' mean(x)        (X_c, Y_c centred)
"""

import numpy as np

from ggeur.methods.algorithm import ClosedForm, Task
from ggeur.methods.oneshot.linear_head import linear_head
from ggeur.stats.hyperparameters import Positive
from ggeur.stats.site_statistics import SiteStatistics
from ggeur.stats.types import Float


def ridge(*, alpha: Positive = 1e-3, normalise: bool = False) -> ClosedForm:
    """`alpha`: the penalty on W, as a share of the mean eigenvalue of G, which makes it free of units and of counts.

    `normalise`: every class's column of W divided by its length, and its intercept too, as Fed3R does against classes
    of unequal size.
    """

    def solve(s: SiteStatistics, task: Task) -> tuple[Float, Float]:
        gram, p = s.second.sum(axis=0), s.dimension  # of samples about their mean
        penalty = alpha * np.trace(gram) / p or 1.0  # where all samples are alike there is nothing to penalise
        w = np.linalg.solve(gram + penalty * np.eye(p), s.sum.T).T  # X_c' Y, as X_c' Y_c: the samples sum to zero
        b = s.count / s.count.sum()
        length = np.linalg.norm(w, axis=1) if normalise else np.ones(len(w))
        length = np.where(length > 0, length, 1.0)
        return w / length[:, None], b / length

    return linear_head("pooled", solve)._replace(repair="floor-total")
