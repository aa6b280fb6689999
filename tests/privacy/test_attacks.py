"""The attacks are right: what follows from a message is found, and nothing else is claimed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggeur.privacy.attacks import auc, groups, in_span, likelihood_ratio, recovered_samples, remainder
from ggeur.stats.site_statistics import SiteStatistics

P = 12


def samples(n, seed=0, p=P):
    return 3 + np.random.default_rng(seed).normal(size=(n, p))


def group(x, kind="per-class"):
    return groups(SiteStatistics.from_embeddings(x, np.zeros(len(x), int), 1).of_kind(kind))[0]


def same(found, x):
    """Whether these are the samples `x` in any order, to a millionth."""
    assert found is not None and found.shape == x.shape
    far = np.linalg.norm(found[:, None] - x[None], axis=2)
    return far.min(axis=0).max() < 1e-6 and far.min(axis=1).max() < 1e-6


@given(n=st.integers(1, 2), seed=st.integers(0, 10**6))
def test_one_and_two_rows_follow_exactly(n, seed):
    assert same(recovered_samples(group(samples(n, seed))), samples(n, seed))


@given(seed=st.integers(0, 10**6), norm=st.sampled_from([1.0, 7.0]))
def test_three_rows_of_one_norm_follow_exactly(seed, norm):
    x = samples(3, seed)
    x *= norm / np.linalg.norm(x, axis=1, keepdims=True)
    assert same(recovered_samples(group(x)), x)


@pytest.mark.parametrize("n", [3, 4, 10])
def test_more_rows_do_not_follow_and_none_are_claimed(n):
    assert recovered_samples(group(samples(n))) is None


def test_rows_that_are_all_alike_follow():
    assert same(recovered_samples(group(np.ones((3, P)))), np.ones((3, P)))


def test_pooled_moments_give_one_row_and_two_only_of_a_class_that_is_alone():
    x = samples(5)
    several = groups(SiteStatistics.from_embeddings(x, [0, 1, 1, 2, 2], 3).of_kind("pooled"))
    assert same(recovered_samples(several[0]), x[:1]) and recovered_samples(several[1]) is None
    alone = groups(SiteStatistics.from_embeddings(x[:4], [0, 1, 1, 2], 3).of_kind("pooled"))
    assert same(recovered_samples(alone[1]), x[1:3])  # classes of one sample add nothing to what is pooled


def test_means_give_one_row_only():
    assert same(recovered_samples(group(samples(1), "none")), samples(1))
    assert recovered_samples(group(samples(2), "none")) is None


@pytest.mark.parametrize("n", [2, 5, P])
def test_the_span_tells_who_is_among_up_to_p_rows(n):
    known = group(samples(n))
    assert in_span(known.mean, known.spread, samples(n)).all()
    assert not in_span(known.mean, known.spread, samples(50, seed=1)).any()


def test_more_than_p_rows_have_no_span_to_tell_by():
    known = group(samples(P + 1))
    assert in_span(known.mean, known.spread, samples(3)) is None


@pytest.mark.parametrize(("n", "least", "most"), [(2 * P, 0.8, 1.0), (400 * P, 0.45, 0.58)])
def test_membership_is_guessed_the_better_the_fewer_rows_there_are(n, least, most):
    x, others = samples(n), samples(2000, seed=1)
    known = group(x)
    assert least < auc(likelihood_ratio(known, x), likelihood_ratio(known, others)) < most


def test_auc_counts_ties_half():
    assert auc(np.array([1.0, 2.0]), np.array([1.0, 0.0])) == (0.5 + 1 + 1 + 1) / 4
    assert auc(np.zeros(3), np.zeros(5)) == 0.5


@pytest.mark.parametrize("kind", ["per-class", "pooled", "none"])
def test_what_one_of_two_sites_takes_off_leaves_the_other(kind):
    a, b = (SiteStatistics.from_embeddings(samples(4, seed), [0, 0, 1, 2 - seed], 3).of_kind(kind) for seed in (0, 1))
    left = remainder(a + b, a)
    assert left.kind == kind and np.array_equal(left.count, b.count)
    np.testing.assert_allclose(left.sum, b.sum, atol=1e-12)
    np.testing.assert_allclose(left.second, b.second, atol=1e-11)
    assert groups(left).keys() == groups(b).keys()
