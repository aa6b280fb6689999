"""FedProto (Tan et al., AAAI 2022), in the benchmark's form: class prototypes travel, and heads are averaged too.

    C_k^c = mean of z over the client's samples of class c,    P^c = sum_k n_k^c C_k^c / sum_k n_k^c
    loss  = l_sup + lambda mean_i (z_i - P^{y_i})^2

z is the hidden layer of an MLP head; a linear head on frozen embeddings has none of its own (the term would have no
gradient), so z is then the logits. The square is averaged over samples and coordinates, and samples of a class without
a prototype, among them all samples of round 1, have no such term.
"""

import jax
import jax.numpy as jnp

from ggeur.heads.head import Head, Params
from ggeur.methods.method import Method, add_term, row_mean
from ggeur.methods.parts import Batch, LocalWork, Parts, Released, RoundFacts
from ggeur.stats.hyperparameters import AtLeastZero, Traced
from ggeur.stats.types import Tree


def fedproto(head: Head, *, lam: Traced[AtLeastZero] = 2.0) -> Method:
    """`lam`: lambda, the weight of the prototype term."""

    def init(params: Params, prepared: Parts, n_clients: int) -> tuple[Tree, Tree]:
        n_classes, p = head.shape(params)
        z = jax.eval_shape(head.represent, params, jnp.zeros((1, p)))
        prototypes = jnp.zeros((n_classes, z.shape[1]), z.dtype)
        return {"params": params, "P": prototypes, "held": jnp.zeros(n_classes, z.dtype)}, ()

    def pull(w: Params, batch: Batch, context: Released) -> jax.Array:
        z = head.represent(w, batch.x)
        square = jnp.mean((z - context["P"][batch.y]) ** 2, axis=-1)
        return lam * row_mean(square * context["held"][batch.y], batch.mask)

    def upload(work: LocalWork) -> tuple[Parts, Tree]:
        def add(total: jax.Array, batch: Batch) -> jax.Array:
            member = jax.nn.one_hot(batch.y, len(total), axis=0) * batch.mask
            return total + member @ head.represent(work.end, batch.x)

        z = work.data.fold(add, jnp.zeros_like(work.context["P"]))
        n = work.data.class_count.astype(z.dtype)
        return {"params": work.end, "z": z, "n": n}, work.context["client"]

    def aggregate(server: Tree, total: Parts, facts: RoundFacts) -> Tree:
        n = total["n"]
        fresh = total["z"] / jnp.maximum(n, 1)[:, None]
        return {
            "params": total["params"],
            "P": jnp.where(n[:, None] > 0, fresh, server["P"]),  # a class nobody brought this round keeps its own
            "held": jnp.where(n > 0, 1.0, server["held"]),
        }

    return Method(
        loss=add_term(head, pull),
        init=init,
        upload=upload,
        adds={"params": "weighted", "z": "sum", "n": "sum"},
        aggregate=aggregate,
    )
