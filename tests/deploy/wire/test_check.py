"""Statistics that some data have pass; those that none can have do not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ggeur.core.errors import GgeurError
from ggeur.core.statistics import ClassStatistics
from ggeur.deploy.wire.check import check_leaves, check_statistics
from ggeur.deploy.wire.packing import pack_statistics

P, CLASSES = 3, 2
tables = st.integers(0, 12).flatmap(
    lambda n: st.tuples(
        arrays(np.float64, (n, P), elements=st.floats(-1e3, 1e3, width=32)),
        arrays(np.int64, n, elements=st.integers(0, CLASSES - 1)),
    )
)


@given(tables, st.sampled_from(["per-class", "pooled", "means"]))
def test_every_sites_true_statistics_pass(table, matrices):
    """Also of one row, of equal rows, of a class without rows."""
    packed = pack_statistics(ClassStatistics.from_embeddings(*table, CLASSES), matrices)
    check_statistics(packed, CLASSES, P, matrices, packed.count)


def test_the_tolerance_is_a_hundred_millionth_of_the_trace():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, P))
    packed = pack_statistics(ClassStatistics.from_embeddings(x - x.mean(axis=0), np.zeros(50, int), 1), "per-class")
    scatter = packed.scatter(0)
    values, vectors = np.linalg.eigh(scatter)
    for share, fine in ((-0.5e-8, True), (-3e-8, False)):
        values[0] = share * values[1:].sum()
        moved = ((vectors * values) @ vectors.T)[np.triu_indices(P)]
        packed.second[0] = moved
        packed.sum[:] = 0
        if fine:
            check_statistics(packed, 1, P, "per-class")
        else:
            with pytest.raises(GgeurError, match="positive semi-definite"):
                check_statistics(packed, 1, P, "per-class")


@pytest.mark.parametrize(
    ("leaf", "complaint"),
    [
        (np.array([np.nan, 0], np.float32), "NaN"),
        (np.array([1e30, 0], np.float32), "absurdly large"),
        (np.zeros(3, np.float32), "shape"),
        (np.zeros(2, np.float64), "type float64"),
    ],
)
def test_messages_are_numbers_of_the_right_shape(leaf, complaint):
    like = [np.zeros(2, np.float32)]
    check_leaves([np.ones(2, np.float32)], like, "message")
    with pytest.raises(GgeurError, match=complaint):
        check_leaves([leaf], like, "message")
    with pytest.raises(GgeurError, match="0 arrays"):
        check_leaves([], like, "message")
