"""A linear head and a mixture together: the sum of their log-probabilities, those of the mixture tempered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ggeur.heads.head import Head, Params
from ggeur.heads.linear import linear
from ggeur.heads.mixture import log_sum_exp, mixture
from ggeur.heads.mixture import sizes as sizes_of_mixture
from ggeur.stats.hyperparameters import Count

if TYPE_CHECKING:
    import jax


def blend(*, sites: Count = 1) -> Head:
    """log softmax(linear(x)) + log softmax(t mixture(x)); `sites` are those of the mixture."""
    first, second = linear(), mixture(sites=sites)

    def init(key: jax.Array, p: int, n_classes: int) -> Params:
        import jax.numpy as jnp

        return {"linear": first.init(key, p, n_classes), "mixture": second.init(key, p, n_classes), "t": jnp.ones(())}

    def logits(params: Params, x: jax.Array) -> jax.Array:
        found: jax.Array = joined(first.logits(params["linear"], x), params["t"] * second.logits(params["mixture"], x))
        return found

    return Head(init, logits, logits, lambda params: first.shape(params["linear"]))


def joined(z: Any, g: Any) -> Any:
    """Return the sum of the log-probabilities that go with logits `z` and `g` (n, C)."""
    return z - log_sum_exp(z, 1) + g - log_sum_exp(g, 1)


def sizes(params: Params) -> dict[str, int]:
    """Return the sizes of the head that has these numbers."""
    return sizes_of_mixture(params["mixture"])
