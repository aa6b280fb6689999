"""Where a method must be FedAvg it is, and where it must not be it is not; and what absent clients keep."""

import numpy as np
import pytest

from ggeur.engine.training import LocalOptimiser
from ggeur.methods import has_own_head, names
from ggeur.methods.algorithm import Iterative

PLAIN = LocalOptimiser("sgd", 0.0, 0.0)


def heads(toy, name, rounds=3, seed=3, **options):
    """The global head after each round, from one and the same first head."""
    params = np.random.default_rng(seed).normal(size=(3, 3))
    return np.stack([toy.matrix(r.params[0]) for r in toy.play(name, toy.head(params), rounds=rounds, **options)])


def mlp_heads(toy, name, rounds=2, **options):
    params = toy.mlp_head(np.random.default_rng(3).normal(size=27))
    return np.stack([toy.mlp_vector(r.params[0]) for r in toy.play(name, params, rounds=rounds, head="mlp", **options)])


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("fedprox", {"mu": 0.0}),
        ("moon", {"mu": 0.0}),
        ("fedntd", {"beta": 0.0}),
        ("fedproto", {"lam": 0.0}),
        ("fedmix", {"lam": 0.0}),
        ("fedfa", {"probability": 0.0}),
        ("fedopt", {"server": "sgd", "server_learning_rate": 1.0, "momentum": 0.0}),
    ],
)
def test_without_its_own_term_it_is_fedavg(toy, name, method):
    toy.same(heads(toy, name, method=method), heads(toy, "fedavg"))


def test_scaffold_of_one_client_with_server_rate_1_is_fedavg_by_plain_sgd(build_toy):
    toy = build_toy(sizes=(11,))
    found = heads(toy, "scaffold", method={"server_learning_rate": 1.0})
    toy.same(found, heads(toy, "fedavg", optimiser=PLAIN))


AS_FEDAVG_IN_ROUND_1 = {"moon", "fedproto", "fedgen"}  # nothing is known yet of models, prototypes, or a generator


@pytest.mark.parametrize("name", [name for name in names(Iterative) if name != "fedavg" and not has_own_head(name)])
def test_by_default_it_differs_from_fedavg_from_round_2_on(toy, name):
    optimiser = PLAIN if name == "scaffold" else LocalOptimiser("sgd", 0.5, 0.1)
    away = np.abs(heads(toy, name, optimiser=optimiser) - heads(toy, "fedavg", optimiser=optimiser)).max(axis=(1, 2))
    assert (away[1:] > 1e-4).all()
    assert (away[0] < 1e-9) == (name in AS_FEDAVG_IN_ROUND_1)


@pytest.mark.parametrize("name", ["moon", "fedproto"])
def test_so_it_does_with_an_mlp(toy, name):
    away = np.abs(mlp_heads(toy, name) - mlp_heads(toy, "fedavg"))
    assert away[0].max() < 1e-9
    assert away[1, :12].max() > 1e-4, "in the hidden layer, W1 and b1"


def test_scaffolds_c_is_the_mean_of_the_c_i(toy):
    for found in toy.play("scaffold", toy.head(toy.random(3, 3)), rounds=4):
        c_i = toy.matrix(found.state.clients["c_i"])
        toy.same(toy.matrix(found.state.servers[0]["c"]), c_i.mean(axis=0))
        assert np.abs(c_i).max() > 0.01


def test_feddyns_h_is_the_mean_of_the_g_k(toy):
    for found in toy.play("feddyn", toy.head(toy.random(3, 3)), rounds=4):
        g = toy.matrix(found.state.clients["g"])
        toy.same(toy.matrix(found.state.servers[0]["h"]), g.mean(axis=0))
        assert np.abs(g).max() > 0.01


@pytest.mark.parametrize(("name", "kept"), [("scaffold", "c_i"), ("moon", "previous"), ("feddyn", "g"), ("fedfa", "m")])
def test_absent_clients_keep_their_state(toy, name, kept):
    shape = (2, 2) if name == "fedfa" else (2, 3, 3)
    given = toy.random(*shape)
    before = given if name == "fedfa" else toy.head(given)
    rounds = toy.play(name, toy.head(toy.random(3, 3)), None, {kept: before}, before=5, rounds=3, clients_per_round=1)
    assert {int(r.participants[0][0]) for r in rounds} == {0, 1}
    state = given
    for found in rounds:
        new = found.state.clients[kept]
        new = new if name == "fedfa" else toy.matrix(new)
        (present,) = found.participants[0]
        np.testing.assert_array_equal(new[1 - present], state[1 - present])
        assert np.abs(new[present] - state[present]).max() > 1e-4
        state = new
