"""Scores of ridge regression on landmark features: two matrix products and an exp; a mixture may be added to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from ggeur.heads.head import Head, Params
from ggeur.heads.mixture import mixture
from ggeur.heads.mixture import sizes as sizes_of_mixture
from ggeur.stats.features import LINEAR, kernel_values
from ggeur.stats.hyperparameters import Count

if TYPE_CHECKING:
    import jax


def kernel(*, landmarks: Count = 250, sites: Annotated[int, Field(ge=0)] = 0) -> Head:
    """W phi(x) + b of the features phi of `stats/features`, with so many `landmarks`.

    Where `sites` is not 0, t times the score of a mixture of so many is added. All numbers are solved for, not trained.
    """
    added = mixture(sites=sites or 1)

    def init(key: jax.Array, p: int, n_classes: int) -> Params:
        import jax.numpy as jnp

        params = {
            "center": jnp.zeros(p),
            "scale": jnp.ones(()),
            "landmarks": jnp.zeros((landmarks, p)),
            "W": jnp.zeros((n_classes, p + landmarks)),
            "b": jnp.zeros(n_classes),
        }
        if sites:
            params |= {"mixture": added.init(key, p, n_classes), "t": jnp.ones(())}
        return params

    def logits(params: Params, x: jax.Array) -> jax.Array:
        exp: Any = np.exp
        if not isinstance(x, np.ndarray):
            import jax.numpy as jnp

            exp = jnp.exp
        z = (x - params["center"]) / params["scale"]
        w, p = params["W"], z.shape[1]
        found: jax.Array = LINEAR * z @ w[:, :p].T + kernel_values(z, params["landmarks"], exp) @ w[:, p:].T
        found = found + params["b"]
        return found + params["t"] * added.logits(params["mixture"], x) if "mixture" in params else found

    return Head(init, logits, logits, lambda params: (len(params["W"]), params["landmarks"].shape[1]))


def sizes(params: Params) -> dict[str, int]:
    """Return the sizes of the head that has these numbers."""
    added = sizes_of_mixture(params["mixture"])["sites"] if "mixture" in params else 0
    return {"landmarks": len(params["landmarks"]), "sites": added}
