"""The order of batches, and the pieces of local training that every engine shares."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggeur.engine.local import ClientBatch, folded_key
from ggeur.engine.training import steps_per_epoch
from ggeur.stats.augmented_sets import AugmentedSet
from ggeur.stats.seeding import batch_order

sizes, batches = st.integers(1, 40), st.integers(1, 12)


@given(sizes, batches, st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_every_epoch_is_a_permutation_with_its_last_batch_filled_up(n, batch, epochs, seed):
    steps = -(-n // batch)
    order = batch_order(seed, 1, 0, n, epochs * steps, batch).reshape(epochs, steps * batch)
    for epoch in order:
        np.testing.assert_array_equal(np.sort(epoch[:n]), np.arange(n))
        np.testing.assert_array_equal(epoch[n:], -1)


@given(sizes, batches, st.integers(1, 30), st.integers(1, 30))
def test_fewer_steps_are_a_prefix(n, batch, fewer, more):
    fewer, more = sorted((fewer, more))
    longer = batch_order(0, 1, 0, n, more, batch)
    assert len(longer) == more * batch
    np.testing.assert_array_equal(batch_order(0, 1, 0, n, fewer, batch), longer[: fewer * batch])


@given(sizes, batches, batches)
def test_an_epochs_order_does_not_depend_on_the_batch(n, a, b):
    orders = [batch_order(5, 2, 3, n, 2 * -(-n // batch), batch) for batch in (a, b)]
    np.testing.assert_array_equal(*(order[order >= 0] for order in orders))


def test_the_order_is_its_arguments_alone():
    arguments = dict(seed=1, round_=2, client=3, n=50, steps=5, batch=10)
    order = batch_order(**arguments)
    np.random.default_rng(0).normal(size=7)
    np.testing.assert_array_equal(batch_order(**arguments), order)


@pytest.mark.parametrize("name", ["seed", "round_", "client"])
def test_another_seed_round_or_client_has_another_order(name):
    arguments = dict(seed=1, round_=2, client=3, n=50, steps=5, batch=10)
    other = batch_order(**(arguments | {name: 9}))
    assert (other == batch_order(**arguments)).mean() < 0.3


def test_seed_round_and_client_are_not_interchangeable():
    orders = [batch_order(*names, n=50, steps=5, batch=10) for names in ((1, 2, 3), (2, 1, 3), (1, 3, 2), (3, 2, 1))]
    assert len({order.tobytes() for order in orders}) == 4


def test_epochs_of_a_round_differ():
    first, second = batch_order(0, 1, 0, 50, 10, 10).reshape(2, 50)
    assert (first == second).mean() < 0.3


@pytest.mark.parametrize("n, batch, steps", [(1, 64, 1), (64, 64, 1), (65, 64, 2), (128, 64, 2)])
def test_an_epoch_has_as_many_steps_as_its_rows_need(n, batch, steps):
    assert steps_per_epoch(n, batch) == steps


def test_keys_differ_by_every_name():
    names = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], np.uint32)
    keys = {tuple(np.asarray(jax.random.key_data(folded_key(line))).tolist()) for line in names}
    assert len(keys) == 4


def test_clients_are_filled_up_and_say_how_many_rows_are_real():
    sets = [
        AugmentedSet(np.array([4, 2]), np.array([0, -3]), np.array([1, 2]), 1),
        AugmentedSet(np.array([7]), np.array([0]), np.array([2]), 1),
    ]
    clients = ClientBatch.of(sets, 4, 3)
    np.testing.assert_array_equal(clients.sample, [[4, 2, 0, 0], [7, 0, 0, 0]])
    np.testing.assert_array_equal(clients.noise, [[0, -3, 0, 0], [0, 0, 0, 0]])
    np.testing.assert_array_equal(clients.n, [2, 1])
    np.testing.assert_array_equal(clients.class_count, [[0, 1, 1], [0, 0, 1]])
