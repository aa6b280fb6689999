"""CCVR (Luo et al., NeurIPS 2021): train the head on the server, on draws from the merged class Gaussians alone.

x ~ N(mu_c, Sigma_c), as many of each class;    min_w mean CE(w; x, c)    by SGD, in units of the samples' spread
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ggeur.heads.head import Params
from ggeur.heads.linear import linear
from ggeur.methods.algorithm import ClosedForm, Task
from ggeur.methods.method import cross_entropy
from ggeur.methods.oneshot.linear_head import linear_head
from ggeur.stats.augment import shape_noise
from ggeur.stats.geometry import Geometry
from ggeur.stats.hyperparameters import Count, Positive
from ggeur.stats.site_statistics import SiteStatistics
from ggeur.stats.types import Float


def ccvr(
    *, draws: Count = 2000, epochs: Count = 10, batch_size: Count = 64, learning_rate: Positive = 0.01
) -> ClosedForm:
    """`draws`: virtual samples of each class; the others are the server's SGD, with momentum 0.9."""
    head = linear()
    sgd = optax.sgd(learning_rate, 0.9)

    def solve(s: SiteStatistics, task: Task) -> tuple[Float, Float]:
        assert task.key is not None
        geometry, classes = Geometry.from_statistics(s), np.flatnonzero(s.present)
        rng = np.random.default_rng(np.asarray(jax.random.key_data(task.key)))
        noise = [shape_noise(geometry, int(c), draws, "sqrt-eigenvalue", rng) for c in classes]
        x = np.concatenate([s.mean[c].astype(np.float32) + z for c, z in zip(classes, noise, strict=True)])
        y = np.repeat(classes, draws)
        size = min(batch_size, len(y))
        whole = len(y) // size * size
        order = np.stack([rng.permutation(len(y))[:whole] for _ in range(epochs)]).reshape(-1, size)
        params = _train(
            jnp.asarray(x), jnp.asarray(y), jnp.asarray(order), head.init(task.key, s.dimension, s.n_classes)
        )
        return np.asarray(params["W"], np.float64), np.asarray(params["b"], np.float64)

    @jax.jit
    def _train(x: jax.Array, y: jax.Array, order: jax.Array, params: Params) -> Params:
        def step(
            state: tuple[Params, optax.OptState], samples: jax.Array
        ) -> tuple[tuple[Params, optax.OptState], None]:
            params, memory = state
            loss = jax.grad(lambda w: cross_entropy(head.logits(w, x[samples]), y[samples], jnp.ones(len(samples))))
            update, memory = sgd.update(loss(params), memory)
            return (optax.apply_updates(params, update), memory), None

        return jax.lax.scan(step, (params, sgd.init(params)), order)[0][0]

    return linear_head("per-class", solve)
