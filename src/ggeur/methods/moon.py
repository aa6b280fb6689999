"""MOON (Li, He and Song, CVPR 2021): the representation is drawn to the global model's, away from one's previous own.

    l_con = -log e^{sim(z, z_glob)/tau} / (e^{sim(z, z_glob)/tau} + e^{sim(z, z_prev)/tau}),    loss = l_sup + mu l_con

z is the hidden layer of an MLP head. A linear head on frozen embeddings has no representation of its own to move (the
term would have no gradient), so z is then the logits. In a client's first round z_prev is z_glob and the
term is constant.
"""

import jax
import jax.numpy as jnp

from ggeur.heads.head import Head, Params
from ggeur.methods.method import Method, add_term, row_mean
from ggeur.methods.parts import Batch, LocalWork, Parts, Released
from ggeur.stats.hyperparameters import AtLeastZero, Positive, Traced
from ggeur.stats.types import Tree


def moon(head: Head, *, mu: Traced[AtLeastZero] = 1.0, tau: Traced[Positive] = 0.5) -> Method:
    """`mu`: weight of the contrast; `tau`: its temperature."""

    def init(params: Params, prepared: Parts, n_clients: int) -> tuple[Tree, Tree]:
        return {"params": params}, {"previous": params}

    def contrast(w: Params, batch: Batch, context: Released) -> jax.Array:
        z, z_glob, z_prev = (
            head.represent(params, batch.x) for params in (w, context["params"], context["client"]["previous"])
        )
        towards, away = cosine_similarity(z, z_glob) / tau, cosine_similarity(z, z_prev) / tau
        return mu * row_mean(jnp.logaddexp(towards, away) - towards, batch.mask)

    def upload(work: LocalWork) -> tuple[Parts, Tree]:
        return {"params": work.end}, {"previous": work.end}

    return Method(loss=add_term(head, contrast), init=init, upload=upload)


def cosine_similarity(a: jax.Array, b: jax.Array) -> jax.Array:
    """Return the cosine of each pair of vectors; the small constant keeps the gradient finite at zero, as in torch."""
    norms = jnp.sqrt(jnp.maximum(jnp.sum(a * a, -1) * jnp.sum(b * b, -1), 1e-16))
    return jnp.sum(a * b, -1) / norms
