"""FedPFT (Beitollahi et al., 2024) with one Gaussian per class and client: the server trains on draws from all of them.

x ~ N(mu_kc, Sigma_kc), n_kc draws for every client k and class c;    min_w mean CE(w; x, c)    by SGD

In units of the samples' spread. A client with a single sample of a class sends nothing of it.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ggeur.methods.algorithm import ClosedForm, Task
from ggeur.methods.oneshot.draws import server_random, trained_on
from ggeur.methods.oneshot.linear_head import linear_head
from ggeur.stats.hyperparameters import Count, Positive
from ggeur.stats.site_statistics import Breakdown, FederationStatistics
from ggeur.stats.types import Float, Int

Shape = Literal["full", "diagonal", "spherical"]


def fedpft(
    *,
    shape: Shape = "full",
    epochs: Count = 50,
    batch_size: Count = 128,
    learning_rate: Positive = 0.01,
) -> ClosedForm:
    """`shape`: of the covariances; the others are the server's SGD, with momentum 0.9."""

    def solve(s: FederationStatistics, task: Task) -> tuple[Float, Float]:
        assert task.key is not None
        rng = server_random(task.key)
        x, y = gaussian_draws(s, shape, rng)
        return trained_on(
            x, y, s.n_classes, task.key, rng, epochs=epochs, batch_size=batch_size, learning_rate=learning_rate
        )

    return linear_head("per-class", solve, Breakdown("per-class", "client"))


def gaussian_draws(s: FederationStatistics, shape: Shape, rng: np.random.Generator) -> tuple[NDArray[np.float32], Int]:
    """Return draws and their classes: for every client and class, as many as it has samples."""
    held = [(part, int(c)) for part in s.apart for c in np.flatnonzero(part.count > 1)]
    classes = {c for _, c in held}
    held += [(s, int(c)) for c in np.flatnonzero(s.present) if c not in classes]  # of single samples alone
    x, y = [], []
    for part, c in held:
        n, mean = round(part.count[c]), part.mean[c]
        x.append(mean + rng.standard_normal((n, s.dimension)) @ _factor(part.scatter_of(c) / n, shape))
        y.append(np.full(n, c))
    return np.concatenate(x).astype(np.float32), np.concatenate(y)


def _factor(covariance: Float, shape: Shape) -> Float:
    """Return F (p, p) with F'F = `covariance`, or its diagonal, or the sphere of the same trace."""
    variance = np.maximum(np.diag(covariance), 0.0)
    if shape == "full":
        size, axes = np.linalg.eigh((covariance + covariance.T) / 2)
        return np.asarray(axes * np.sqrt(np.maximum(size, 0.0)) @ axes.T)  # the same whatever axes are found
    return np.diag(np.sqrt(variance if shape == "diagonal" else np.full(len(variance), variance.mean())))
