"""`limit` and `gated` together: the product of their probabilities, those of `gated` tempered.

score(x) = log softmax(limit(x)) + log softmax(t gated(x))
"""

from typing import Annotated

import numpy as np
from pydantic import Field

from ggeur.core.message import Statistics, Total, largest
from ggeur.core.parameters import AtLeastZero, Fraction
from ggeur.heads.head import Params
from ggeur.methods.algorithm import Solved, Task
from ggeur.methods.solved.gated import gated
from ggeur.methods.solved.limit import limit


def limit_gated(
    *,
    t: AtLeastZero = 0.25,
    tau: Annotated[float, Field(ge=0)] = 1000.0,
    shrinkage: Fraction = 0.1,
    statistics: Statistics = "per-class",
) -> Solved:
    """`t`: how much the scores of `gated` count, which has this `tau` and `shrinkage`; `limit` has its defaults.

    `statistics` is that of [augment], and pooled where that would be means: a covariance of each domain is needed.
    """
    needs = largest([statistics, "pooled"]) or "pooled"
    parts = limit(statistics=needs), gated(tau=tau, shrinkage=shrinkage)

    def solve(total: Total, task: Task) -> Params:
        linear, mixture = (part.solve(total, task) for part in parts)
        return {"linear": linear, "mixture": mixture, "t": np.float64(t)}

    return Solved(needs, solve, parts[1].apart, head="blend")
