"""What every solved linear head ends with: parameters, and what becomes of classes that nobody holds."""

import numpy as np
from numpy.typing import NDArray

from ggeur.core.errors import GgeurError
from ggeur.core.message import Message
from ggeur.heads.head import Params

BELOW = 10.0  # how far a class without samples stays below the mean of the others


def linear_params(total: Message, w: NDArray[np.float64], b: NDArray[np.float64]) -> Params:
    """W and b as a linear head in float32.

    A class without samples gets the mean logit of the others, less a constant: it is never the answer, and a head that
    goes on to be trained does not start with a huge weight.
    """
    if not total.present.any():
        raise GgeurError("There are no samples at all, so no head can be solved for.")
    present = total.present
    w, b = np.where(present[:, None], w, w[present].mean(axis=0)), np.where(present, b, b[present].mean() - BELOW)
    return {"W": w.astype(np.float32), "b": b.astype(np.float32)}
