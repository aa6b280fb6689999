"""A covariance in few numbers: its widest directions, and one variance for all that is beside them."""

from typing import Any, NamedTuple

import numpy as np

from ggeur.core.geometry import Geometry
from ggeur.core.types import Float


class LowRank(NamedTuple):
    """T_c = U_c U_c' + s_c I of every class, or one T for all of them."""

    U: Any  # (C or 1, r, p): the columns of U_c, as rows
    s: Any  # (C or 1,)


def low_rank(factors: Float, rank: int) -> LowRank:
    """Reduce T = F'F of the noise that `factors` F (m, p, p) make to `rank` directions; exact where that is p.

    The `rank` largest eigenvalues l_i of T are kept, and each of the others becomes their mean s, so that the trace
    stays: U has the columns sqrt(l_i - s) xi_i. All p of them need no eigenvectors, as F' is such a U.
    """
    m, p = len(factors), factors.shape[-1]
    if rank >= p:
        return LowRank(factors, np.zeros(m))
    geometry = Geometry.from_covariance(np.matmul(factors.transpose(0, 2, 1), factors), np.ones(m, np.bool_))
    s = geometry.eigenvalues[:, rank:].mean(axis=1)
    root = np.sqrt(np.maximum(geometry.eigenvalues[:, :rank] - s[:, None], 0.0))
    return LowRank(root[:, :, None] * geometry.eigenvectors[:, :, :rank].transpose(0, 2, 1), s)
