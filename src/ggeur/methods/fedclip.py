"""FedCLIP (Lu, Hu, Wang and Xie, 2023): CLIP stays as it is, and an adapter is trained that weighs image features.

    h(x) = a(x) x,    a(x) = softmax over features of W2 tanh(W1 x + b1) + b2,    z_ic = 100 cos(h(x_i), t_c)

Its loss is CLIP's: over a batch every picture finds its text among those of the batch, and every text its picture.
Texts are those of classes, so that pictures of one class are each other's negatives. With m_c of class c in the batch,

    L = 1/2 mean_i [log sum_c m_c exp z_ic - z_iy] + 1/2 mean_i [log sum_j exp z_jy - z_iy],    y = y_i

which is the contrastive loss term by term, for C columns in place of one for every picture. The optimiser is torch's
Adam, whose decay is part of the gradient, made anew every round; a batch of one sample, which has no contrast, is
passed over. With `loss = "classes"`, the cross-entropy over all classes, it counts as any other. The server's mean is
not weighted. Predicted is argmax_c z_c over all classes.
"""

from typing import Literal

import jax
import jax.numpy as jnp
import optax

from ggeur.heads.adapter import attend, random_adapter
from ggeur.heads.cosine import cosines
from ggeur.heads.head import Params
from ggeur.methods.algorithm import Task
from ggeur.methods.method import Method, MethodHead, cross_entropy
from ggeur.methods.parts import Batch, Parts, Released
from ggeur.stats.hyperparameters import AtLeastZero, Positive, Traced
from ggeur.stats.types import Tree


def fedclip(
    task: Task,
    *,
    prompts: str = "fedclip",
    loss: Literal["contrastive", "classes"] = "contrastive",
    learning_rate: Traced[Positive] = 5e-5,
    weight_decay: Traced[AtLeastZero] = 0.2,
) -> Method:
    """`prompts`: which of the table's sets of text it takes. `loss`: as above, or cross-entropy over all classes.

    `learning_rate` and `weight_decay` are its own Adam's, in place of [train]'s.
    """

    def init(params: Params, prepared: Parts, n_clients: int) -> tuple[Tree, Tree]:
        return {"params": params, "text": jnp.asarray(task.text_of(prompts, "fedclip"), params["W1"].dtype)}, ()

    def objective(w: Params, batch: Batch, context: Released, carry: Tree, key: jax.Array) -> tuple[jax.Array, Tree]:
        z = cosines(attend(w, batch.x), context["text"])
        return (contrast if loss == "contrastive" else cross_entropy)(z, batch.y, batch.mask), carry

    def shown(sent: Released, frozen: Tree) -> Params:
        return {**sent["params"], "text": sent["text"]}

    def adam(_: jax.Array) -> optax.GradientTransformation:
        steps = optax.chain(optax.add_decayed_weights(weight_decay), optax.adam(learning_rate, 0.9, 0.98, 1e-6))
        return _passing_over(steps) if loss == "contrastive" else steps

    return Method(
        loss=objective,
        init=init,
        adds={"params": "equal"},
        constant=("text",),
        optimiser=adam,
        head=MethodHead("adapter", lambda key: random_adapter(key, task.dimension), shown),
    )


def contrast(z: jax.Array, y: jax.Array, mask: jax.Array) -> jax.Array:
    """Return L of logits `z` (B, C) and labels `y` (B,) where `mask` (B,) is 1; zero for a single sample."""
    own = jax.nn.one_hot(y, z.shape[1], dtype=z.dtype) * mask[:, None]
    m, n = own.sum(axis=0), mask.sum()
    samples = jax.nn.logsumexp(z, axis=1, b=m)  # log sum_c m_c exp z_ic
    columns = jax.nn.logsumexp(z, axis=0, b=mask[:, None])  # log sum_j exp z_jc
    hits = (z * own).sum()
    total: jax.Array = ((samples * mask).sum() + jnp.where(m > 0, columns * m, 0.0).sum()) / 2 - hits
    return jnp.where(n > 1, total / jnp.maximum(n, 1), 0.0)


def _passing_over(transform: optax.GradientTransformation) -> optax.GradientTransformation:
    """`transform`, which takes no step, and forgets nothing, where there is no gradient at all."""

    def update(g: Tree, memory: Tree, params: Tree = None) -> tuple[Tree, Tree]:
        there = jnp.any(jnp.stack([jnp.any(leaf != 0) for leaf in jax.tree.leaves(g)]))
        change, new = transform.update(g, memory, params)
        return (
            jax.tree.map(lambda a: jnp.where(there, a, 0), change),
            jax.tree.map(lambda a, b: jnp.where(there, a, b), new, memory),
        )

    return optax.GradientTransformation(transform.init, update)
