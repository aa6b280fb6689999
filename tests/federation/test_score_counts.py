"""Counts of test samples: by hand, and against an attacker who has nothing but them and knows how they were made."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.special import softmax

from ggeur.federation.score_counts import BINS, WITHHELD, count_scores
from ggeur.federation.small_counts import FEW_RIGHT, FEW_WRONG


def test_by_hand():
    p = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.0, 1.0, 0.0], [0.5, 0.1, 0.4]])
    c = count_scores(p, np.array([0, 0, 1, 2]), groups=["a", "a", "b", "c"])
    assert c.samples.tolist() == [2, 1, 1] and c.right == 2
    assert c.confusion.tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 0]]
    assert np.flatnonzero(c.positive[0]).tolist() == [10, 70] and np.flatnonzero(c.negative[0]).tolist() == [0, 50]
    assert np.flatnonzero(c.positive[1]).tolist() == [BINS - 1]  # the last bin holds one
    assert c.edges.all() and not c.few.any()
    assert tuple(c.groups) == (3, 1 + 1 + 0, 2 + 1 + 0, 4 + 1 + 1)  # of groups of 2, 1, 1 with 1, 1, 0 right


def test_two_classes_have_one_row_of_scores():
    c = count_scores(np.array([[0.9, 0.1], [0.25, 0.75]]), np.array([0, 1]))
    assert c.scored.tolist() == [1] and c.positive.shape == (1, BINS)
    assert np.flatnonzero(c.positive[0]).tolist() == [75] and np.flatnonzero(c.negative[0]).tolist() == [10]


def test_a_class_with_few_samples_is_left_out_of_everything():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [100, 100, 9])
    p = softmax(rng.normal(size=(209, 3)), axis=1)
    few, without = count_scores(p, y, 10), count_scores(p[:200], y[:200], 10)
    for name in ("samples", "confusion", "positive", "negative", "edges"):
        np.testing.assert_array_equal(getattr(few, name), getattr(without, name))


def site(seed, classes, strength, n=250):
    rng = np.random.default_rng(seed)
    y = rng.choice(classes, n, p=rng.dirichlet(np.full(classes, 2.0)))
    z = rng.normal(size=(n, classes))
    z[np.arange(n), y] += strength
    return softmax(2 * z, axis=1), y


def true_counts(p, y, least):
    kept = np.bincount(y, minlength=p.shape[1])[y] >= least
    found = np.zeros((p.shape[1],) * 2, int)
    np.add.at(found, (y[kept], p[kept].argmax(axis=1)), 1)
    return found


def attacked(c, least):
    """The least and greatest value of every cell, and of the wrong samples of every class, that the counts allow."""
    n = len(c.samples)
    rows, totals = [], []

    def equals(cells, total):
        row = np.zeros((n, n))
        for i, j in cells:
            row[i, j] = 1
        rows.append(row.ravel())
        totals.append(total)

    for i in range(n):
        equals([(i, j) for j in range(n)], c.samples[i])
    if c.right != WITHHELD:
        equals([(i, i) for i in range(n)], c.right)
    bounds, above = [], np.cumsum(c.positive[:, ::-1], axis=1)[:, ::-1]
    for i in range(n):
        for j in range(n):
            low, high = 0, int(c.samples[i])
            if c.confusion[i, j] != WITHHELD:
                low = high = int(c.confusion[i, j])
            elif c.few[i] == FEW_WRONG:
                low, high = (max(high - least + 1, 0), high) if i == j else (0, least - 1)
            elif c.few[i] == FEW_RIGHT and i == j:
                low, high = 1, least - 1
            if i == j and i in c.scored:  # a probability above one half makes the class the answer
                k = list(c.scored).index(i)
                edges = [e for e in np.flatnonzero(c.edges[k]) if 50 <= e < BINS]
                low = max([low, *(int(above[k, e]) for e in edges)])
            bounds.append((low, high))

    def extreme(cells, sign):
        goal = np.zeros((n, n))
        for i, j in cells:
            goal[i, j] = sign
        found = linprog(goal.ravel(), A_eq=np.array(rows), b_eq=totals, bounds=bounds)
        assert found.status == 0, "the counts allow the truth"
        return sign * found.fun

    return lambda cells: (extreme(cells, 1), extreme(cells, -1))


@settings(max_examples=25)
@given(st.integers(0, 2**31), st.sampled_from([2, 3, 5]), st.sampled_from([5, 10]), st.sampled_from([0.5, 1.5, 2.5]))
def test_an_attacker_with_the_counts_alone_does_not_learn_a_small_one(seed, classes, least, strength):
    p, y = site(seed, classes, strength)
    c, true = count_scores(p, y, least), true_counts(p, y, least)
    shown = [c.samples, c.confusion[c.confusion != WITHHELD], c.positive, c.negative]
    for counts in shown:
        assert not ((counts > 0) & (counts < least)).any()
    possible = attacked(c, least)
    cells = [[(i, j)] for i in range(classes) for j in range(classes)]
    wrongs = [[(i, j) for j in range(classes) if j != i] for i in range(classes)]
    every = [(i, j) for i in range(classes) for j in range(classes) if i != j]
    for asked in (*cells, *wrongs, every):
        value = sum(true[i, j] for i, j in asked)
        low, high = possible(asked)
        assert low - 1e-6 <= value <= high + 1e-6
        if 0 < value < least:
            assert high - low >= least // 2 - 1e-6, (asked, value, low, high)


@settings(max_examples=40)
@given(st.integers(0, 2**31), st.sampled_from([2, 4]), st.sampled_from([5, 10]))
def test_no_difference_of_scores_and_answers_is_small(seed, classes, least):
    """Samples that are taken as a class with a probability below a kept edge, from one half on: none, or enough."""
    p, y = site(seed, classes, 1.5)
    kept = np.bincount(y, minlength=classes)[y] >= least
    p, y = p[kept], y[kept]
    c, guess = count_scores(p, y, least), p.argmax(axis=1)
    for k, i in enumerate(c.scored):
        for edge in np.flatnonzero(c.edges[k]):
            if 50 <= edge < BINS:
                below = (guess == i) & (np.minimum((p[:, i] * BINS).astype(int), BINS - 1) < edge)
                for mine in (y == i, y != i):
                    left = (below & mine).sum()
                    assert left == 0 or left >= least


def test_small_counts_would_be_learnt_without_suppression():
    """The attack finds what the protection hides, where it is left out."""
    p, y = site(3, 3, 2.5)
    c, true = count_scores(p, y, 0), true_counts(p, y, 0)
    small = np.argwhere((true > 0) & (true < 10))
    possible = attacked(c, 0)
    assert len(small) and all(possible([tuple(at)])[0] == true[tuple(at)] for at in small)


def test_groups_are_counted_only_where_there_are_enough_of_them():
    p, y = site(0, 2, 0.5)
    few, many = np.arange(250) % 9, np.arange(250) % 40
    assert count_scores(p, y, 10, few).groups is None
    found = count_scores(p, y, 10, many)
    if found.right != WITHHELD:
        assert found.groups.groups == 40
    with_ints = count_scores(p, y, 0, few).groups
    assert with_ints == count_scores(p, y, 0, [str(g) for g in few]).groups


@pytest.mark.parametrize("least", [0, 1])
def test_without_a_min_count_nothing_is_withheld(least):
    p, y = site(1, 4, 1.0)
    c = count_scores(p, y, least)
    assert (c.confusion == true_counts(p, y, 0)).all() and c.edges.all() and c.right == (p.argmax(axis=1) == y).sum()
