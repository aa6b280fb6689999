"""A head: the small network that a federation trains on frozen embeddings."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

Params = Any  # a pytree of arrays


class Head(NamedTuple):
    """Pure functions of a head.

    `represent` is what feature penalties (MOON, FedProto) act on: the hidden layer, or the logits where there is none.
    """

    init: Callable[[jax.Array, int, int], Params]  # (key, dimensions, classes) -> params
    logits: Callable[[Params, jax.Array], jax.Array]  # (params, x (n, p)) -> (n, C)
    represent: Callable[[Params, jax.Array], jax.Array]
    shape: Callable[[Params], tuple[int, int]]  # (params) -> (classes, dimensions)
