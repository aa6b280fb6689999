"""Noise on messages: how far one sample can move them, what is added, and whether the promise is kept, by attack."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, chi2, norm

from ggeur.privacy.gaussian import COUNT, clipped, gaussian, gaussian_scale
from ggeur.privacy.noise import SystemRandom
from ggeur.stats.site_statistics import SiteStatistics

P, C, R = 3, 2, 2.0


def message(x, y, kind):
    return SiteStatistics.from_embeddings(np.reshape(x, (-1, P)), y, C).of_kind(kind)


def vector(m):
    """As the mechanism measures it: counts, sums and second moments, entries off the diagonal by a root of two."""
    upper = np.triu_indices(P)
    weight = np.where(upper[0] == upper[1], 1.0, np.sqrt(2))
    seconds = [weight * s[upper] / R**2 for s in m.second]
    return np.concatenate([COUNT * m.count, m.sum.ravel() / R, *seconds])


def samples(n, seed=0, length=None):
    x = np.random.default_rng(seed).normal(size=(n, P))
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    return x / norms * (np.minimum(norms, R) if length is None else length)


@given(st.integers(0, 10**6), st.sampled_from(["none", "pooled", "per-class"]), st.integers(0, C - 1))
def test_no_row_in_the_ball_moves_a_message_further_than_its_sensitivity(seed, kind, label):
    x = samples(6, seed)
    y = np.array([0, 1, 0, 1, 1, label])
    far = np.linalg.norm(vector(message(x, y, kind)) - vector(message(x[:5], y[:5], kind)))
    assert far <= np.sqrt(COUNT**2 + (1 if kind == "none" else 2)) + 1e-9


def test_a_row_as_long_as_the_radius_moves_it_just_so_far():
    far = np.linalg.norm(vector(message(samples(1, length=R), [1], "per-class")))
    assert far == pytest.approx(np.sqrt(COUNT**2 + 2))


@pytest.mark.parametrize("kind", ["none", "pooled", "per-class"])
@pytest.mark.parametrize(("secure", "clients", "share"), [(False, 5, 1.0), (True, 5, 0.5)])
def test_what_is_added_is_normal_of_the_size_that_is_said(kind, secure, clients, share):
    """Every coordinate has the same variance, s D of one sample, shared among those whose total is seen but oneself."""
    release = gaussian(epsilon=1.0, delta=1e-5, radius=R, secure_aggregation=secure)
    plain, rng = message(samples(4), [0, 0, 1, 1], kind), np.random.default_rng(0)
    noise = np.stack([vector(release.mechanism(plain, clients, rng)) - vector(plain) for _ in range(4000)])
    sigma = share * gaussian_scale(1.0, 1e-5) * np.sqrt(COUNT**2 + (1 if kind == "none" else 2))
    squares = (noise / sigma) ** 2
    low, high = chi2.ppf([1e-5, 1 - 1e-5], len(noise))
    assert low < squares.sum(axis=0).min() and squares.sum(axis=0).max() < high
    correlation = np.corrcoef(noise.T) - np.eye(noise.shape[1])
    assert np.abs(correlation).max() < 5 / np.sqrt(len(noise))
    declared = release.noise(kind, clients)
    np.testing.assert_allclose([declared.count * COUNT, declared.sum / R], sigma)


def lower_bound_of_mu(threshold, out, inn, level=1e-3):
    """What two samples of a score prove, at 99.9 %, about how well it tells without (`out`) from with (`inn`).

    Clopper and Pearson's bounds of both errors of the test at a threshold, half of the level each.
    """

    def upper(wrong, n):
        return beta.ppf(1 - level / 2, wrong + 1, n - wrong)

    false_alarm, missed = upper((out > threshold).sum(), len(out)), upper((inn <= threshold).sum(), len(inn))
    return norm.ppf(1 - false_alarm) - norm.ppf(missed)


@pytest.mark.parametrize("unit", ["record", "client"])
def test_an_attack_on_neighbouring_runs_proves_no_more_than_is_promised_and_would_if_noise_were_a_quarter(unit):
    """10,000 runs with and 10,000 without a sample of the largest length; the best test there is, at its midpoint."""
    clip = None if unit == "record" else 1.0
    release = gaussian(epsilon=1.0, delta=1e-5, radius=R, unit=unit, clip=clip)
    x, y = samples(5, length=R), np.array([0, 1, 0, 1, 1])
    if unit == "record":
        without, with_it = message(x[:4], y[:4], "pooled"), message(x, y, "pooled")
    else:  # a client's message of five samples, cut to one sample's worth, or none of it
        without, with_it = message(x[:0], y[:0], "pooled"), message(x, y, "pooled")
    mean_out, mean_in = (vector(m if clip is None else clipped(m, R, clip)) for m in (without, with_it))
    direction = (mean_in - mean_out) / np.linalg.norm(mean_in - mean_out)
    threshold = direction @ (mean_in + mean_out) / 2
    rng = np.random.default_rng(1)

    class Weaker:
        def __init__(self, part):
            self.standard_normal = lambda shape: part * rng.standard_normal(shape)

    def scores(m, part):
        return np.array([direction @ vector(release.mechanism(m, 1, Weaker(part))) for _ in range(10_000)])

    claimed = release.mu
    assert claimed == 1 / gaussian_scale(1.0, 1e-5)
    assert lower_bound_of_mu(threshold, scores(without, 1), scores(with_it, 1)) < claimed
    assert lower_bound_of_mu(threshold, scores(without, 0.25), scores(with_it, 0.25)) > claimed


@given(st.integers(1, 40), st.floats(0.1, 50))
def test_a_clients_whole_message_is_never_longer_than_it_may_be(n, clip):
    m = message(samples(n, n), np.arange(n) % C, "per-class")
    cut = clipped(m, R, clip)
    assert np.linalg.norm(vector(cut)) <= clip * np.sqrt(COUNT**2 + 2) + 1e-9
    np.testing.assert_allclose(cut.mean, m.mean, atol=1e-12)  # scaled, not bent


def test_the_systems_numbers_are_normal_and_not_the_same_twice():
    drawn = SystemRandom().standard_normal((200, 500))
    assert drawn.shape == (200, 500) and np.isfinite(drawn).all()
    groups = np.histogram(norm.cdf(drawn), bins=50, range=(0, 1))[0]
    expected = drawn.size / 50
    assert ((groups - expected) ** 2 / expected).sum() < chi2.ppf(1 - 1e-6, 49)
    assert not (drawn == SystemRandom().standard_normal((200, 500))).any()
