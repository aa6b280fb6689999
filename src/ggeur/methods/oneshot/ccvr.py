"""CCVR (Luo et al., NeurIPS 2021): train the head on the server, on draws from the merged class Gaussians alone.

x ~ N(mu_c, Sigma_c), as many of each class;    min_w mean CE(w; x, c)    by SGD, in units of the samples' spread
"""

import numpy as np

from ggeur.methods.algorithm import ClosedForm, Task
from ggeur.methods.oneshot.draws import server_random, trained_on
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

    def solve(s: SiteStatistics, task: Task) -> tuple[Float, Float]:
        assert task.draws
        geometry, classes = Geometry.from_statistics(s), np.flatnonzero(s.present)
        rng = server_random(task.key)
        noise = [shape_noise(geometry, int(c), draws, "sqrt-eigenvalue", rng) for c in classes]
        x = np.concatenate([s.mean[c].astype(np.float32) + z for c, z in zip(classes, noise, strict=True)])
        y = np.repeat(classes, draws)
        return trained_on(
            x, y, s.n_classes, task.key, rng, epochs=epochs, batch_size=batch_size, learning_rate=learning_rate
        )

    return linear_head("per-class", solve)
