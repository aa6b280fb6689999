"""The few types that many rooms share, each named once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Int = NDArray[np.int64]
Float = NDArray[np.float64]
FloatArray = NDArray[np.float32]
Bool = NDArray[np.bool_]
Tree = Any  # a pytree: arrays in dictionaries, lists and tuples
