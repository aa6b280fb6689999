"""Samples in the federation's own units, and the sums that sites send to find them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggeur.stats.site_statistics import COVARIANCES, SiteStatistics
from ggeur.stats.units import SampleMoments, Units
from refusal import refused

samples = st.builds(
    lambda seed, n, scale, shift: scale * (np.random.default_rng(seed).normal(size=(n, 3)) + shift),
    st.integers(0, 2**31),
    st.integers(2, 50),
    st.sampled_from([1e-6, 1.0, 1e6]),
    st.sampled_from([0.0, -50.0, 1e4]),
)


@given(samples, st.integers(0, 50))
def test_sums_of_all_sites_give_the_mean_and_the_root_of_the_mean_variance(x, cut):
    units = SampleMoments.merge([SampleMoments.of(x[:cut]), SampleMoments.of(x[cut:])]).units
    np.testing.assert_allclose(units.shift, x.mean(axis=0), rtol=1e-12, atol=1e-14 * np.abs(x).max())
    assert units.scale == pytest.approx(np.sqrt(x.var(axis=0).mean()), rel=1e-6)


@given(samples)
def test_rows_in_their_units_lie_about_zero_with_a_spread_of_one(x):
    made = SampleMoments.of(x).units.apply(x)
    assert made.dtype == np.float32
    np.testing.assert_allclose(made.mean(axis=0), 0, atol=1e-5)
    assert made.astype(np.float64).var(axis=0).mean() == pytest.approx(1, rel=1e-4)


def test_rows_without_a_spread_are_only_shifted():
    for x in (np.full((5, 2), 1e5 / 3), np.zeros((3, 2)), np.ones((1, 2), np.float32)):
        units = SampleMoments.of(x).units
        assert units.scale == 1.0
        np.testing.assert_allclose(units.apply(x), 0, atol=1e-9)


def test_no_rows_at_all_are_one_sentence():
    with refused("training-samples-missing"):
        SampleMoments.of(np.zeros((0, 2))).units


@pytest.mark.parametrize("kind", COVARIANCES)
def test_a_message_in_other_units_is_that_of_the_rows_in_them(kind):
    rng = np.random.default_rng(0)
    x, y = 3 * rng.normal(size=(30, 4)) + 7, rng.integers(3, size=30)
    message, units = (
        SiteStatistics.from_embeddings(x, y, 3, center=np.ones(4)).of_kind(kind),
        Units(x.mean(axis=0), 2.5),
    )
    found, expected = (
        message.in_units(units),
        SiteStatistics.from_embeddings((x - units.shift) / 2.5, y, 3).of_kind(kind),
    )
    for name in ("count", "sum", "second", "center", "mean"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-12)


@pytest.mark.parametrize("kind", COVARIANCES)
def test_a_message_knows_its_units_and_of_means_alone_those_of_the_classes(kind):
    rng = np.random.default_rng(0)
    x, y = 3 * rng.normal(size=(30, 4)) + 7, rng.integers(3, size=30)
    spread = x if kind != "none" else np.stack([x[y == c].mean(axis=0) for c in range(3)])[y]
    units = SiteStatistics.from_embeddings(x, y, 3).of_kind(kind).units
    np.testing.assert_allclose(units.shift, x.mean(axis=0))
    assert units.scale == pytest.approx(np.sqrt(spread.var(axis=0).mean()))
