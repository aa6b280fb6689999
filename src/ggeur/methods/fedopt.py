"""FedOpt (Reddi et al., ICLR 2021): the mean update is a pseudo-gradient for an optimiser on the server.

    Delta_t = sum_k p_k (w_k - w_t),    w_{t+1} = w_t + ServerOpt(Delta_t)

The default is the benchmark's: SGD with rate 0.5 and momentum 0.9. The adaptive forms are optax's, with tau added to
the root of the second moment; Adam's and Yogi's moments are corrected for their start at zero, which the paper leaves
out.
"""

from typing import Literal

import jax
import jax.numpy as jnp
import optax

from ggeur.heads.head import Head, Params
from ggeur.methods.method import Method, Tree, cross_entropy_loss, weighted_mean


def fedopt(
    head: Head,
    *,
    server: Literal["sgd", "adam", "yogi", "adagrad"] = "sgd",
    server_rate: float | None = None,
    momentum: float = 0.9,
    beta2: float = 0.99,
    tau: float = 1e-3,
) -> Method:
    """`server_rate`: eta, by default 0.5 for SGD, else 0.01; `momentum`: SGD's, or beta_1 of Adam and Yogi."""
    eta = server_rate if server_rate is not None else 0.5 if server == "sgd" else 0.01
    server_optimiser = {
        "sgd": lambda: optax.sgd(eta, momentum or None),
        "adam": lambda: optax.adam(eta, momentum, beta2, eps=tau),
        "yogi": lambda: optax.yogi(eta, momentum, beta2, eps=tau),
        "adagrad": lambda: optax.adagrad(eta, initial_accumulator_value=tau**2, eps=tau),
    }[server]()

    def init(params: Params, prepared: Tree, n_clients: int) -> tuple[Tree, Tree]:
        return {"params": params, "memory": server_optimiser.init(params)}, ()

    def aggregate(state: Tree, messages: Tree, ids: jax.Array, weights: jax.Array, key: jax.Array) -> Tree:
        mean = weighted_mean(messages["params"], weights)
        pseudo_gradient = jax.tree.map(jnp.subtract, state["params"], mean)  # -Delta_t
        update, memory = server_optimiser.update(pseudo_gradient, state["memory"], state["params"])
        return {"params": optax.apply_updates(state["params"], update), "memory": memory}

    return Method(
        loss=cross_entropy_loss(head),
        init=init,
        broadcast=lambda state: {"params": state["params"]},
        aggregate=aggregate,
    )
