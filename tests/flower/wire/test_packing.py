"""What travels arrives as it was: trees, triangles, statistics."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggeur.flower.wire.packing import (
    arrays_to_tree,
    load_tree,
    pack_message,
    save_tree,
    tree_to_arrays,
    unpack_message,
)
from ggeur.stats.errors import GgeurError
from ggeur.stats.site_statistics import SiteStatistics
from ggeur.stats.triangles import from_triangles, triangles

leaves = st.sampled_from([np.float32(2), np.arange(3), np.zeros((2, 0)), np.array(7.0)])
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.dictionaries(st.text(max_size=3), inner, max_size=3),
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
    ),
    max_leaves=6,
)


def same(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return np.array_equal(a, b) and np.shape(a) == np.shape(b) and np.asarray(a).dtype == np.asarray(b).dtype


@given(trees)
def test_a_tree_arrives_as_it_was(tree):
    arrays, shape = tree_to_arrays(tree, "x")
    assert same(tree, arrays_to_tree(arrays, shape, "x"))


@given(trees)
def test_a_tree_is_read_as_it_was_written(tmp_path_factory, tree):
    path = tmp_path_factory.mktemp("tree") / "tree.npz"
    save_tree(path, tree)
    assert same(tree, load_tree(path))
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(GgeurError):
        load_tree(path)


def test_what_is_not_an_array_does_not_travel():
    with pytest.raises(GgeurError, match="holds a set"):
        tree_to_arrays({"a": {1, 2}})


def test_triangles_are_half_of_a_symmetric_matrix():
    a = np.random.default_rng(0).normal(size=(3, 4, 4))
    a = a + a.swapaxes(1, 2)
    packed = triangles(a)
    assert packed.shape == (3, 10)
    np.testing.assert_array_equal(from_triangles(packed, 4), a)


def samples(n=40, p=4, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, p)) + 1, rng.integers(classes, size=n)


@pytest.mark.parametrize("kind", ["per-class", "pooled", "none"])
def test_a_message_arrives_as_it_was(kind):
    message = SiteStatistics.from_embeddings(*samples(), 3).of_kind(kind)
    found = unpack_message(pack_message(message), message.center)
    assert found.kind == kind
    for name in ("count", "sum", "second", "center"):
        np.testing.assert_array_equal(getattr(found, name), getattr(message, name))


@pytest.mark.needs("flower")
def test_messages_that_would_trip_what_reads_them_later_are_refused():
    from flwr import app as flower

    from ggeur.flower.wire.records import from_records, to_records

    file = io.BytesIO()
    np.savez(file, a=np.ones(2))  # NumPy opens it as a file of arrays, which has no shape
    archive = flower.Array(np.ones(2))
    archive.data = file.getvalue()
    records = to_records({}, {"0": np.ones(2)})
    records["arrays"]["0"] = archive
    with pytest.raises(GgeurError, match="not arrays"):
        from_records(records)
    deep = []
    for _ in range(30):
        deep = [deep]
    with pytest.raises(GgeurError, match="too deeply"):
        from_records(to_records({"problem": deep}))
