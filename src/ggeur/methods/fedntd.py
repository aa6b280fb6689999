"""FedNTD (Lee et al., NeurIPS 2022): keep what the global model knows of the classes a sample is *not*.

loss = l_CE + beta tau^2 KL(q~_g || q~_l),    q~(c) = softmax over c' != y of logits / tau
"""

import jax
import jax.numpy as jnp

from ggeur.heads.head import Head, Params
from ggeur.methods.method import Method, add_term, row_mean
from ggeur.methods.parts import Batch, Released
from ggeur.stats.hyperparameters import AtLeastZero, Positive, Traced


def fedntd(head: Head, *, beta: Traced[AtLeastZero] = 1.0, tau: Traced[Positive] = 1.0) -> Method:
    """`beta`: weight of the distillation; `tau`: its temperature."""

    def not_true(params: Params, batch: Batch) -> jax.Array:
        """log q~ with the true class at -inf, safely below everything."""
        logits = head.logits(params, batch.x) / tau
        true = jax.nn.one_hot(batch.y, logits.shape[-1], dtype=logits.dtype)
        return jax.nn.log_softmax(logits - 1e9 * true)

    def distillation(w: Params, batch: Batch, context: Released) -> jax.Array:
        log_local, log_global = not_true(w, batch), not_true(context["params"], batch)
        q = jnp.exp(log_global)  # zero at the true class
        return beta * tau**2 * row_mean(jnp.sum(q * (log_global - log_local), axis=-1), batch.mask)

    return Method(loss=add_term(head, distillation))
