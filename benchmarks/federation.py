"""The federation of the benchmarks: K clients, 10 classes x 2000 samples each, 512 dimensions, as virtual sets."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from ggeur.engine.simulate import Simulation
from ggeur.engine.stack import Run
from ggeur.engine.training import Training
from ggeur.heads import resolve as resolve_head
from ggeur.methods import resolve
from ggeur.stats.augmented_sets import BANK_BYTES, AugmentedSet, BankLayout, DrawRule, NoisePlace, training_set
from ggeur.stats.geometry import Geometry
from ggeur.stats.statistics import ClassStatistics

RATE, MOMENTUM, DECAY = 0.01, 0.9, 1e-5


class Shape(NamedTuple):
    clients: int = 10
    classes: int = 10
    target: int = 2000
    dim: int = 512
    batch_size: int = 64

    @property
    def originals(self) -> int:
        """Samples of each class that a client really has."""
        return min(20, self.target // 10)

    @property
    def samples(self) -> int:
        """Of one client's augmented set."""
        return self.classes * self.target

    @property
    def steps(self) -> int:
        """Client-steps of one local epoch of all clients."""
        return self.clients * -(-self.samples // self.batch_size)

    def __str__(self) -> str:
        return f"K={self.clients}, {self.classes} x {self.target}, p={self.dim}, B={self.batch_size}"


class Data(NamedTuple):
    """Samples, labels, which are each client's, and the geometry that their statistics merge to."""

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    parts: list[NDArray[np.int64]]
    geometry: Geometry


def data_of(shape: Shape) -> Data:
    """Correlated Gaussians around class means."""
    rng = np.random.default_rng(0)
    n = shape.clients * shape.classes * shape.originals
    y = np.tile(np.repeat(np.arange(shape.classes), shape.originals), shape.clients)
    mix = rng.normal(size=(shape.dim, shape.dim)) / np.sqrt(shape.dim)
    x = (rng.normal(size=(n, shape.dim)) @ mix + rng.normal(size=(shape.classes, shape.dim))[y]).astype(np.float32)
    geometry = Geometry.from_statistics(ClassStatistics.from_embeddings(x, y, shape.classes))
    return Data(x, y, list(np.arange(n).reshape(shape.clients, -1)), geometry)


def sample(shape: Shape, data: Data, bank_bytes: int = BANK_BYTES) -> tuple[NDArray[np.float32], list[AugmentedSet]]:
    """Every client's augmented set, as the runner makes it: a bank of noise and indices into it."""
    y, parts = data.y, data.parts
    rule, none = DrawRule(shape.target), np.zeros((0, shape.classes), np.bool_)
    counts = np.stack([rule.draws(np.bincount(y[p], minlength=shape.classes), none) for p in parts])
    layout = BankLayout.of(counts, shape.dim, bank_bytes)
    factors = data.geometry.factors("sqrt-eigenvalue").astype(np.float32)
    bank = layout.whole.noise(factors, np.arange(shape.classes), 0)
    places = [NoisePlace(layout.whole, layout.offset[k], k, 0) for k in range(len(parts))]
    sets = [training_set(p, y[p], rule, none, place, len(y)) for p, place in zip(parts, places, strict=True)]
    return bank, sets


def run_of(shape: Shape) -> Run:
    data = data_of(shape)
    bank, sets = sample(shape, data)
    params = jax.tree.map(np.asarray, resolve_head("linear").init(jax.random.key(0), shape.dim, shape.classes))
    return Run(0, data.x, data.x[:0], bank, sets, np.ones(shape.clients), params, shape.classes)


def our_round(shape: Shape, run: Run, epochs: int, storage: str = "float32") -> Callable[[], object]:
    """One round of FedAvg, everything in it: orders, gathers, steps, aggregation; compiled before the first call."""
    training = Training(
        rounds=10**6, batch_size=shape.batch_size, learning_rate=RATE, local_epochs=epochs, storage=storage
    )
    rounds = Simulation([run], resolve("fedavg", resolve_head("linear"), {}), training).rounds()
    next(rounds)
    return lambda: next(rounds)
