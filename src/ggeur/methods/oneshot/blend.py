"""`ggeur_limit` and `mixture` together: the product of their probabilities, those of `mixture` tempered.

score(x) = log softmax(ggeur_limit(x)) + log softmax(t mixture(x))
"""

from typing import Annotated

import numpy as np
from pydantic import Field

from ggeur.heads.head import Params
from ggeur.methods.algorithm import ClosedForm, Task
from ggeur.methods.oneshot.ggeur_limit import ggeur_limit
from ggeur.methods.oneshot.mixture import mixture
from ggeur.stats.hyperparameters import AtLeastZero, Fraction
from ggeur.stats.site_statistics import Covariance, FederationStatistics, largest


def blend(
    *,
    t: AtLeastZero = 0.25,
    tau: Annotated[float, Field(ge=0)] = 1000.0,
    shrinkage: Fraction = 0.1,
    covariance: Covariance = "per-class",
) -> ClosedForm:
    """`t`: how much the scores of `mixture` count. `tau`, `shrinkage`: those of `mixture`; `ggeur_limit` has defaults.

    `covariance` is that of [augment], and pooled where that would be none: a covariance of each domain is needed.
    """
    needs = largest([covariance, "pooled"]) or "pooled"
    parts = ggeur_limit(covariance=needs), mixture(tau=tau, shrinkage=shrinkage)

    def solve(total: FederationStatistics, task: Task) -> Params:
        linear, mixture = (part.solve(total, task) for part in parts)
        return {"linear": linear, "mixture": mixture, "t": np.float64(t)}

    def approximate(total: FederationStatistics, task: Task, start: Params | None) -> Params:
        near = parts[0].approximate
        assert near is not None
        linear = near(total, task, None if start is None else start["linear"])
        return {"linear": linear, "mixture": parts[1].solve(total, task), "t": np.float64(t)}

    return ClosedForm(needs, solve, parts[1].apart, head="blend", approximate=approximate)
