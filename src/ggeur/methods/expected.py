"""GGEUR's loss without its draws: a closed upper bound of their expected cross-entropy (Wang et al., NeurIPS 2019).

For x ~ N(m, T_c) and a linear head, by Jensen,

    E log sum_j exp((w_j - w_c)'x + b_j - b_c)  <=  log sum_j exp((w_j - w_c)'m + b_j - b_c + Q_cj)
    Q_cj = 1/2 (w_j - w_c)' T_c (w_j - w_c),    T_c = U_c U_c' + s_c I

so it is the cross-entropy at m of logits to which Q_c is added: 0 for class c itself, more for every other. Q is one
table of a step, whatever its samples: C p r products for one shape of rank r and C times that for one of every class,
as each w_j meets each U_c, and C^2 r sums.
"""

import jax
import jax.numpy as jnp

from ggeur.heads.head import Params
from ggeur.methods.parts import Batch
from ggeur.stats.geometry import LowRank


def quadratic_table(W: jax.Array, shapes: LowRank) -> jax.Array:
    """Q (C, C) of a linear head with weights `W` (C, p)."""
    U, s = shapes
    a = jnp.einsum("jp,crp->cjr", W, U)  # U_c' w_j
    own = jnp.eye(len(W), dtype=W.dtype)[:, :, None]  # a mask compiles better than a gather
    a_own = a[0] if len(U) == 1 else jnp.sum(a * own, axis=1)  # U_c' w_c
    norm = jnp.sum(W * W, axis=1)
    apart = norm[:, None] + norm - 2 * W @ W.T  # |w_j - w_c|^2
    Q: jax.Array = (jnp.sum((a - a_own[:, None]) ** 2, axis=-1) + s[:, None] * apart) / 2
    return Q


def widened(logits: jax.Array, params: Params, batch: Batch, share: jax.Array | float = 1.0) -> jax.Array:
    """Return `logits` (B, C) of a linear head, plus Q_c on samples of class c that stand for draws, if any do.

    Where a method takes only a `share` of each sample, its draws spread by as much.
    """
    if batch.drawn is None or batch.shapes is None:
        return logits
    Q = quadratic_table(params["W"], batch.shapes)
    c = jax.nn.one_hot(batch.y, len(Q), dtype=Q.dtype, axis=0) * batch.drawn  # classes first, as in cross_entropy
    return logits + share**2 * (Q.T @ c).T


def log_probabilities(logits: jax.Array, params: Params, batch: Batch, share: jax.Array | float = 1.0) -> jax.Array:
    """z - log sum exp(z + Q_c): by them the expected cross-entropy of any label is bounded, a soft one too."""
    if batch.drawn is None:
        return jax.nn.log_softmax(logits)
    wide = widened(logits, params, batch, share)
    return logits - jax.nn.logsumexp(wide, axis=-1, keepdims=True)
