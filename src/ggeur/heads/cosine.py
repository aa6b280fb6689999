"""Cosine scores: the text that a sample is most like, one text for every class, as CLIP compares with captions."""

import jax
import jax.numpy as jnp

from ggeur.heads.head import Head, Params

SCALE = 100.0  # CLIP's logit scale, which is frozen


def cosines(x: jax.Array, text: jax.Array) -> jax.Array:
    """Return (n, C), 100 cos of every sample (n, p) with every text (C, p); a sample that is zero is like none."""
    z = unit(text) @ unit(x).T  # classes first inside, as in a linear head
    found: jax.Array = SCALE * z.T
    return found


def unit(x: jax.Array) -> jax.Array:
    """Return vectors of length 1; the small constant keeps the gradient finite at zero."""
    return x * jax.lax.rsqrt(jnp.maximum(jnp.sum(x * x, axis=-1, keepdims=True), 1e-24))


def cosine() -> Head:
    """logit_c = 100 cos(x, t_c); its numbers come of a text tower, and are not trained."""

    def init(key: jax.Array, p: int, n_classes: int) -> Params:
        return {"text": jnp.zeros((n_classes, p))}

    def logits(params: Params, x: jax.Array) -> jax.Array:
        return cosines(x, params["text"])

    return Head(init, logits, logits, lambda params: params["text"].shape)
