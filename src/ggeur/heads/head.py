"""A head: the network that a federation trains, on frozen embeddings or on pictures."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ggeur.heads.parameter_tree import by_path, mapped

if TYPE_CHECKING:
    import jax

Params = Any  # a pytree of arrays
_BLOCK = 2048  # samples that are in float64 at once
_PICTURES = 64 * 3 * 32**2  # numbers at once: a network holds every layer's values, and nine times a layer's patches


class Head(NamedTuple):
    """Pure functions of a head.

    `represent` is what feature penalties (MOON, FedProto) act on: the hidden layer, or the logits where there is none.

    Parameters
    ----------
    init : (key, p, C) -> the first parameters.
    logits : (params, x) -> (N, C).
    represent : (params, x) -> features for penalties such as MOON's.
    shape : (params) -> (C, p).
    linear : whether its parameters are W and b, which solvers compute.
    images : whether its samples are pictures.

    >>> import jax
    >>> scores = lambda params, x: x @ params["W"].T
    >>> plain = Head(
    ...     init=lambda key, p, C: {"W": jax.random.normal(key, (C, p))},
    ...     logits=scores,
    ...     represent=scores,
    ...     shape=lambda params: params["W"].shape,
    ... )
    >>> plain.shape(plain.init(jax.random.key(0), 8, 3))
    (3, 8)
    """

    init: Callable[[jax.Array, int, int], Params]  # (key, dimensions, classes) -> params
    logits: Callable[[Params, jax.Array], jax.Array]  # (params, x (n, p)) -> (n, C)
    represent: Callable[[Params, jax.Array], jax.Array]
    shape: Callable[[Params], tuple[int, int]]  # (params) -> (classes, dimensions)
    linear: bool = False  # its parameters are W (C, p) and b (C,), which a solver can compute
    images: bool = False  # its samples are pictures, (S, S, 3) of 0 to 255 laid flat


def has_float64(params: Params) -> bool:
    """Return whether a head has float64 numbers, as one-shot classifiers have."""
    return any(leaf.dtype == np.float64 for leaf in by_path(params).values())


def double_logits(head: Head, params: Params, x: Any) -> NDArray[np.float64] | None:
    """Return the logits of samples `x` (n, p) in float64 if `head` has float64 numbers, as one-shot classifiers have.

    Such a head takes NumPy's arrays as it does JAX's. Return None for any other, whose type is float32.
    """
    if not has_float64(params):
        return None
    samples, exact = np.asarray(x), mapped(np.asarray, params)
    blocks: list[Any] = [samples[i : i + _BLOCK].astype(np.float64) for i in range(0, max(len(samples), 1), _BLOCK)]
    return np.concatenate([np.asarray(head.logits(exact, block)) for block in blocks])


def in_blocks(head: Head, compute: Callable[[Any], Any], x: Any) -> Any:
    """Apply `compute`, which does not look across samples, to `x`: pictures a few at a time, others all at once."""
    few = max(1, _PICTURES // np.shape(x)[1])
    if not head.images or len(x) <= few:
        return compute(x)
    return np.concatenate([np.asarray(compute(x[i : i + few])) for i in range(0, len(x), few)])
