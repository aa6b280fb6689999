"""What is held back to choose numbers by: how much, of whom, and what it counts for."""

import numpy as np

from ggeur.federation.folds import ValidationSplit, validation_split


def federation(n_domains, n_classes, samples, holes=()):
    """One client per domain with so many samples of every group but the `holes`."""
    groups = [(d, c) for d in range(n_domains) for c in range(n_classes) if (d, c) not in holes]
    domains, y = (np.repeat([group[i] for group in groups], samples) for i in (0, 1))
    return y, domains, [np.flatnonzero(domains == d) for d in range(n_domains)]


def test_a_fifth_of_every_group_and_no_group_whole_where_all_have_been_seen():
    y, domains, parts = federation(3, 4, 10)
    held = validation_split(y, domains, (3, 4), parts, seed=0)
    assert not held.whole.any()
    assert sorted(np.concatenate([*held.kept, held.samples])) == list(range(len(y)))
    assert all(((domains[held.samples] == d) & (y[held.samples] == c)).sum() == 2 for d in range(3) for c in range(4))
    assert np.allclose(held.weight(np.ones((3, 4), bool)), 1 / 12)


def test_a_quarter_of_the_groups_whole_where_some_are_unseen_and_never_all_of_a_class():
    holes = [(0, 0), (1, 0), (2, 0), (1, 2), (3, 5)]
    y, domains, parts = federation(4, 8, 10, holes)
    for seed in range(20):
        held = validation_split(y, domains, (4, 8), parts, seed)
        assert 4 <= held.whole.sum() <= 10  # of the 27 others, whose class has another holder
        assert not held.whole[3, 0]  # nobody else holds that class
        assert ((held.before > 0) & ~held.whole).any(axis=0).all()
        kept = np.concatenate(held.kept)
        assert not held.whole[domains[kept], y[kept]].any()
        assert set(np.flatnonzero(held.whole[domains, y])) <= set(held.samples)


def test_weights_by_hand():
    """Five groups seen, of which one is held back whole, and one unseen: four tell of five, one of one."""
    count = np.array([[5, 5, 5], [5, 5, 0]])
    whole = np.array([[False, False, True], [False, False, False]])
    held = ValidationSplit([], np.zeros(0, int), count, whole)
    expected = np.array([[5 / 4, 5 / 4, 1.0], [5 / 4, 5 / 4, 0.0]]) / 6
    assert np.allclose(held.weight(count > 0), expected)


def test_the_split_is_the_seeds():
    y, domains, parts = federation(2, 3, 7, [(0, 0)])
    a, b, other = (validation_split(y, domains, (2, 3), parts, seed).samples for seed in (1, 1, 2))
    assert a.tolist() == b.tolist() != other.tolist()
