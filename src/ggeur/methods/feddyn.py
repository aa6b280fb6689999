"""FedDyn (Acar et al., ICLR 2021, Algorithm 1): a dynamic regulariser makes local optima agree with the global one.

    w_k  = argmin_w  L_k(w) - <g_k, w> + alpha/2 ||w - w_t||^2
    g_k <- g_k - alpha (w_k - w_t)
    h   <- h - alpha (1/N) sum_S (w_k - w_t),    w_{t+1} = mean_S(w_k) - h / alpha

Means over clients are uniform, as in the algorithm; [train] weights has no say. Under full participation h is
the mean of the g_k.
"""

import jax
import jax.numpy as jnp

from ggeur.heads.head import Head, Params
from ggeur.methods.method import Method, add_term, inner, squared_distance
from ggeur.methods.parts import Batch, LocalWork, Parts, Released, RoundFacts
from ggeur.stats.hyperparameters import Positive, Traced
from ggeur.stats.types import Tree


def feddyn(head: Head, *, alpha: Traced[Positive] = 0.5) -> Method:
    """`alpha`: weight of the regulariser."""

    def init(params: Params, prepared: Parts, n_clients: int) -> tuple[Tree, Tree]:
        zero = jax.tree.map(jnp.zeros_like, params)
        return {"params": params, "h": zero, "N": jnp.asarray(float(n_clients))}, {"g": zero}

    def regulariser(w: Params, batch: Batch, context: Released) -> jax.Array:
        return alpha / 2 * squared_distance(w, context["params"]) - inner(context["client"]["g"], w)

    def upload(work: LocalWork) -> tuple[Parts, Tree]:
        g, w_k, w_t = work.context["client"]["g"], work.end, work.context["params"]
        return {"params": w_k}, {"g": jax.tree.map(lambda g, w_k, w_t: g - alpha * (w_k - w_t), g, w_k, w_t)}

    def aggregate(server: Tree, total: Parts, facts: RoundFacts) -> Tree:
        mean, share = total["params"], facts.participants / server["N"]
        h = jax.tree.map(lambda h, m, w_t: h - alpha * share * (m - w_t), server["h"], mean, server["params"])
        return {"params": jax.tree.map(lambda m, h: m - h / alpha, mean, h), "h": h, "N": server["N"]}

    return Method(
        loss=add_term(head, regulariser),
        init=init,
        broadcast=lambda server: {"params": server["params"]},
        upload=upload,
        adds={"params": "equal"},
        aggregate=aggregate,
    )
