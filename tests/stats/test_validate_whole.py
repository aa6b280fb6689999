"""Numbers that count things are whole, wherever they come in."""

import numpy as np
import pytest

import ggeur
from ggeur.stats.seeding import generator
from refusal import refused

X, Y = np.random.default_rng(0).normal(size=(30, 4)), np.arange(30) % 3
S = ggeur.ClassStatistics.from_embeddings(X, Y, 3)
G = ggeur.Geometry.from_statistics(S)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("target", lambda: ggeur.augment(X, Y, G, target=None)),
        ("target", lambda: ggeur.augment(X, Y, G, target="5")),
        ("target", lambda: ggeur.augment(X, Y, G, target=20.0)),
        ("seed", lambda: ggeur.augment(X, Y, G, target=20, seed=-1)),
        ("seed", lambda: ggeur.augment(X, Y, G, target=20, seed=None)),
        ("seed", lambda: generator(1.5, "split")),
        ("rank", lambda: ggeur.Geometry.from_statistics(S, rank=1.5)),
        ("n_classes", lambda: ggeur.ClassStatistics.from_embeddings(X, Y, None)),
        ("clients", lambda: ggeur.partition.dirichlet(Y, clients=True)),
        ("min_per_class", lambda: ggeur.partition.dirichlet(Y, clients=2, min_per_class=-1)),
    ],
)
def test_what_is_no_count_is_refused_by_name(name, call):
    with refused(f"argument-not-whole-number: {name} is"):
        call()


def test_numpys_whole_numbers_will_do():
    x, _ = ggeur.augment(X, Y, G, target=np.int64(20), seed=np.uint8(3))
    assert len(x) == 60


def test_run_and_experiment_say_what_they_take():
    with refused("argument-not-experiment"):
        ggeur.run({})
    with refused("experiment-not-mapping"):
        ggeur.Experiment.of(5)
