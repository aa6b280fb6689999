"""Two clients that disagree, and a convex loss whose optimum is known: who gets there, and who stops elsewhere."""

import numpy as np
import pytest
from scipy.optimize import minimize

from ggeur.engine.training import LocalOptimiser

ROWS = 8  # of each client, all in one batch
TRAINING = {"batch_size": ROWS, "learning_rate": 0.5, "local_steps": 40, "optimiser": LocalOptimiser("sgd", 0.0, 0.0)}


@pytest.fixture
def problem(build_toy):
    """Softmax regression on overlapping classes of which the clients hold unlike shares, and its pooled optimum.

    From zero on, logits sum to zero over classes at every step of every method here: the optimum is unique.
    """
    toy = build_toy(sizes=(ROWS, ROWS), seed=1)
    x, y = (np.concatenate([c[i] for c in toy.clients]) for i in (0, 1))
    found = minimize(
        lambda w: toy.cross_entropy(toy.logits(w.reshape(3, 3), x), y),
        np.zeros(9),
        jac=lambda w: toy.gradient(w.reshape(3, 3), x, y).ravel(),
        method="BFGS",
        options={"gtol": 1e-10},
    )
    optimum = found.x.reshape(3, 3)
    assert np.abs(toy.gradient(optimum, x, y)).max() < 1e-8
    assert np.abs(optimum).max() < 5, "the classes overlap, so it is finite"
    return toy, optimum


def end(toy, name, rounds=300, **options):
    rounds = toy.play(name, toy.head(np.zeros((3, 3))), rounds=rounds, **TRAINING, **options)
    last, before = (toy.matrix(r.params[0]) for r in (rounds[-1], rounds[-2]))
    assert np.abs(last - before).max() < 1e-8, "it has not come to rest"
    return last


def test_scaffold_reaches_the_optimum(problem):
    toy, optimum = problem
    toy.same(end(toy, "scaffold", method={"server_learning_rate": 1.0}), optimum, 1e-6)


def test_feddyn_reaches_the_optimum(problem):
    toy, optimum = problem
    toy.same(end(toy, "feddyn"), optimum, 1e-6)


def test_fedavg_does_not_and_fedopt_stops_where_fedavg_stops(problem):
    toy, optimum = problem
    fedavg = end(toy, "fedavg", rounds=100)
    assert np.abs(fedavg - optimum).max() > 0.1
    toy.same(end(toy, "fedopt", rounds=400), fedavg, 1e-6)
