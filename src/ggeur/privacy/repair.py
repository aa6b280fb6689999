"""Turn a noisy total into valid statistics by post-processing, which costs no privacy.

A class whose noisy count is below one, or below the threshold, is left out. A mean outside the ball is clipped to it. A
scatter is made symmetric, and its eigenvalues, which noise spreads by its spectral norm f, are corrected:

    floor   max(lambda, f)    for solvers: no head relies on a direction that noise has emptied
    drop    lambda if lambda > f, else 0    for augmentation: no sample is drawn along a direction of noise

A scatter is about the classes' means. With "floor-total" a pooled one is the total scatter, about the mean of all
samples, as in ridge regression, so that the noise of class means does not enter it.
"""

import math
from dataclasses import replace
from typing import TypeVar

import numpy as np

from ggeur.privacy.noise import Noise
from ggeur.stats.site_statistics import EigenvalueRule, SiteStatistics
from ggeur.stats.types import Float

M = TypeVar("M", bound=SiteStatistics)


def repaired(total: M, noise: Noise, radius: float, min_count: int = 0, eigenvalues: EigenvalueRule = "floor") -> M:
    """Return the `total` with this `noise` as statistics that samples with norms up to `radius` could have."""
    here = total.count >= max(1.0, min_count)
    shown = total.only(here)
    length = np.linalg.norm(shown.sum, axis=1)
    if math.isfinite(radius):
        inside = np.minimum(1.0, radius * shown.count / np.where(length > 0, length, 1.0))
        shown = replace(shown, sum=shown.sum * inside[:, None])
    if not len(total.second):
        return shown
    pooled = total.kind == "pooled"
    second = np.zeros_like(total.second)
    for i in [0] if pooled else np.flatnonzero(here).tolist():
        scatter = _total_scatter(shown) if pooled and eigenvalues == "floor-total" else shown.scatter_of(i)
        shift = shown.second[i] - scatter
        second[i] = shift + _denoised(scatter, noise_floor(noise, total.dimension), eigenvalues)
    return replace(shown, second=second)


def noise_floor(noise: Noise, p: int) -> float:
    """Return f: the spectral norm of the noise in a second moment, by the semicircle law."""
    return float(noise.second * np.sqrt(2 * p))


def _total_scatter(total: SiteStatistics) -> Float:
    whole = total.sum.sum(axis=0)
    return np.asarray(total.second[0] - np.outer(whole, whole) / max(float(total.count.sum()), 1.0))


def _denoised(scatter: Float, f: float, eigenvalues: EigenvalueRule) -> Float:
    values, vectors = np.linalg.eigh((scatter + scatter.T) / 2)
    values = np.where(values > f, values, 0.0) if eigenvalues == "drop" else np.maximum(values, f)
    made = vectors * values @ vectors.T
    return np.asarray((made + made.T) / 2)
