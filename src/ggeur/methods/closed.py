"""Training-free heads: a linear head solved from the same statistics that clients send for GGEUR anyway."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from ggeur.core.errors import GgeurError
from ggeur.core.statistics import ClassStatistics
from ggeur.heads.head import Params

NEVER = -1e6  # bias of a class without samples: it is never the answer


class ClosedForm(NamedTuple):
    """(merged statistics, key) -> parameters of a linear head."""

    solve: Callable[[ClassStatistics, jax.Array], Params]


def linear_params(statistics: ClassStatistics, w: NDArray[np.float64], b: NDArray[np.float64]) -> Params:
    """W and b as a linear head in float32, classes without samples switched off."""
    if not statistics.present.any():
        raise GgeurError("There are no samples at all, so no head can be solved for.")
    present = statistics.present
    return {
        "W": np.where(present[:, None], w, 0.0).astype(np.float32),
        "b": np.where(present, b, NEVER).astype(np.float32),
    }
