"""Statistics that some data have pass; those that none can have do not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ggeur.flower.wire.check import check_leaves, checked_message, checked_sums
from ggeur.flower.wire.packing import pack_message
from ggeur.stats.errors import GgeurError
from ggeur.stats.site_statistics import SiteStatistics
from ggeur.stats.triangles import triangles
from ggeur.stats.units import SampleMoments

P, CLASSES = 3, 2
tables = st.integers(0, 12).flatmap(
    lambda n: st.tuples(
        arrays(np.float64, (n, P), elements=st.floats(-1e3, 1e3, width=32)),
        arrays(np.int64, n, elements=st.integers(0, CLASSES - 1)),
    )
)


@given(tables, st.sampled_from(["per-class", "pooled", "none"]))
def test_every_sites_true_statistics_pass(table, matrices):
    """Also of one sample, of equal samples, of a class without samples."""
    message = SiteStatistics.from_embeddings(*table, CLASSES).of_kind(matrices)
    found = checked_message(pack_message(message), matrices, CLASSES, P, None, message.count)
    for name in ("count", "sum", "second"):
        np.testing.assert_array_equal(getattr(found, name), getattr(message, name))


@given(tables)
def test_sums_over_rows_pass_if_some_data_have_them(table):
    sums = SampleMoments.of(table[0])
    packed, n = sums.pack(), len(table[0])
    np.testing.assert_array_equal(checked_sums({"sums": packed}, P, n).pack(), packed)
    wrong = [packed[:-1], packed.astype(np.float32), packed + np.nan, packed + np.eye(P + 2)[0]]
    wrong += [packed - np.eye(P + 2)[1] * (packed[1] + 1), packed + np.eye(P + 2)[3] * 1e9]
    wrong += [packed + np.eye(P + 2)[1] * 1e30]
    for one in ({"sums": w} for w in wrong):
        with pytest.raises(GgeurError, match="its sums"):
            checked_sums(one, P, n)
    with pytest.raises(GgeurError, match="its sums"):
        checked_sums({}, P, n)


def test_the_tolerance_is_a_hundred_millionth_of_the_trace():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, P))
    message = SiteStatistics.from_embeddings(x - x.mean(axis=0), np.zeros(50, int), 1).of_kind("per-class")
    packed, scatter = pack_message(message), message.scatter_of(0)
    values, vectors = np.linalg.eigh(scatter)
    for share, fine in ((-0.5e-8, True), (-3e-8, False)):
        values[0] = share * values[1:].sum()
        packed["second"] = triangles(((vectors * values) @ vectors.T)[None])
        packed["sum"][:] = 0
        if fine:
            checked_message(packed, "per-class", 1, P, None, message.count)
        else:
            with pytest.raises(GgeurError, match="positive semi-definite"):
                checked_message(packed, "per-class", 1, P, None, message.count)


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
