"""Lanes that run together: little idle work, and two threads busy where there are two clients."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ggeur.engine import client_groups
from ggeur.engine.client_groups import Chunks
from ggeur.engine.stack import few_sizes


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=60))
def test_a_group_of_like_clients_idles_at_most_a_third(steps):
    steps = np.array(steps)
    groups, longest = zip(*client_groups._alike(np.arange(len(steps)), steps), strict=True)
    np.testing.assert_array_equal(np.sort(np.concatenate(groups)), np.arange(len(steps)))
    for group, most in zip(groups, longest, strict=True):
        padded = len(group) * steps[group].max()
        assert most == steps[group].max() and padded - steps[group].sum() <= padded / 3 + 1e-9
    assert list(longest) == sorted(longest, reverse=True)


@given(st.integers(1, 10_000))
def test_filling_up_a_group_adds_at_most_a_quarter_and_few_sizes_to_compile(n):
    """With the third above, 1 - (2/3) / 1.25 < 1/2 of the work is idle."""
    assert n <= few_sizes(n) <= 1.25 * n
    assert len({few_sizes(m) for m in range(1, n + 1)}) <= 4 * max(n - 1, 1).bit_length()


def test_clients_of_one_size_are_one_group():
    assert len(list(client_groups._alike(np.arange(50), np.full(50, 7)))) == 1


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=60), st.sampled_from([16, 64]), st.sampled_from([32, 512]))
def test_every_client_is_in_one_chunk_and_a_chunk_fits(steps, batch, dimension):
    steps = np.array(steps)
    made = Chunks(batch, dimension).of(np.arange(len(steps)), steps)
    np.testing.assert_array_equal(np.sort(np.concatenate(made)), np.arange(len(steps)))
    assert len(made) >= min(2, len(steps))
    for clients in made:
        few = 4 * batch * dimension * len(clients) <= client_groups._BATCH_BYTES
        assert few or len(clients) <= 4 or len(clients) * steps[clients].max() <= client_groups._CALL_STEPS
