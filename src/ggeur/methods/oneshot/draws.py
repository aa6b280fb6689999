"""Train a linear head at the server on samples that it drew itself, as CCVR and FedPFT do."""

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from ggeur.heads.head import Params
from ggeur.heads.linear import linear
from ggeur.methods.method import cross_entropy
from ggeur.stats.types import Float, Int

_MOMENTUM = 0.9


def server_random(key: jax.Array) -> np.random.Generator:
    """Return NumPy's numbers from a `key` of JAX."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)))


def trained_on(
    x: NDArray[np.float32],
    y: Int,
    n_classes: int,
    key: jax.Array,
    rng: np.random.Generator,
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
) -> tuple[Float, Float]:
    """Return W and b of a linear head after SGD on draws `x` (n, p) of classes `y`, from a random start."""
    size = min(batch_size, len(y))
    whole = len(y) // size * size
    order = np.stack([rng.permutation(len(y))[:whole] for _ in range(epochs)]).reshape(-1, size)
    start = linear().init(key, x.shape[1], n_classes)
    params = _descent(learning_rate)(jnp.asarray(x), jnp.asarray(y), jnp.asarray(order), start)
    return np.asarray(params["W"], np.float64), np.asarray(params["b"], np.float64)


@lru_cache
def _descent(learning_rate: float) -> Any:
    head, sgd = linear(), optax.sgd(learning_rate, _MOMENTUM)

    @jax.jit
    def descend(x: jax.Array, y: jax.Array, order: jax.Array, params: Params) -> Params:
        def step(
            state: tuple[Params, optax.OptState], samples: jax.Array
        ) -> tuple[tuple[Params, optax.OptState], None]:
            params, memory = state
            loss = jax.grad(lambda w: cross_entropy(head.logits(w, x[samples]), y[samples], jnp.ones(len(samples))))
            update, memory = sgd.update(loss(params), memory)
            return (optax.apply_updates(params, update), memory), None

        return jax.lax.scan(step, (params, sgd.init(params)), order)[0][0]

    return descend
