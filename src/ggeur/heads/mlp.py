"""One hidden layer: a head with a representation of its own, which MOON and FedProto act on."""

from typing import Annotated

import jax
import jax.numpy as jnp
from pydantic import Field

from ggeur.heads.head import Head, Params
from ggeur.heads.linear import torch_linear

Width = Annotated[int, Field(gt=0, le=10**7)]  # past which memory would run out, not sense begin


def mlp(*, hidden: Width = 256, softmax: bool = False) -> Head:
    """logits = W2 relu(W1 x + b1) + b2, with `hidden` units. With `softmax`, probabilities take the place of logits."""

    def init(key: jax.Array, p: int, n_classes: int) -> Params:
        key_1, key_2 = jax.random.split(key)
        w1, b1 = torch_linear(key_1, p, hidden)
        w2, b2 = torch_linear(key_2, hidden, n_classes)
        return {"W1": w1, "b1": b1, "W2": w2, "b2": b2}

    def represent(params: Params, x: jax.Array) -> jax.Array:
        return jax.nn.relu(params["W1"] @ x.T + params["b1"][:, None]).T

    def logits(params: Params, x: jax.Array) -> jax.Array:
        z = (params["W2"] @ represent(params, x).T + params["b2"][:, None]).T
        return jax.nn.softmax(z) if softmax else z

    def shape(params: Params) -> tuple[int, int]:
        return len(jnp.asarray(params["b2"])), params["W1"].shape[1]

    return Head(init, logits, represent, shape)


def sizes(params: Params) -> dict[str, int]:
    """Return the sizes of the head that has these numbers."""
    return {"hidden": max(params["b1"].size, 1)}
