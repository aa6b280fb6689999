"""FedFA (Zhou and Konukoglu, ICLR 2023), the published form: jitter feature statistics by how uncertain they are.

The original perturbs the mean and deviation of feature maps. A vector has no map: its mean is itself and its deviation
is zero, so the mean's part survives, applied to a batch with probability 1/2:

    x + eps sqrt((gamma + 1) Var_batch(x)),    eps ~ N(0, I)
    gamma_c = p v_c / sum v,    v = 1 / (1 + 1 / Var_clients(m_k)),    m_k a running mean of the client's batch means

In round 1 nothing is known of other clients and gamma is 1 throughout.
"""

import jax
import jax.numpy as jnp

from ggeur.heads.head import Head, Params
from ggeur.methods.method import Method, batch_cross_entropy
from ggeur.methods.parts import Batch, LocalWork, Parts, Released, RoundFacts
from ggeur.stats.hyperparameters import Fraction, Traced
from ggeur.stats.types import Tree

MOMENTUM = 0.99


def fedfa(head: Head, *, probability: Traced[Fraction] = 0.5) -> Method:
    """`probability`: that a batch is perturbed."""

    def init(params: Params, prepared: Parts, n_clients: int) -> tuple[Tree, Tree]:
        _, p = head.shape(params)
        return {"params": params, "gamma": jnp.ones(p)}, {"m": jnp.zeros(p)}

    def loss(w: Params, batch: Batch, context: Released, m: Tree, key: jax.Array) -> tuple[jax.Array, Tree]:
        k_coin, k_eps = jax.random.split(key)
        count = jnp.maximum(jnp.sum(batch.mask), 1)
        mean = batch.mask @ batch.x / count
        variance = batch.mask @ (batch.x - mean) ** 2 / jnp.maximum(count - 1, 1)
        spread = jnp.sqrt((context["gamma"] + 1) * variance)
        on = jax.random.bernoulli(k_coin, probability)
        x = batch.x + on * jax.random.normal(k_eps, batch.x.shape) * spread
        return batch_cross_entropy(head, w, batch._replace(x=x)), MOMENTUM * m + (1 - MOMENTUM) * mean

    def upload(work: LocalWork) -> tuple[Parts, Tree]:
        return {"params": work.end, "m": work.carry}, {"m": work.carry}

    def aggregate(server: Tree, total: Parts, facts: RoundFacts) -> Tree:
        v = 1 / (1 + 1 / (jnp.var(total["m"], axis=0) + 1e-6))
        gamma = len(v) * v / jnp.sum(v) if facts.participants > 1 else server["gamma"]
        return {"params": total["params"], "gamma": gamma}

    return Method(
        loss=loss,
        init=init,
        begin=lambda context: context["client"]["m"],
        upload=upload,
        adds={"params": "weighted", "m": "every"},  # the variance is taken across clients
        aggregate=aggregate,
    )
