"""Scores of a mixture of Gaussian models, one per site: a matrix product after whitening, then a log-sum-exp."""

import jax
import jax.numpy as jnp

from ggeur.core.parameters import Count
from ggeur.heads.head import Head, Params


def site_scores(params: Params, x: jax.Array) -> jax.Array:
    """(n, S, C): the log-likelihood, up to a constant, of every row in every class of every site."""
    white = jnp.einsum("np,sqp->nsq", x - params["center"], params["whiten"])
    inner = jnp.einsum("nsq,scq->nsc", white, params["means"])
    return jnp.asarray(inner - (white**2).sum(axis=2, keepdims=True) / 2 + params["offset"])


def mixture(*, sites: Count = 1) -> Head:
    """log sum_s exp score_sc(x), over so many `sites`; its numbers are solved for, not trained."""

    def init(key: jax.Array, p: int, n_classes: int) -> Params:
        means = jnp.zeros((sites, n_classes, p))
        whiten = jnp.tile(jnp.eye(p), (sites, 1, 1))
        return {"center": jnp.zeros(p), "whiten": whiten, "means": means, "offset": means[:, :, 0]}

    def logits(params: Params, x: jax.Array) -> jax.Array:
        return jax.nn.logsumexp(site_scores(params, x), axis=1)

    return Head(init, logits, logits, lambda params: params["means"].shape[1:])


def sizes(params: Params) -> dict[str, int]:
    """The parameters of the head that has these numbers."""
    return {"sites": len(params["means"])}
