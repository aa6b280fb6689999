"""Messages add up to those of all samples, whatever their kind, and say what they can and cannot tell."""

import numpy as np
import pytest

from ggeur.stats.site_statistics import COVARIANCES, SiteStatistics, largest, statistics_bytes
from refusal import refused


def samples(n=40, p=4, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, p)) + 1, rng.integers(classes, size=n)


def statistics(seed=0, **options):
    return SiteStatistics.from_embeddings(*samples(seed=seed), 3, **options)


@pytest.mark.parametrize("kind", COVARIANCES)
def test_messages_add_up_to_that_of_all_rows(kind):
    (x, y), (x2, y2) = samples(), samples(seed=1)
    total = statistics().of_kind(kind) + statistics(1).of_kind(kind)
    both = SiteStatistics.from_embeddings(np.concatenate([x, x2]), np.concatenate([y, y2]), 3).of_kind(kind)
    for name in ("count", "mean", "second"):
        np.testing.assert_allclose(getattr(total, name), getattr(both, name), atol=1e-12)


def test_merging_leaves_what_was_merged_as_it_was():
    one = statistics().of_kind("pooled")
    before = one.second.copy()
    SiteStatistics.merge([one, statistics(1).of_kind("pooled")])
    np.testing.assert_array_equal(one.second, before)


@pytest.mark.parametrize("kind", ["per-class", "pooled"])
def test_within_is_the_pooled_covariance(kind):
    s = statistics()
    m = s.of_kind(kind)
    np.testing.assert_allclose(m.within, s.within, atol=1e-12)
    scatter = sum(m.scatter_of(i) for i in range(len(m.second)))
    np.testing.assert_allclose(scatter / s.count.sum(), s.within, atol=1e-12)


@pytest.mark.parametrize("kind", COVARIANCES)
def test_moments_about_another_center_are_those_of_the_rows(kind):
    center = np.array([1.0, -2.0, 0.5, 3.0])
    moved, expected = statistics().of_kind(kind).about(center), statistics(center=center).of_kind(kind)
    for name in ("count", "sum", "second", "center"):
        np.testing.assert_allclose(getattr(moved, name), getattr(expected, name), atol=1e-12)


def test_a_class_can_be_left_out():
    m = statistics().of_kind("per-class")
    some = m.only(np.array([True, False, True]))
    assert some.count[1] == 0 and not some.second[1].any() and np.array_equal(some.second[2], m.second[2])


def test_what_was_not_sent_cannot_be_asked_for():
    with refused("statistics-covariance-missing: pooled...none"):
        statistics().of_kind("none").within
    with refused("statistics-covariance-missing: per-class...pooled"):
        statistics().of_kind("pooled").covariance


def test_messages_of_different_kinds_or_centers_do_not_add_up():
    for other, code in (
        (statistics().of_kind("none"), "statistics-mismatch"),
        (statistics(center=np.ones(4)).of_kind("pooled"), "statistics-center-mismatch"),
    ):
        with refused(code):
            statistics().of_kind("pooled") + other


def test_the_largest_kind_serves_all():
    assert largest([None, "none", "pooled"]) == "pooled" and largest([None]) is None


@pytest.mark.parametrize("kind", COVARIANCES)
def test_bytes_are_those_of_the_arrays_with_matrices_as_triangles(kind):
    m = statistics().of_kind(kind)
    triangles = m.second[:, *np.triu_indices(4)]
    assert statistics_bytes(kind, 3, 4) == m.count.nbytes + m.sum.nbytes + triangles.nbytes


@pytest.mark.parametrize("kind", COVARIANCES)
def test_what_was_added_can_be_taken_away_whatever_the_kind(kind):
    rng = np.random.default_rng(0)
    parts = [
        SiteStatistics.from_embeddings(rng.normal(size=(20, 3)), rng.integers(k, size=20), 4).of_kind(kind)
        for k in (3, 4)
    ]
    left = (parts[0] + parts[1]) - parts[1]
    assert left.kind == kind and left.second.shape == parts[0].second.shape
    for name in ("count", "sum", "second"):
        np.testing.assert_allclose(getattr(left, name), getattr(parts[0], name), atol=1e-12)
