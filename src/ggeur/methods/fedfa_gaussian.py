"""FedFA as the GGEUR paper describes it (Section 3.3): new samples from a Gaussian around each class's prototype.

    mu_c, sigma_c: mean and deviation of class c, coordinate by coordinate, over the whole federation
    x' = mu_c + sigma_c eps,    loss = 1/2 CE(h(x), y) + 1/2 CE(h(x'), c),    c uniform over classes that exist

It differs from GGEUR in that directions are the coordinate axes and centres are class means. The published
FedFA, which is another method, is `fedfa`.
"""

import jax
import jax.numpy as jnp

from ggeur.heads.head import Head, Params
from ggeur.methods.method import Method, batch_cross_entropy, cross_entropy
from ggeur.methods.parts import Batch, ClientData, Parts, Released
from ggeur.stats.types import Tree


def fedfa_gaussian(head: Head) -> Method:
    """It has no parameters."""

    def prepare(data: ClientData, key: jax.Array) -> Parts:
        """Count, sum and sum of squares of each class."""
        n_classes, p = len(data.class_count), data.take(jnp.zeros(1, int)).x.shape[1]

        def add(total: Tree, batch: Batch) -> Tree:
            member = jax.nn.one_hot(batch.y, n_classes, axis=0) * batch.mask
            return total[0] + member @ batch.x, total[1] + member @ batch.x**2

        zero = jnp.zeros((n_classes, p))
        s1, s2 = data.fold(add, (zero, zero))
        return {"n": data.class_count, "s1": s1, "s2": s2}

    def init(params: Params, total: Parts, n_clients: int) -> tuple[Tree, Tree]:
        n = jnp.maximum(total["n"], 1)[:, None]
        mu = total["s1"] / n
        sigma = jnp.sqrt(jnp.maximum(total["s2"] / n - mu**2, 0))
        return {"params": params, "mu": mu, "sigma": sigma, "exists": (total["n"] > 0).astype(mu.dtype)}, ()

    def loss(w: Params, batch: Batch, context: Released, carry: Tree, key: jax.Array) -> tuple[jax.Array, Tree]:
        k_class, k_eps = jax.random.split(key)
        c = jax.random.categorical(k_class, jnp.log(context["exists"]), shape=batch.y.shape)
        made = context["mu"][c] + context["sigma"][c] * jax.random.normal(k_eps, batch.x.shape)
        own = batch_cross_entropy(head, w, batch)
        return (own + cross_entropy(head.logits(w, made), c, jnp.ones_like(batch.mask))) / 2, carry

    return Method(
        loss=loss,
        prepare=prepare,
        prepared_adds={"n": "sum", "s1": "sum", "s2": "sum"},
        init=init,
        constant=("mu", "sigma", "exists"),
    )
