"""Ridge regression on one-hot targets (Fed3R, Fani et al., ICML 2024), with an intercept that is not penalised.

W = (X_c' X_c + alpha I)^{-1} X_c' Y_c,    b = mean(y) - W' mean(x)        (X_c, Y_c centred)
"""

import numpy as np

from ggeur.core.message import Message
from ggeur.core.parameters import Positive
from ggeur.heads.head import Params
from ggeur.methods.algorithm import Solved, Task
from ggeur.methods.solved.linear_head import linear_params


def ridge(*, alpha: Positive = 1.0) -> Solved:
    """`alpha`: the penalty on W."""

    def solve(s: Message, task: Task) -> Params:
        n, mean = s.count.sum(), s.count @ s.mean / s.count.sum()
        about = s.about(mean)  # moments about the grand mean are those of X_c
        gram = about.second.sum(axis=0) + alpha * np.eye(s.dimension)
        cross = about.sum  # (C, p): X_c' Y, and Y_c gives the same since X_c sums to zero
        w = np.linalg.solve(gram, cross.T).T
        return linear_params(s, w, s.count / n - w @ mean)

    return Solved("pooled", solve)
