"""A method's numbers are arguments of the compiled program: a stack of runs that differ in them is the runs alone."""

import jax
import numpy as np
import pytest

from ggeur.engine.simulate import Simulation
from ggeur.heads import resolve as resolve_head
from ggeur.methods import METHODS, resolve

HEAD = resolve_head("linear")
WITH_NUMBERS = [name for name in METHODS if resolve(name, HEAD, {}).numbers]


def others(method):
    """Every number of the method, changed; shares stay shares."""
    return {name: value / 2 for name, value in method.numbers}


def test_which_parameters_are_numbers():
    assert dict(resolve("fedprox", HEAD, {"mu": 3}).numbers) == {"mu": 3.0}
    assert dict(resolve("fedmix", HEAD, {}).numbers) == {"lam": 0.05}, "counts decide shapes"
    assert set(METHODS) - set(WITH_NUMBERS) == {"fedavg", "fedfa_gaussian"}


def test_methods_that_differ_in_numbers_alone_have_one_recipe():
    one, two = (resolve("moon", HEAD, {"tau": tau}) for tau in (0.1, 0.9))
    assert one.recipe is two.recipe and one.numbers != two.numbers
    assert resolve("fedopt", HEAD, {"server": "adam"}).recipe is not resolve("fedopt", HEAD, {"server": "yogi"}).recipe
    assert resolve("fedmix", HEAD, {"group": 2}).recipe is not resolve("fedmix", HEAD, {"group": 3}).recipe


@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_runs_with_other_numbers_share_a_stack(toy, name):
    usual = resolve(name, HEAD, {})
    changed = resolve(name, HEAD, others(usual))
    w = toy.head(toy.random(3, 3))
    alone = [toy.simulation(name, w, method=dict(method.numbers)) for method in (usual, changed)]
    expected = [list(simulation.rounds())[-1].params[0] for simulation in alone]
    run, training = alone[0].runs[0], alone[0].training
    found = list(Simulation([run, run], [usual, changed], training).rounds())[-1].params
    for stacked, single in zip(found, expected, strict=True):
        jax.tree.map(toy.same, stacked, single)
    assert not np.allclose(expected[0]["W"], expected[1]["W"], atol=1e-6), "the test is too weak"


@pytest.mark.parametrize("server", ["adam", "yogi", "adagrad"])
def test_so_do_servers_of_the_adaptive_kinds(toy, server):
    given = [{"server": server, "server_rate": eta, "tau": 0.01} for eta in (0.1, 0.3)]
    w = toy.head(toy.random(3, 3))
    alone = [toy.simulation("fedopt", w, method=values) for values in given]
    run, training = alone[0].runs[0], alone[0].training
    methods = [resolve("fedopt", HEAD, values) for values in given]
    found = list(Simulation([run, run], methods, training).rounds())[-1].params
    for stacked, simulation in zip(found, alone, strict=True):
        jax.tree.map(toy.same, stacked, list(simulation.rounds())[-1].params[0])
