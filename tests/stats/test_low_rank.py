"""A covariance in few numbers, against the whole one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggeur.stats.geometry import low_rank

P = 6


def factors(seed, m=3):
    """Symmetric ones of m shapes, and the covariances of their noise."""
    root = np.random.default_rng(seed).normal(size=(m, P, P))
    root = root @ root.transpose(0, 2, 1)
    return root, root @ root


def whole(few):
    return np.einsum("cra,crb->cab", few.U, few.U) + few.s[:, None, None] * np.eye(P)


@given(st.integers(0, 10**6), st.integers(1, P + 2))
def test_the_trace_and_the_widest_directions_stay(seed, rank):
    root, t = factors(seed)
    found = whole(low_rank(root, rank))
    np.testing.assert_allclose(np.trace(found, axis1=1, axis2=2), np.trace(t, axis1=1, axis2=2))
    values, true = (np.linalg.eigvalsh(a)[:, ::-1] for a in (found, t))
    np.testing.assert_allclose(values[:, :rank], true[:, :rank], rtol=1e-6, atol=1e-8 * true.max())
    for found_rest, true_rest in zip(values[:, rank:], true[:, rank:], strict=True):
        assert rank >= P or found_rest == pytest.approx(np.full(P - rank, true_rest.mean()))


@pytest.mark.parametrize("rank", [P, P + 1, 1000])
def test_all_directions_are_exact(rank):
    root, t = factors(1)
    np.testing.assert_allclose(whole(low_rank(root, rank)), t)


def test_a_shape_that_is_narrow_needs_no_more_than_its_own_rank():
    thin = np.zeros((1, P, P))
    thin[0, :2, :2] = [[2, 1], [1, 2]]
    np.testing.assert_allclose(whole(low_rank(thin, 2)), thin @ thin, atol=1e-12)
    np.testing.assert_allclose(low_rank(np.zeros((1, P, P)), 2).U, 0)
