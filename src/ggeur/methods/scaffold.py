"""SCAFFOLD (Karimireddy et al., ICML 2020, Algorithm 1, option II): control variates correct the clients' drift.

    y_i <- y_i - eta (g_i(y_i) - c_i + c)
    c_i+ = c_i - c + (x - y_i) / (K eta)
    x  <- x + eta_g mean_S(y_i - x),    c <- c + |S|/N mean_S(c_i+ - c_i)

Means over the round's clients are uniform, as in the algorithm; [train] weights has no say. Local steps are plain SGD
without momentum or decay: (x - y_i) / (K eta) is the mean gradient only then, and with momentum 0.9 the control
variates diverge.
"""

import jax
import jax.numpy as jnp
import optax

from ggeur.heads.head import Head, Params
from ggeur.methods.method import Method, add_term, inner
from ggeur.methods.parts import Batch, LocalWork, Parts, Released, RoundFacts
from ggeur.stats.hyperparameters import Positive, Traced
from ggeur.stats.types import Tree


def scaffold(head: Head, *, server_learning_rate: Traced[Positive] = 0.25) -> Method:
    """`server_learning_rate`: eta_g, the step of the server along the mean update."""

    def init(params: Params, prepared: Parts, n_clients: int) -> tuple[Tree, Tree]:
        zero = jax.tree.map(jnp.zeros_like, params)
        return {"params": params, "c": zero, "N": jnp.asarray(float(n_clients))}, {"c_i": zero}

    def correction(y: Params, batch: Batch, context: Released) -> jax.Array:
        """Linear in y: its gradient is c - c_i."""
        return inner(jax.tree.map(jnp.subtract, context["c"], context["client"]["c_i"]), y)

    def upload(work: LocalWork) -> tuple[Parts, Tree]:
        x, y, K, eta = work.start, work.end, work.steps, work.learning_rate
        c, c_i = work.context["c"], work.context["client"]["c_i"]
        new = jax.tree.map(lambda c_i, c, x, y: c_i - c + (x - y) / (K * eta), c_i, c, x, y)
        message = {"dy": jax.tree.map(jnp.subtract, y, x), "dc": jax.tree.map(jnp.subtract, new, c_i)}
        return message, {"c_i": new}

    def aggregate(server: Tree, total: Parts, facts: RoundFacts) -> Tree:
        share = facts.participants / server["N"]
        return {
            "params": jax.tree.map(lambda x, dy: x + server_learning_rate * dy, server["params"], total["dy"]),
            "c": jax.tree.map(lambda c, dc: c + share * dc, server["c"], total["dc"]),
            "N": server["N"],
        }

    return Method(
        loss=add_term(head, correction),
        init=init,
        broadcast=lambda server: {"params": server["params"], "c": server["c"]},
        upload=upload,
        adds={"dy": "equal", "dc": "equal"},
        aggregate=aggregate,
        optimiser=optax.sgd,
    )
