"""FedMix (Yoon et al., ICLR 2021, Proposition 1): mix with the other clients' *averaged* samples, to first order.

Once, each client sends means (x_g, y_g) of M random samples each; the server hands all of them to everyone. With
u = (1 - l) x and one mean drawn per batch,

    loss = (1 - l) CE(f(u), y) + l CE(f(u), y_g) + l <grad_u CE(f(u), y), x_g>

Samples that do not fill a group are left out. A client with fewer than M samples makes one group of all of them, which
hides each among fewer. The mean of one sample would be the sample, with its label: a client that has but one sends
nothing, and M is at least 2. Where nobody sends any mean, l is 0.
"""

from typing import Annotated

import jax
import jax.numpy as jnp
from pydantic import Field

from ggeur.heads.head import Head, Params
from ggeur.methods.expected import log_probabilities
from ggeur.methods.method import Method, row_mean
from ggeur.methods.parts import Batch, ClientData, Parts, Released
from ggeur.stats.hyperparameters import Count, Fraction, Traced
from ggeur.stats.types import Tree

AtLeastTwo = Annotated[int, Field(ge=2)]


def fedmix(head: Head, *, lam: Traced[Fraction] = 0.05, group: AtLeastTwo = 5, groups: Count = 200) -> Method:
    """`lam`: l, the share of the mixed-in mean; `group`: M; `groups`: the most means that a client sends."""

    def prepare(data: ClientData, key: jax.Array) -> Parts:
        n_classes = len(data.class_count)
        lot = jax.random.uniform(key, (data.width,))
        shuffled = jnp.argsort(jnp.where(jnp.arange(data.width) < data.n, lot, 2.0))  # filling goes last
        at = jnp.pad(shuffled, (0, max(0, group * groups - data.width)), constant_values=data.width)
        samples = data.take(jnp.where(jnp.arange(len(at)) < data.n, at, -1)[: group * groups])
        member = samples.mask.reshape(groups, group)
        count = member.sum(axis=1)
        few = (jnp.arange(groups) == 0) & (count > 1)  # the first group is short only where n < M
        held = ((count == group) | few).astype(samples.x.dtype)
        share = member * (held / jnp.maximum(count, 1))[:, None]
        y = jax.nn.one_hot(samples.y, n_classes, dtype=samples.x.dtype)
        return {
            "x": jnp.einsum("gm,gmp->gp", share, samples.x.reshape(groups, group, -1)),
            "y": jnp.einsum("gm,gmc->gc", share, y.reshape(groups, group, -1)),
            "held": held,
        }

    def init(params: Params, prepared: Parts, n_clients: int) -> tuple[Tree, Tree]:
        means = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), prepared)  # the clients' means, all together
        return {"params": params, "means": means}, ()

    def loss(w: Params, batch: Batch, context: Released, carry: Tree, key: jax.Array) -> tuple[jax.Array, Tree]:
        means = context["means"]
        j = jax.random.categorical(key, jnp.log(means["held"]))
        x_g, y_g = means["x"][j], means["y"][j]
        share = lam * jnp.max(means["held"])  # 0 where nobody sent any
        y = jax.nn.one_hot(batch.y, y_g.shape[-1], dtype=y_g.dtype)
        u = (1 - share) * batch.x

        def each(u: jax.Array, target: jax.Array) -> jax.Array:
            return -jnp.sum(target * log_probabilities(head.logits(w, u), w, batch, 1 - share), axis=-1)

        slope = jax.grad(lambda u: jnp.sum(each(u, y)))(u)  # sample by sample: samples do not touch
        mixed = (1 - share) * each(u, y) + share * each(u, y_g) + share * slope @ x_g
        return row_mean(mixed, batch.mask), carry

    return Method(
        loss=loss,
        prepare=prepare,
        prepared_adds={"x": "every", "y": "every", "held": "every"},
        init=init,
        constant=("means",),
    )
