"""FedOpt (Reddi et al., ICLR 2021): the mean update is a pseudo-gradient for an optimiser on the server.

    Delta_t = sum_k p_k (w_k - w_t),    w_{t+1} = w_t + ServerOpt(Delta_t)

The default is the benchmark's: SGD with rate 0.5 and momentum 0.9. The adaptive forms are those of Algorithm 2, where v
starts at tau^2 and Adagrad keeps no momentum:

    m <- beta_1 m + (1 - beta_1) Delta,    ServerOpt(Delta) = eta m / (sqrt(v) + tau)
    v <- v + Delta^2                                    (Adagrad)
    v <- v - (1 - beta_2) Delta^2 sign(v - Delta^2)     (Yogi)
    v <- beta_2 v + (1 - beta_2) Delta^2                (Adam)

They are not optax's, which correct Adam's and Yogi's moments for their start and put tau under Adagrad's root.
"""

from typing import Literal

import jax
import jax.numpy as jnp
import optax

from ggeur.heads.head import Head, Params
from ggeur.methods.method import Method, cross_entropy_loss
from ggeur.methods.parts import Parts, RoundFacts
from ggeur.stats.hyperparameters import Fraction, Positive, Traced
from ggeur.stats.types import Tree


def fedopt(
    head: Head,
    *,
    server: Literal["sgd", "adam", "yogi", "adagrad"] = "sgd",
    server_learning_rate: Traced[Positive] | None = None,
    momentum: Traced[Fraction] = 0.9,
    beta2: Traced[Fraction] = 0.99,
    tau: Traced[Positive] = 1e-3,
) -> Method:
    """`server_learning_rate`: eta, by default 0.5 for SGD, else 0.01; `momentum`: SGD's, or beta_1 of Adam and Yogi."""
    eta = server_learning_rate if server_learning_rate is not None else 0.5 if server == "sgd" else 0.01
    if server == "sgd":
        server_optimiser = optax.sgd(eta, momentum)
    else:
        server_optimiser = adaptive(server, eta, 0.0 if server == "adagrad" else momentum, beta2, tau)

    def init(params: Params, prepared: Parts, n_clients: int) -> tuple[Tree, Tree]:
        return {"params": params, "memory": server_optimiser.init(params)}, ()

    def aggregate(state: Tree, total: Parts, facts: RoundFacts) -> Tree:
        pseudo_gradient = jax.tree.map(jnp.subtract, state["params"], total["params"])  # -Delta_t
        update, memory = server_optimiser.update(pseudo_gradient, state["memory"], state["params"])
        return {"params": optax.apply_updates(state["params"], update), "memory": memory}

    return Method(
        loss=cross_entropy_loss(head),
        init=init,
        broadcast=lambda state: {"params": state["params"]},
        aggregate=aggregate,
    )


def adaptive(kind: str, eta: float, beta1: float, beta2: float, tau: float) -> optax.GradientTransformation:
    """Algorithm 2's Adagrad, Yogi or Adam, of g = -Delta."""

    def second_moment(v: jax.Array, g: jax.Array) -> jax.Array:
        if kind == "adagrad":
            return v + g**2
        if kind == "yogi":
            return v - (1 - beta2) * g**2 * jnp.sign(v - g**2)
        return beta2 * v + (1 - beta2) * g**2

    def init(params: Params) -> Tree:
        m = jax.tree.map(jnp.zeros_like, params)
        return {"m": m, "v": jax.tree.map(lambda leaf: jnp.full_like(leaf, tau**2), params)}

    def update(g: Tree, memory: Tree, params: Params = None) -> tuple[Tree, Tree]:
        m = jax.tree.map(lambda m, g: beta1 * m + (1 - beta1) * g, memory["m"], g)
        v = jax.tree.map(second_moment, memory["v"], g)
        return jax.tree.map(lambda m, v: -eta * m / (jnp.sqrt(v) + tau), m, v), {"m": m, "v": v}

    return optax.GradientTransformation(init, update)
