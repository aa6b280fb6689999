"""The hold-out: a public function of keys, the same at every site and in any order, and whole groups on one side."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggeur.data.holdout import below_share, hash_positions, held_out
from ggeur.data.table import EmbeddingTable
from refusal import refused


def table(n=400, classes=4, seed=0, **more):
    rng = np.random.default_rng(seed)
    return EmbeddingTable(rng.normal(size=(n, 3)).astype(np.float32), rng.integers(classes, size=n), **more)


@given(
    groups=st.lists(st.integers(0, 12), min_size=1, max_size=60),
    share=st.sampled_from([0.0, 0.2, 0.5, 0.99]),
    seed=st.integers(0, 99),
)
def test_groups_are_on_one_side_and_no_class_loses_its_last_training_sample(groups, share, seed):
    y = np.random.default_rng(seed).integers(3, size=len(groups))
    x = np.random.default_rng(seed).normal(size=(len(groups), 2))
    held = held_out(EmbeddingTable(x, y, class_names=("a", "b", "c")), share, f"salt {seed}", groups=groups)
    by_group = {g: set(held[np.array(groups) == g]) for g in groups}
    assert all(len(sides) == 1 for sides in by_group.values())
    assert set(y[~held]) == set(y)
    # A group is in training where its hash says so, or where it has the highest hash of all that hold some class.
    start = f"{len(f'salt {seed}')}:salt {seed}:group:"
    hashed = {g: int.from_bytes(hashlib.sha256(f"{start}{g}".encode()).digest()[:8], "big") / 2**64 for g in groups}
    last = {max((g for g, c in zip(groups, y, strict=True) if c == label), key=hashed.get) for label in y}
    assert all((sides == {False}) == (hashed[g] >= share or g in last) for g, sides in by_group.items())


def test_it_does_not_depend_on_order_nor_on_other_samples():
    t, order = table(), np.random.default_rng(1).permutation(400)
    held = held_out(t, 0.2, "s")
    assert 0.12 < held.mean() < 0.28
    assert (held_out(t.subset(order), 0.2, "s") == held[order]).all()
    assert (held_out(t.subset(np.arange(300)), 0.2, "s") == held[:300]).all()
    assert (held_out(t, 0.2, "another salt") != held).any()
    assert (held <= held_out(t, 0.4, "s")).all()  # a larger share keeps what a smaller one holds out


def test_the_first_key_that_is_given_counts_and_its_type_does_not():
    t = table()
    ids, images = np.arange(400), [hashlib.sha256(bytes([n % 256, n // 256])).hexdigest() for n in range(400)]
    by_id = held_out(t, 0.3, "s", ids=ids)
    assert (held_out(t, 0.3, "s", ids=[str(n) for n in ids], images=images) == by_id).all()
    by_group = held_out(t, 0.3, "s", groups=ids, ids=images)
    assert (by_group != by_id).any()  # a group named 7 and a sample named 7 have nothing to do with each other
    assert (held_out(t, 0.3, "s", images=images) != by_id).any()


def test_an_embedding_is_known_again_in_another_precision():
    half = table().x.astype(np.float16)
    y = np.zeros(400, np.int64)
    first = held_out(EmbeddingTable(half, y), 0.3, "s")
    assert (held_out(EmbeddingTable(half.astype(np.float64), y), 0.3, "s") == first).all()
    assert (hash_positions("s", np.array([[0.0, 1.0]])) == hash_positions("s", np.array([[-0.0, 1.0]]))).all()


def test_a_table_that_marks_test_samples_keeps_its_marks():
    marks = np.arange(400) % 7 == 0
    assert (held_out(table(test=marks), 0.5, "s", groups=np.zeros(400)) == marks).all()


def test_by_hand():
    positions, y = np.array([0.1, 0.3, 0.3, 0.05, 0.15, 0.9]), ["a", "a", "b", "b", "c", "d"]
    # a and b have their highest at 0.3, one group, and c its only sample; 0.9 is beyond the share.
    assert below_share(positions, y, 0.5).tolist() == [True, False, False, True, False, False]
    assert below_share(positions, y, 0.2).tolist() == [True, False, False, True, False, False]
    assert not below_share(positions, y, 0.0).any()


@pytest.mark.parametrize("share", [1, -0.1, float("nan"), 2.0])
def test_a_share_is_below_one(share):
    with refused("holdout-share-invalid"):
        held_out(table(), share, "s")


@pytest.mark.parametrize("salt", ["", "a\nb", "x" * 201, None, 7])
def test_a_salt_is_text(salt):
    with refused("holdout-salt-invalid"):
        held_out(table(), 0.2, salt)


@pytest.mark.parametrize("missing", [None, float("nan"), ""])
def test_every_sample_needs_its_key(missing):
    with refused("holdout-key-missing: group"):
        held_out(table(3), 0.2, "s", groups=["p1", missing, "p2"])
    with refused("holdout-keys-mismatch: id"):
        held_out(table(3), 0.2, "s", ids=["p1"])
    with refused("argument-type"):
        held_out(table(3), "0.2", "s")
