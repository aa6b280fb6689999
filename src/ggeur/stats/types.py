"""The few types that many rooms share, each named once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Int = NDArray[np.int64]
Float = NDArray[np.float64]
FloatArray = NDArray[np.float32]
Bool = NDArray[np.bool_]
Tree = Any  # a pytree: arrays in dictionaries, lists and tuples


THREADS = 2
"""Fixed, and not the machine's count: what shares a compiled call depends on it, and with that the last digits of
every sum, which are to be the same on every machine."""
