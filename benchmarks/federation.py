"""The federation that the benchmarks run: K clients, 10 classes x 2000 rows each, 512 dimensions, as virtual sets."""

from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from ggeur.core.augment import plan_draws
from ggeur.core.geometry import Geometry
from ggeur.core.statistics import ClassStatistics
from ggeur.core.virtual import BANK_BYTES, BankLayout, VirtualSet, count_draws, noise_bank, virtual_set
from ggeur.engine.federation import Run
from ggeur.heads.linear import linear

OWN = 20  # rows of each class that a client really has


class Shape(NamedTuple):
    clients: int = 10
    classes: int = 10
    target: int = 2000
    dim: int = 512
    batch: int = 64

    @property
    def steps(self) -> int:
        """Client-steps of one local epoch of all clients."""
        return self.clients * -(-self.classes * self.target // self.batch)

    def __str__(self) -> str:
        return f"K={self.clients}, {self.classes} x {self.target}, p={self.dim}, B={self.batch}"


def embeddings(shape: Shape) -> tuple[NDArray[np.float32], NDArray[np.int64], list[NDArray[np.int64]]]:
    """Rows, labels and each client's rows: correlated Gaussians around class means."""
    rng = np.random.default_rng(0)
    n = shape.clients * shape.classes * OWN
    y = np.tile(np.repeat(np.arange(shape.classes), OWN), shape.clients)
    mix = rng.normal(size=(shape.dim, shape.dim)) / np.sqrt(shape.dim)
    x = rng.normal(size=(n, shape.dim)) @ mix + rng.normal(size=(shape.classes, shape.dim))[y]
    return x.astype(np.float32), y, list(np.arange(n).reshape(shape.clients, -1))


def geometry(shape: Shape) -> Geometry:
    x, y, _ = embeddings(shape)
    return Geometry.from_statistics(ClassStatistics.from_embeddings(x, y, shape.classes))


def sample(shape: Shape, g: Geometry, bank_bytes: int) -> tuple[NDArray[np.float32], list[VirtualSet]]:
    """Every client's augmented set, as the runner makes it: a bank of noise and indices into it."""
    _, y, parts = embeddings(shape)
    draws = [plan_draws(y[p], shape.classes, target=shape.target) for p in parts]
    layout = BankLayout.of(count_draws(draws, shape.classes), shape.dim, bank_bytes)
    bank = noise_bank(g, layout, "sqrt-eigenvalue", 0)
    sets = [
        virtual_set(p, y[p], d, layout.noise_rows(k, d.label, 0), len(y))
        for k, (p, d) in enumerate(zip(parts, draws, strict=True))
    ]
    return bank, sets


def run_of(shape: Shape, bank_bytes: int = BANK_BYTES) -> Run:
    x, _, parts = embeddings(shape)
    bank, sets = sample(shape, geometry(shape), bank_bytes)
    params = jax.tree.map(np.asarray, linear().init(jax.random.key(0), shape.dim, shape.classes))
    return Run(0, x, x[:0], bank, sets, np.ones(len(parts)), params, shape.classes)
