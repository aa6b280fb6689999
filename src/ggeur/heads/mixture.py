"""Scores of a mixture of Gaussian models, one per site: a matrix product after whitening, then a log-sum-exp."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ggeur.heads.head import Head, Params
from ggeur.stats.hyperparameters import Count

if TYPE_CHECKING:
    import jax


def site_scores(params: Params, x: jax.Array) -> jax.Array:
    """(S, n, C): the log-likelihood, up to a constant, of every sample in every class of every site."""
    white = (x - params["center"]) @ params["whiten"].swapaxes(1, 2)  # (S, n, p)
    inner = white @ params["means"].swapaxes(1, 2)
    found: jax.Array = inner - (white**2).sum(axis=2, keepdims=True) / 2 + params["offset"][:, None]
    return found


def log_sum_exp(z: jax.Array, axis: int) -> jax.Array:
    """log sum exp over an axis, which is kept, of NumPy's arrays or JAX's."""
    xp: Any = np
    if not isinstance(z, np.ndarray):
        import jax.numpy

        xp = jax.numpy
    most = z.max(axis=axis, keepdims=True)
    found: jax.Array = most + xp.log(xp.exp(z - most).sum(axis=axis, keepdims=True))
    return found


def mixture(*, sites: Count = 1) -> Head:
    """log sum_s exp score_sc(x), over so many `sites`; its numbers are solved for, not trained."""

    def init(key: jax.Array, p: int, n_classes: int) -> Params:
        import jax.numpy as jnp

        means = jnp.zeros((sites, n_classes, p))
        whiten = jnp.tile(jnp.eye(p), (sites, 1, 1))
        return {"center": jnp.zeros(p), "whiten": whiten, "means": means, "offset": means[:, :, 0]}

    def logits(params: Params, x: jax.Array) -> jax.Array:
        return log_sum_exp(site_scores(params, x), 0)[0]

    return Head(init, logits, logits, lambda params: params["means"].shape[1:])


def sizes(params: Params) -> dict[str, int]:
    """Return the sizes of the head that has these numbers."""
    return {"sites": len(params["means"])}
