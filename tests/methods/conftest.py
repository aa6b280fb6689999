"""A tiny federation in float64, and the NumPy by which the tests work out what a method must do to it.

The linear head is one matrix here, w = [W b] of shape (classes, p + 1), against samples with a 1 appended. Gradients
come from the complex step: Im f(w + ih) / h is exact to rounding where f is written in analytic functions.
"""

import sys
from textwrap import dedent

import jax
import numpy as np
import pytest

from ggeur.data.table import EmbeddingTable
from ggeur.engine.local import folded_key
from ggeur.engine.simulate import Simulation, State
from ggeur.engine.stack import Run
from ggeur.engine.training import LocalOptimiser, Training
from ggeur.heads import resolve as resolve_head
from ggeur.methods import resolve
from ggeur.stats.augmented_sets import AugmentedSet
from ggeur.stats.seeding import batch_order, stream

P, CLASSES, BATCH, RATE, HIDDEN = 2, 3, 3, 0.2, 4
MOMENTUM, DECAY = 0.5, 0.1


class Toy:
    """Two clients with 11 and 9 samples in batches of 3: four steps and three, and one short batch."""

    def __init__(self, sizes=(11, 9), seed=7):
        rng = np.random.default_rng(seed)
        self.sizes, self.seed, self.rng = sizes, seed, rng
        x, y = rng.normal(size=(sum(sizes), P)), rng.integers(CLASSES, size=sum(sizes))
        samples = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
        self.clients = [(x[r], y[r]) for r in samples]
        sets = [
            AugmentedSet(r.astype(np.int32), np.zeros(len(r), np.int32), y[r].astype(np.int32), len(r)) for r in samples
        ]
        self.run = Run(seed, x, np.zeros((0, P)), None, sets, np.array(sizes, float), None, CLASSES)

    # ------------------------------------------------------------ what the package does

    def simulation(self, name, params, *, rounds=2, head="linear", method=None, **train):
        made = resolve(name, resolve_head(head, **({"hidden": HIDDEN} if head == "mlp" else {})), method or {})
        values = {
            "batch_size": BATCH,
            "learning_rate": RATE,
            "local_epochs": 1,
            "optimiser": LocalOptimiser("sgd", MOMENTUM, DECAY),
        }
        training = Training(rounds=rounds, **(values | train))
        return Simulation([self.run._replace(params=params)], made, training)

    def play(self, name, params, server=None, clients=None, *, before=0, rounds=2, **options):
        """Rounds of a method from `params` and, on top of its own first state, parts of server's and clients'."""
        simulation = self.simulation(name, params, rounds=before + rounds, **options)
        first = simulation.start()
        held = {**first.clients, **clients} if clients else first.clients
        return list(simulation.rounds(State(before, [{**first.servers[0], **(server or {})}], held, ())))

    # ------------------------------------------------------------ what the paper says

    def random(self, *shape):
        """Something that is not zero."""
        return self.rng.normal(size=shape)

    def batches(self, number, k):
        """The samples of each step of client k in a round, as the engine deals them."""
        n = self.sizes[k]
        order = batch_order(self.seed, number, k, n, -(-n // BATCH), BATCH).reshape(-1, BATCH)
        x, y = self.clients[k]
        return [(x[at[at >= 0]], y[at[at >= 0]]) for at in order]

    def keys(self, number, k):
        """The random key of each step of client k in a round."""
        key = folded_key(np.array([self.seed, stream("train"), number, k], np.uint32))
        return [jax.random.fold_in(key, t) for t in range(len(self.batches(number, k)))]

    def descend(self, w, gradient, number, k, *, momentum=MOMENTUM, decay=DECAY):
        """Local SGD as torch has it; `gradient(w, x, y, t)` is of step t's loss."""
        velocity = 0.0
        for t, (x, y) in enumerate(self.batches(number, k)):
            velocity = momentum * velocity + gradient(w, x, y, t) + decay * w
            w = w - RATE * velocity
        return w

    def mean(self, ends):
        """By the clients' samples."""
        return np.average(ends, axis=0, weights=self.sizes)

    @staticmethod
    def logits(w, x):
        return np.c_[x, np.ones(len(x))] @ w.T

    @staticmethod
    def mlp(w, x):
        """Logits and hidden layer of an MLP whose parameters are one vector: W1, b1, W2, b2."""
        w1, b1, w2, b2 = np.split(w, np.cumsum([HIDDEN * P, HIDDEN, CLASSES * HIDDEN]))
        z = x @ w1.reshape(HIDDEN, P).T + b1
        hidden = np.where(z.real > 0, z, 0)
        return hidden @ w2.reshape(CLASSES, HIDDEN).T + b2, hidden

    @staticmethod
    def log_softmax(z):
        return z - np.log(np.exp(z).sum(axis=-1, keepdims=True))

    def cross_entropy(self, logits, y):
        return -self.log_softmax(logits)[np.arange(len(y)), y].mean()

    def gradient(self, w, x, y, t=0):
        """Of softmax regression: (P - Y)' X / n."""
        p = np.exp(self.log_softmax(self.logits(w, x)))
        return (p - np.eye(CLASSES)[y]).T @ np.c_[x, np.ones(len(x))] / len(y)

    @staticmethod
    def slope(loss, w):
        """The gradient of a real function at w, by the complex step."""
        steps = 1e-30j * np.eye(w.size).reshape(-1, *w.shape)
        return np.array([loss(w + step).imag / 1e-30 for step in steps]).reshape(w.shape)

    # ------------------------------------------------------------ between the two

    @staticmethod
    def head(w):
        return {"W": w[..., :-1], "b": w[..., -1]}

    @staticmethod
    def matrix(head):
        return np.concatenate([head["W"], np.asarray(head["b"])[..., None]], axis=-1)

    @staticmethod
    def mlp_head(w):
        parts = np.split(w, np.cumsum([HIDDEN * P, HIDDEN, CLASSES * HIDDEN]), axis=-1)
        shapes = {"W1": (HIDDEN, P), "b1": (HIDDEN,), "W2": (CLASSES, HIDDEN), "b2": (CLASSES,)}
        return {n: part.reshape(*w.shape[:-1], *s) for part, (n, s) in zip(parts, shapes.items(), strict=True)}

    @staticmethod
    def mlp_vector(head):
        return np.concatenate([np.ravel(head[name]) for name in ("W1", "b1", "W2", "b2")])

    @staticmethod
    def same(found, expected, tolerance=1e-9):
        np.testing.assert_allclose(np.asarray(found), expected, rtol=tolerance, atol=tolerance)


@pytest.fixture
def x64():
    """All of a test in float64, in every thread."""
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


@pytest.fixture
def toy(x64):
    return Toy()


@pytest.fixture
def build_toy(x64):
    """The builder: build_toy(sizes=, seed=)."""
    return Toy


@pytest.fixture
def own(tmp_path, monkeypatch):
    """own(name, source): a module in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write(name, source):
        (tmp_path / f"{name}.py").write_text(dedent(source))

    return write


@pytest.fixture(scope="session")
def table_file(tmp_path_factory):
    """A table of two domains and three classes; sizes such that most kinds of augmentation compile to one program."""
    rng = np.random.default_rng(0)
    y, domain = np.tile(np.repeat(np.arange(3), 19), 2), np.repeat([0, 1], 57)
    x = 2 * np.eye(3)[y] + rng.normal(size=(2, 3))[domain] + rng.normal(size=(114, 3))
    path = tmp_path_factory.mktemp("table") / "toy.npz"
    EmbeddingTable(x=x.astype(np.float32), y=y, domain=domain, text=3 * np.eye(3, dtype=np.float32)).save(path)
    return path


@pytest.fixture(scope="session")
def tree(table_file):
    """The builder: tree(section={key: value}) -> a small experiment on that table."""

    def build(**sections):
        whole = {
            "data": {"table": str(table_file)},
            "partition": {"kind": "domain"},
            "augment": {"kind": "none", "target": 18, "per_prototype": 2},
            "train": {"rounds": 2, "local_steps": 2, "batch_size": 16, "learning_rate": 0.1},
        }
        return {**whole, **{name: {**whole.get(name, {}), **values} for name, values in sections.items()}}

    return build
