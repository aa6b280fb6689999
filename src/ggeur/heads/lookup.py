"""Scores that are sums of entries of tables: which entries, the signs of the sample's numbers say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ggeur.heads.head import Head, Params
from ggeur.stats.features import table_values
from ggeur.stats.hyperparameters import Count

if TYPE_CHECKING:
    import jax


def lookup(*, entries: Count = 16) -> Head:
    """W phi(x) + b of the corners phi that a sample is in; `entries`: those of all tables. They are solved for."""

    def init(key: jax.Array, p: int, n_classes: int) -> Params:
        import jax.numpy as jnp

        return {
            "center": jnp.zeros(p),
            "scale": jnp.ones(()),
            "landmarks": jnp.zeros((entries, p)),
            "W": jnp.zeros((n_classes, entries)),
            "b": jnp.zeros(n_classes),
        }

    def logits(params: Params, x: jax.Array) -> jax.Array:
        z = (x - params["center"]) / params["scale"]
        found: jax.Array = table_values(z, params["landmarks"]) @ params["W"].T + params["b"]
        return found

    return Head(init, logits, logits, lambda params: (len(params["W"]), params["landmarks"].shape[1]))


def sizes(params: Params) -> dict[str, int]:
    """Return the sizes of the head that has these numbers."""
    return {"entries": len(params["landmarks"])}
