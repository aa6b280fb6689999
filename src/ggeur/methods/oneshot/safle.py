"""A head of tables in the manner of SAFLe (Bacellar et al., CVPR 2026): our reading of the idea, not their method.

bit_i = [x_i > mean_i];    shuffle the bits and cut them into groups of g;    g bits are a row of a table (2^g, C)
score = b + sum over groups of the row that the sample's bits name

This is linear regression on phi, the one-hot rows of all tables:
W = (G + alpha tr(G)/D I)^{-1} Phi_c' Y_c,    G = Phi_c' Phi_c,    b = mean(y) - W mean(phi)    (Phi_c, Y_c centred)

What differs, as far as we know: they cut a number into several overlapping buckets and publish no code that we could
compare with. Here a number is one bit, at the mean of all samples, and other shuffles give further tables. They solve
by AFL's aggregation law, which ends at least squares; here a penalty stays, as one-hot rows are collinear. Numbers of
this solver are none of theirs. `bits`, `shuffles` and `alpha` are ours too, looked at on training samples kept back.
"""

from typing import Annotated

import numpy as np
from pydantic import Field

from ggeur.heads.head import Params
from ggeur.methods.algorithm import ClosedForm, Task
from ggeur.methods.oneshot.kernel import ridge_of_features
from ggeur.methods.oneshot.linear_head import BELOW
from ggeur.stats.errors import GgeurError
from ggeur.stats.features import FeatureQuery, Precision, TableMap
from ggeur.stats.hyperparameters import Count
from ggeur.stats.seeding import generator
from ggeur.stats.site_statistics import FederationStatistics
from ggeur.stats.types import FloatArray

_MOST = 20_000  # entries of all tables, whose matrix has 3 GB


def safle(
    *,
    bits: Annotated[int, Field(ge=1, le=10)] = 4,
    shuffles: Count = 2,
    alpha: Annotated[float, Field(ge=1e-5, allow_inf_nan=False)] = 1.0,
    precision: Precision = "float32",
    seed: Annotated[int, Field(ge=0)] = 0,
) -> ClosedForm:
    """`bits`: g, of a table. `shuffles`: how often all numbers are dealt out to tables.

    `alpha`: penalty, as a share of the mean eigenvalue of G. `precision`: of statistics on their way. `seed`: of the
    shuffles, public.
    """

    def asks(total: FederationStatistics, task: Task) -> FeatureQuery:
        if not total.present.any():
            raise GgeurError(
                "There are no samples at all, so no classifier can be computed.", code="training-samples-missing"
            )
        corners = table_corners(total.dimension, bits, shuffles, seed)
        return FeatureQuery(TableMap(total.units, corners), None, precision)

    def solve(total: FederationStatistics, task: Task) -> Params:
        assert total.features is not None
        asked, s = total.features.asked, total.features.total
        w, b = ridge_of_features(s, alpha, exact=precision == "float64")
        here, units = total.present, asked.map.units
        return {
            "center": units.shift,
            "scale": np.float64(units.scale),
            "landmarks": asked.map.landmarks,
            "W": np.where(here[:, None], w, w[here].mean(axis=0)),
            "b": np.where(here, b, b[here].mean() - BELOW),
        }

    return ClosedForm("pooled", solve, head="lookup", features=asks)


def table_corners(p: int, bits: int, shuffles: int, seed: int) -> FloatArray:
    """(D, p): the corners of all tables; what is over when `p` numbers are cut into groups is left out of a shuffle."""
    bits = min(bits, p)
    groups, rng = p // bits, generator(seed, "tables")
    if (entries := shuffles * groups * 2**bits) > _MOST:
        raise GgeurError(
            f"[method.safle] its tables have {entries:,} entries, and {_MOST:,} are the most: take fewer bits or "
            "shuffles.",
            code="features-tables-large",
        )
    rows = 2.0 * (np.arange(2**bits)[:, None] >> np.arange(bits) & 1) - 1  # (2^g, g)
    corners = np.zeros((shuffles, groups, 2**bits, p), np.float32)
    for shuffle in range(shuffles):
        dealt = rng.permutation(p)[: groups * bits].reshape(groups, bits)
        for group, of in enumerate(dealt):
            corners[shuffle, group][:, of] = rows
    return corners.reshape(-1, p)
