"""The promise (epsilon, delta) against another library's accounting, and against its definition."""

import numpy as np
import pytest
from dp_accounting.pld import common, privacy_loss_mechanism
from scipy.stats import norm

from ggeur.privacy.gaussian import gaussian_scale, spent_delta


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 2.0, 8.0, 20.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-9])
def test_the_noise_is_that_of_dp_accounting(epsilon, delta):
    found = gaussian_scale(epsilon, delta)
    theirs = privacy_loss_mechanism.GaussianPrivacyLoss.from_privacy_guarantee(
        common.DifferentialPrivacyParameters(epsilon, delta)
    )
    assert found == pytest.approx(theirs.standard_deviation, rel=1e-6)
    loss = privacy_loss_mechanism.GaussianPrivacyLoss(found)
    assert loss.get_delta_for_epsilon(epsilon) == pytest.approx(delta, rel=1e-6)


def test_figures_that_others_have_printed():
    """Of delta 1e-5: s for epsilon 1, 2, 4 and 8."""
    found = [gaussian_scale(e, 1e-5) for e in (1, 2, 4, 8)]
    np.testing.assert_allclose(found, [3.73, 1.99, 1.08, 0.60], atol=5e-3)


def test_delta_is_the_integral_that_defines_it():
    """The most that N(1, s^2) exceeds e^epsilon times N(0, s^2) by, over any set: by quadrature."""
    s, epsilon = 1.3, 0.7
    x = np.linspace(-15, 15, 300_001)
    excess = np.maximum(norm.pdf(x, 1, s) - np.exp(epsilon) * norm.pdf(x, 0, s), 0)
    assert spent_delta(s, epsilon) == pytest.approx(np.trapezoid(excess, x), rel=1e-6)
