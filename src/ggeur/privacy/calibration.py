"""Compute how much Gaussian noise (epsilon, delta)-privacy needs: the analytic Gaussian mechanism.

Balle and Wang (ICML 2018): noise of standard deviation s times the sensitivity is (epsilon, delta)-private just if

    Phi(1/(2s) - epsilon s) - e^epsilon Phi(-1/(2s) - epsilon s) <= delta

It is then mu-Gaussian private with mu = 1/s: membership is as hard to infer as N(0, 1) is to tell from N(mu, 1).
"""

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from ggeur.core.errors import GgeurError

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
