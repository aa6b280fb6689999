"""Gaussian noise on the statistics of clipped samples, which hides what one sample, or one client, adds.

Statistics are one vector, (a n_c, sum_c / R, second / R^2) over all classes c. A sample with a norm up to R has one
class, so adding or removing it moves that vector by at most D = sqrt(a^2 + 1 + 1), without second moments sqrt(a^2 +
1). The count has a smaller weight a than the others: heads need it least. Entries off the diagonal of a symmetric
matrix count twice in its norm, so their noise is smaller by the root of two: (Z + Z') / 2.

Where a whole client is to be hidden, its vector is scaled down to a norm of at most `clip` samples, clip D.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from ggeur.privacy.noise import Noise, RandomSource
from ggeur.privacy.release import Release
from ggeur.stats.errors import GgeurError
from ggeur.stats.hyperparameters import Positive
from ggeur.stats.site_statistics import Covariance, SiteStatistics

_LEAST, _MOST = -30.0, 30.0  # bounds of log s, far beyond practical values


def spent_delta(s: float, epsilon: float) -> float:
    """Return the smallest delta for which noise of `s` sensitivities is (`epsilon`, delta)-private."""
    return float(ndtr(0.5 / s - epsilon * s) - np.exp(epsilon + log_ndtr(-0.5 / s - epsilon * s)))


def gaussian_scale(epsilon: float, delta: float) -> float:
    """Return s: the least noise, in sensitivities, that makes statistics (`epsilon`, `delta`)-private.

    >>> round(gaussian_scale(1.0, 1e-5), 2)
    3.73
    """
    try:
        found = brentq(lambda log_s: spent_delta(np.exp(log_s), epsilon) - delta, _LEAST, _MOST, xtol=1e-13)
    except ValueError as error:  # no sign changes
        raise GgeurError(
            f"No noise is known for epsilon = {epsilon:g} and delta = {delta:g}: use others.",
            code="privacy-noise-unknown",
        ) from error
    return float(np.exp(found))


COUNT = 0.3  # a
_NEIGHBOURS = {
    "record": "one record more or less, at whichever client",
    "client": "one client more or less, with all its records",
}


def gaussian(
    *,
    epsilon: Positive,
    delta: Positive = 1e-5,
    radius: Positive,
    unit: Literal["record", "client"] = "record",
    clip: Positive | None = None,
    secure_aggregation: bool = False,
) -> Release:
    """Return the (epsilon, delta)-private release for one `unit` more or less, with sample norms up to `radius`.

    `clip` is the largest norm of a client's statistics, in samples, where a client is the unit. Under
    `secure_aggregation` only a total is ever seen, and each client adds a share of its noise.
    """
    scale = gaussian_scale(epsilon, delta)  # s: noise over sensitivity

    def noise(kind: Covariance, clients: int) -> Noise:
        # As a client knows its own share, the others' must suffice.
        share = 1 / np.sqrt(clients - 1) if secure_aggregation else 1.0
        sigma = float(scale * sensitivity(kind) * (clip or 1.0) * share)
        return Noise(sigma / COUNT, sigma * radius, 0.0 if kind == "none" else sigma * radius**2)

    def mechanism(statistics: SiteStatistics, clients: int, random: RandomSource) -> SiteStatistics:
        """Return the noisy `statistics` of one of so many `clients`; every class has noise, also without samples."""
        m = statistics if clip is None else clipped(statistics, radius, clip)
        size, half = noise(m.kind, clients), random.standard_normal(m.second.shape) / 2
        return replace(
            m,
            count=m.count + size.count * random.standard_normal(m.count.shape),
            sum=m.sum + size.sum * random.standard_normal(m.sum.shape),
            second=m.second + size.second * (half + half.swapaxes(1, 2)),
        )

    facts: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "unit": unit, "clip": clip}
    facts |= {"mu": round(1 / scale, 6), "neighbours": _NEIGHBOURS[unit]}
    return Release(
        f"Gaussian noise of epsilon = {epsilon:g}",
        mechanism,
        noise,
        mu=1 / scale,
        guarantee=guarantee(facts),
        facts=facts,
        unit=unit,
        radius=radius,
    )


def sensitivity(kind: Covariance) -> float:
    """Return D: how far one sample can move the vector."""
    return float(np.sqrt(COUNT**2 + (1 if kind == "none" else 2)))


def clipped(m: SiteStatistics, radius: float, clip: float) -> SiteStatistics:
    """Return a client's statistics, scaled down so that their vector is no longer than that of `clip` samples."""
    parts = COUNT * m.count, m.sum / radius, m.second / radius**2
    length = np.sqrt(sum(float((part**2).sum()) for part in parts))
    down = min(1.0, clip * sensitivity(m.kind) / max(length, 1e-300))
    return replace(m, count=m.count * down, sum=m.sum * down, second=m.second * down)


def guarantee(facts: Mapping[str, Any]) -> str:
    """Return the guarantee in a sentence, from the facts that `model.json` keeps; models of 0.2 keep these alone."""
    return (
        f"Differentially private with epsilon = {facts['epsilon']:g} and delta = {facts['delta']:g} for "
        f"{facts['neighbours']} (unit: {facts['unit']}), by Gaussian noise on what clients send "
        f"(mu = {facts['mu']:.3g})."
    )
