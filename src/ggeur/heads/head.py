"""A head: the small network that a federation trains on frozen embeddings."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

Params = Any  # a pytree of arrays


class Head(NamedTuple):
    """Pure functions of a head.

    `represent` is what feature penalties (MOON, FedProto) act on: the hidden layer, or the logits where there is none.
    """

    init: Callable[[jax.Array, int, int], Params]  # (key, dimensions, classes) -> params
    logits: Callable[[Params, jax.Array], jax.Array]  # (params, x (n, p)) -> (n, C)
    represent: Callable[[Params, jax.Array], jax.Array]
    shape: Callable[[Params], tuple[int, int]]  # (params) -> (classes, dimensions)
    linear: bool = False  # its parameters are W (C, p) and b (C,), for which a head can be solved


def double_logits(head: Head, params: Params, x: Any) -> NDArray[np.float64] | None:
    """The logits of rows `x` (n, p) in float64, where the numbers of `head` are: of a solved one the intercept.

    Such a head is linear, and NumPy's arrays go through it as JAX's do. None of any other, whose type is float32.
    """
    if not any(leaf.dtype == np.float64 for leaf in jax.tree.leaves(params)):
        return None
    rows: Any = np.asarray(x, np.float64)
    return np.asarray(head.logits(jax.tree.map(np.asarray, params), rows))
