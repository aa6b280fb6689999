"""What is left out of a federation: every sample once, never all of a class, never too many classes."""

import numpy as np
import pytest

from ggeur.federation.folds import folds_of, group_folds, sample_folds


def test_rows_of_every_group_are_spread_evenly_over_the_folds():
    rng = np.random.default_rng(0)
    y, domains = rng.integers(3, size=200), rng.integers(2, size=200)
    fold = sample_folds(y, domains, 4, 0, 5)
    for c in range(3):
        for d in range(2):
            sizes = np.bincount(fold[(y == c) & (domains == d)], minlength=4)
            assert sizes.max() - sizes.min() <= 1
    np.testing.assert_array_equal(fold, sample_folds(y, domains, 4, 0, 5))
    assert (fold != sample_folds(y, domains, 4, 0, 6)).any()
    single = [sample_folds(np.zeros(1, int), np.zeros(1, int), 4, 0, k)[0] for k in range(40)]
    assert set(single) == {0, 1, 2, 3}  # clients of one sample do not all leave it out at once


@pytest.mark.parametrize("seed", range(5))
def test_groups_of_a_class_are_never_all_left_out(seed):
    count = np.random.default_rng(seed).integers(0, 2, size=(6, 9))
    folds = group_folds(count, 3, seed)
    for fold in folds:
        assert not (fold.groups & (count == 0)).any()
        assert ((count > 0) & ~fold.groups).any(axis=0)[count.any(axis=0)].all()
    left = np.sum([fold.groups for fold in folds], axis=0)
    np.testing.assert_array_equal(left, (count > 0) & ((count > 0).sum(axis=0) > 1))  # each that can be, once


def test_classes_are_left_out_once_each_with_all_their_groups():
    count = np.random.default_rng(0).integers(1, 9, size=(2, 9)) * np.array([[1, 0, 1, 1, 1, 1, 1, 1, 1]])
    assert not [fold for fold in folds_of(count, 4, 0) if fold.classes], "for whom no text speaks"
    folds = [fold for fold in folds_of(count, 4, 0, by_text=True) if fold.classes]
    np.testing.assert_array_equal(np.sum([fold.groups for fold in folds], axis=0), count > 0)
    assert all((fold.groups == fold.groups.any(axis=0)).all() for fold in folds) and len(folds) == 4
    everybody = np.maximum(count, 1)
    assert not [fold for fold in folds_of(everybody, 4, 0, by_text=True) if fold.classes], "every class is held"


@pytest.mark.parametrize("folds", [2, 3, 4, 20])
@pytest.mark.parametrize("held", [4, 5, 6, 7, 30])
def test_three_classes_are_always_left(held, folds):
    count = np.eye(1, held + 1, held, dtype=int) == 0  # of the last class nobody has a sample
    left = [fold.groups for fold in folds_of(count, folds, 0, by_text=True) if fold.classes]
    np.testing.assert_array_equal(np.sum(left, axis=0), count)
    assert all((count & ~groups).sum() >= 3 for groups in left)
