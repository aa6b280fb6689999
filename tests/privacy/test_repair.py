"""Samples in a ball, and totals that noise has spoilt made statistics of some data again."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggeur.privacy.bounded_norm import BoundedNorm, basis_of
from ggeur.privacy.gaussian import gaussian
from ggeur.privacy.noise import Noise
from ggeur.privacy.release import large_groups, noise_floor, repaired
from ggeur.stats.site_statistics import SiteStatistics
from refusal import refused


@given(st.integers(0, 10**6), st.floats(1e-3, 1e3))
def test_no_row_is_longer_than_the_radius_and_short_ones_stay(seed, radius):
    x = (10 * radius) ** np.random.default_rng(seed).uniform(0, 1, (20, 1)) * np.random.default_rng(seed).normal(
        size=(20, 4)
    )
    made = BoundedNorm(radius).apply(x).astype(np.float64)
    length = np.linalg.norm(x, axis=1)
    assert (np.linalg.norm(made, axis=1) <= radius).all()
    short = length < 0.99 * radius
    np.testing.assert_allclose(made[short], x[short], rtol=1e-6)
    np.testing.assert_allclose(made / np.linalg.norm(made, axis=1, keepdims=True), x / length[:, None], atol=1e-5)


def test_a_projection_is_public_keeps_lengths_on_average_and_is_the_same_everywhere():
    basis = basis_of(40, 10)
    np.testing.assert_allclose(basis.T @ basis, 4 * np.eye(10), atol=1e-12)
    assert basis[0, 0] == pytest.approx(0.54549, abs=1e-5), "models that were projected depend on these numbers"
    x = np.random.default_rng(0).normal(size=(4000, 40))
    lengths = (BoundedNorm(None, 10).apply(x).astype(np.float64) ** 2).sum(axis=1)
    assert lengths.mean() == pytest.approx((x**2).sum(axis=1).mean(), rel=0.03)
    with refused("privacy-projection-excessive: 40 dimensions"):
        BoundedNorm(None, 41).apply(x)


def total_of(n, p, rng, kind, classes=3):
    y = np.arange(n) % classes
    return SiteStatistics.from_embeddings(rng.normal(size=(n, p)) / np.sqrt(p), y, classes).of_kind(kind)


@pytest.mark.parametrize("kind", ["pooled", "per-class"])
@pytest.mark.parametrize("eigenvalues", ["floor", "drop"])
def test_what_comes_out_is_what_some_data_have(kind, eigenvalues):
    rng, release = np.random.default_rng(3), gaussian(epsilon=0.5, delta=1e-5, radius=1.0)
    noisy = release.mechanism(total_of(300, 12, rng, kind), 1, rng)
    made = repaired(noisy, release.noise(kind, 1), 1.0, eigenvalues=eigenvalues)
    here = np.flatnonzero(made.present) if kind == "per-class" else [0]
    least = [np.linalg.eigvalsh(made.scatter_of(i)).min() for i in here]
    assert min(least) > (0.99 * noise_floor(release.noise(kind, 1), 12) if eigenvalues == "floor" else -1e-9)
    np.testing.assert_array_equal(made.second, made.second.swapaxes(1, 2))


def test_with_the_total_scatter_nothing_about_the_mean_of_all_is_under_the_noise():
    rng, release = np.random.default_rng(3), gaussian(epsilon=0.5, delta=1e-5, radius=1.0)
    noisy = release.mechanism(total_of(300, 12, rng, "pooled"), 1, rng)
    noise = release.noise("pooled", 1)
    made = repaired(noisy, noise, 1.0, eigenvalues="floor-total")
    one = made.about(made.sum.sum(axis=0) / made.count.sum()).second[0]
    values = np.linalg.eigvalsh(one)
    assert values.min() == pytest.approx(noise_floor(noise, 12), rel=1e-9)
    was = noisy.about(made.sum.sum(axis=0) / made.count.sum()).second[0]
    above = np.linalg.eigvalsh(was) > noise_floor(noise, 12)
    np.testing.assert_allclose(values[above], np.linalg.eigvalsh(was)[above], rtol=0.1)


def test_without_noise_nothing_changes_and_directions_above_it_stay():
    rng = np.random.default_rng(4)
    clean = total_of(300, 6, rng, "pooled")
    still = repaired(clean, Noise(0, 0, 0), 9.0)
    np.testing.assert_allclose(still.second, clean.second, atol=1e-10)
    values, vectors = np.linalg.eigh(clean.scatter_of(0))
    between = Noise(0, 0, float(np.sqrt(values[2] * values[3])) / np.sqrt(12))
    left = repaired(clean, between, 9.0, eigenvalues="drop").scatter_of(0)
    np.testing.assert_allclose(left, vectors[:, 3:] * values[3:] @ vectors[:, 3:].T, atol=1e-9)


def test_the_noises_largest_eigenvalue_is_what_the_floor_says():
    noise, zero = (
        Noise(1, 1, 2.0),
        SiteStatistics(np.zeros(1), np.zeros((1, 200)), np.zeros((1, 200, 200)), np.zeros(200)),
    )
    drawn = gaussian(epsilon=1.0, delta=1e-5, radius=1.0).mechanism(zero, 1, np.random.default_rng(0))
    scaled = drawn.second[0] / gaussian(epsilon=1.0, delta=1e-5, radius=1.0).noise("per-class", 1).second * noise.second
    assert np.abs(np.linalg.eigvalsh(scaled)).max() == pytest.approx(noise_floor(noise, 200), rel=0.05)


def test_classes_under_the_threshold_are_left_out_and_means_are_in_the_ball():
    m = SiteStatistics(np.array([50.0, 8.0, -3.0]), np.full((3, 2), 9.0), np.zeros((0, 2, 2)), np.zeros(2))
    made = repaired(m, Noise(2.0, 1, 0), 1.0)
    assert made.present.tolist() == [True, True, False]
    assert repaired(m, Noise(2.0, 1, 0), 1.0, min_count=10).present.tolist() == [True, False, False]
    np.testing.assert_allclose(np.linalg.norm(made.mean[:2], axis=1), [9 * np.sqrt(2) / 50, 1.0])
    assert not repaired(replace(m, count=np.zeros(3)), Noise(0, 0, 0), 1.0).present.any()


@given(st.integers(0, 6), st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), max_size=20))
def test_rows_of_small_groups_take_no_part(least, groups):
    y, d = (np.array([c[i] for c in groups], np.int64) for i in range(2))
    kept = large_groups(y, d, least)
    assert kept.tolist() == [i for i, c in enumerate(groups) if groups.count(c) >= least]
