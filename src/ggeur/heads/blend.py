"""A linear head and a gated one together: the sum of their log-probabilities, those of the gated one tempered."""

import jax
import jax.numpy as jnp

from ggeur.core.parameters import Count
from ggeur.heads.gated import gated
from ggeur.heads.gated import sizes as sizes_of_gated
from ggeur.heads.head import Head, Params
from ggeur.heads.linear import linear


def blend(*, sites: Count = 1) -> Head:
    """log softmax(linear(x)) + log softmax(t gated(x)); `sites` are those of the gated head."""
    first, second = linear(), gated(sites=sites)

    def init(key: jax.Array, p: int, n_classes: int) -> Params:
        return {"linear": first.init(key, p, n_classes), "gated": second.init(key, p, n_classes), "t": jnp.ones(())}

    def logits(params: Params, x: jax.Array) -> jax.Array:
        mixture = params["t"] * second.logits(params["gated"], x)
        return jax.nn.log_softmax(first.logits(params["linear"], x)) + jax.nn.log_softmax(mixture)

    return Head(init, logits, logits, lambda params: first.shape(params["linear"]))


def sizes(params: Params) -> dict[str, int]:
    """The parameters of the head that has these numbers."""
    return sizes_of_gated(params["gated"])
