"""A method's numbers are arguments of the compiled program: a stack of runs that differ in them is the runs alone."""

import sys

import jax
import numpy as np
import pytest

from ggeur import methods
from ggeur.engine import client_groups
from ggeur.engine.simulate import Simulation
from ggeur.heads import resolve as resolve_head
from ggeur.methods import has_own_head, names, resolve
from ggeur.methods.algorithm import Iterative

HEAD = resolve_head("linear")
OF_A_HEAD = [name for name in names(Iterative) if not has_own_head(name)]
WITH_NUMBERS = [name for name in OF_A_HEAD if resolve(name, HEAD, {}).numbers]


def others(method):
    """Every number of the method, changed; shares stay shares."""
    return {name: value / 2 for name, value in method.numbers.items()}


def test_which_parameters_are_numbers():
    assert resolve("fedprox", HEAD, {"mu": 3}).numbers == {"mu": 3.0}
    assert resolve("fedmix", HEAD, {}).numbers == {"lam": 0.05}, "counts decide shapes"
    assert set(OF_A_HEAD) - set(WITH_NUMBERS) == {"fedavg", "fedfa_gaussian"}


def test_methods_that_differ_in_numbers_alone_have_one_recipe():
    one, two = (resolve("moon", HEAD, {"tau": tau}) for tau in (0.1, 0.9))
    assert one.recipe == two.recipe and one.numbers != two.numbers
    assert resolve("fedopt", HEAD, {"server": "adam"}).recipe != resolve("fedopt", HEAD, {"server": "yogi"}).recipe
    assert resolve("fedmix", HEAD, {"group": 2}).recipe != resolve("fedmix", HEAD, {"group": 3}).recipe
    methods._build.cache_clear()
    assert resolve("moon", HEAD, {"tau": 0.1}).recipe == one.recipe, "whatever else was built meanwhile"


def test_a_method_with_a_part_replaced_is_not_rebuilt_without_it(toy):
    """Whoever starts from a method of ours and replaces a function means it."""
    w = toy.head(toy.random(3, 3))
    usual = toy.simulation("fedprox", w)
    method = resolve("fedprox", HEAD, {"mu": 0.5}).method
    frozen = Iterative.of(method._replace(aggregate=lambda server, total, facts: server))
    assert frozen.numbers == {} and frozen.recipe != resolve("fedprox", HEAD, {"mu": 0.5}).recipe
    last = list(Simulation(usual.runs, frozen, usual.training).rounds())[-1].params[0]
    jax.tree.map(toy.same, last, w)
    assert not np.allclose(list(usual.rounds())[-1].params[0]["W"], w["W"], atol=1e-3), "the test is too weak"


@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_runs_with_other_numbers_share_a_stack(toy, name):
    usual = resolve(name, HEAD, {})
    changed = resolve(name, HEAD, others(usual))
    w = toy.head(toy.random(3, 3))
    alone = [toy.simulation(name, w, method=method.numbers) for method in (usual, changed)]
    expected = [list(simulation.rounds())[-1].params[0] for simulation in alone]
    run, training = alone[0].runs[0], alone[0].training
    found = list(Simulation([run, run], [usual, changed], training).rounds())[-1].params
    for stacked, single in zip(found, expected, strict=True):
        jax.tree.map(toy.same, stacked, single)
    assert not np.allclose(expected[0]["W"], expected[1]["W"], atol=1e-6), "the test is too weak"


@pytest.mark.parametrize("name", ["fedmix", "scaffold"])
def test_what_a_server_sends_need_not_be_copied_for_every_client(toy, name, monkeypatch):
    """Where it is large, runs of a stack share no call."""
    usual = toy.simulation(name, toy.head(toy.random(3, 3)))
    runs = [usual.runs[0], usual.runs[0]._replace(seed=1)]
    built = [resolve(name, HEAD, values) for values in ({}, others(resolve(name, HEAD, {})))]
    expected = list(Simulation(runs, built, usual.training).rounds())[-1].params
    monkeypatch.setattr(client_groups, "_SENT_BYTES", 0)
    monkeypatch.setattr(client_groups.trees, "stack", None)
    found = list(Simulation(runs, built, usual.training).rounds())[-1].params
    jax.tree.map(toy.same, found, expected)


@pytest.mark.parametrize("server", ["adam", "yogi", "adagrad"])
def test_so_do_servers_of_the_adaptive_kinds(toy, server):
    given = [{"server": server, "server_learning_rate": eta, "tau": 0.01} for eta in (0.1, 0.3)]
    w = toy.head(toy.random(3, 3))
    alone = [toy.simulation("fedopt", w, method=values) for values in given]
    run, training = alone[0].runs[0], alone[0].training
    methods = [resolve("fedopt", HEAD, values) for values in given]
    found = list(Simulation([run, run], methods, training).rounds())[-1].params
    for stacked, simulation in zip(found, alone, strict=True):
        jax.tree.map(toy.same, stacked, list(simulation.rounds())[-1].params[0])


# ---------------------------------------------------------------- one's own

SWEPT = """
    from ggeur.stats.hyperparameters import Positive, Traced
    from ggeur.methods.method import Method, add_term, squared_distance

    TRACES = []  # one for each time that a program is made of the loss

    def pulled(head, mu):
        def pull(w, batch, context):
            TRACES.append(mu)
            return mu / 2 * squared_distance(w, context["params"])

        return Method(loss=add_term(head, pull))

    def traced(head, *, mu: Traced[Positive] = 1.0):
        return pulled(head, mu)

    def branching(head, *, mu: Positive = 1.0):
        return pulled(head, mu if mu < 0.6 else 0.0)
"""


def sweep(toy, name, values):
    """The last head of a run at each of the values, one after the other, and how often a loss was traced for each."""
    w, module = toy.head(toy.random(3, 3)), name.partition(":")[0]
    heads, traces = [], [0]
    for mu in values:
        heads.append(list(toy.simulation(name, w, method={"mu": mu}).rounds())[-1].params[0])
        traces.append(len(sys.modules[module].TRACES))
    return heads, np.diff(traces).tolist()


def test_a_parameter_of_ones_own_method_that_is_traced_is_swept_by_one_program(toy, own):
    own("own_swept", SWEPT)
    first, second = (resolve("own_swept:traced", HEAD, {"mu": mu}) for mu in (0.2, 0.9))
    assert first.recipe == second.recipe and (first.numbers, second.numbers) == ({"mu": 0.2}, {"mu": 0.9})
    heads, traces = sweep(toy, "own_swept:traced", [0.2, 0.9, 0.5])
    assert traces[0] > 0 and traces[1:] == [0, 0], "another value compiles nothing"
    assert not np.allclose(heads[0]["W"], heads[1]["W"], atol=1e-4), "the test is too weak"


def test_a_parameter_that_is_not_traced_may_be_branched_on_and_each_value_has_a_program(toy, own):
    own("own_branching", SWEPT)
    first, second = (resolve("own_branching:branching", HEAD, {"mu": mu}) for mu in (0.5, 0.9))
    assert first.recipe != second.recipe and first.numbers == second.numbers == {}
    _, traces = sweep(toy, "own_branching:branching", [0.5, 0.9])
    assert min(traces) > 0
