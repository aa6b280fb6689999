"""Which sets of sites may be added up one after the other: against all combinations with small coefficients."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggeur.privacy.secure.differences import lays_bare

FOUR = [range(12), set(range(12)) - {1, 2, 3}, set(range(12)) - {1, 4, 5}, set(range(12)) - {2, 3, 4, 5}]


@pytest.mark.parametrize(
    ("sums", "bare"),
    [
        ([range(4)], ()),
        ([range(4), range(4)], ()),
        ([range(4), range(3)], (3,)),  # one is called lost
        ([range(5), range(3)], (3, 4)),  # or two
        ([range(6), range(3)], ()),  # three hide each other
        ([range(6), (0, 1, 2, 6)], ()),
        ([(0, 1, 2), (0, 1, 3)], (2, 3)),  # one goes, one comes
        ([range(6), range(3), (3, 4)], (3, 4)),
        (FOUR, (1,)),  # any two differ by three or more, and x1 is half of T1 - T2 - T3 + T4
        (FOUR[:3], ()),
    ],
)
def test_by_hand(sums, bare):
    assert lays_bare(sums) == bare


@given(st.lists(st.sets(st.integers(0, 7), min_size=3), min_size=1, max_size=3))
def test_whatever_small_coefficients_find_is_found(sums):
    member = np.array([[site in one for site in range(8)] for one in sums], int)
    found = any(
        0 < np.count_nonzero(np.array(by) @ member) < 3 for by in product(range(-3, 4), repeat=len(sums)) if any(by)
    )
    assert bool(lays_bare(sums)) == found


def test_a_sum_of_many_sites_is_looked_at_quickly():
    every = set(range(1000))
    assert lays_bare([every, every - {1, 2, 3}, every - {5, 6, 7, 8}]) == ()
    assert lays_bare([every, every - {1, 2, 3}, every - {1, 2, 3, 9}]) == (9,)
