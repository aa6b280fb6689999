"""Training settings: what a program is compiled for, and the numbers that are only its arguments."""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import optax

from ggeur.methods.algorithm import Iterative
from ggeur.stats.seeding import generator
from ggeur.stats.types import Int


class Numbers(NamedTuple):
    """The numbers in which runs may differ and still share a compiled program, stacked over clients."""

    learning_rate: Any
    momentum: Any
    weight_decay: Any
    method: dict[str, Any]  # the method's own


class LocalOptimiser(NamedTuple):
    """[train]'s optimiser, as torch has it: decay is added to the gradient before momentum."""

    name: str = "sgd"
    momentum: float = 0.9
    weight_decay: float = 1e-5

    @property
    def kind(self) -> str:
        """The optimiser that is compiled: Adam, SGD, or SGD that keeps a trace."""
        return "momentum" if self.name == "sgd" and self.momentum else self.name


def build_optimiser(kind: str, numbers: Numbers) -> optax.GradientTransformation:
    """The optimiser of that `kind` (see `LocalOptimiser.kind`) around its `numbers`."""
    if kind == "adam":
        descent = optax.adam(numbers.learning_rate)
    else:
        descent = optax.sgd(numbers.learning_rate, numbers.momentum if kind == "momentum" else None)
    return optax.chain(optax.add_decayed_weights(numbers.weight_decay), descent)


def steps_per_epoch(n: int, batch: int) -> int:
    """Return the steps of `n` samples in batches of `batch`, the last of which may be short."""
    return -(-n // batch)


@dataclass(frozen=True)
class Training:
    """[train], as far as the engine is concerned."""

    rounds: int
    batch_size: int
    learning_rate: float
    local_epochs: int = 10
    local_steps: int | None = None
    optimiser: LocalOptimiser = field(default_factory=LocalOptimiser)
    clients_per_round: int | None = None
    broadcast: bool = True
    storage: str = "float32"  # of embeddings and noise, or "float16"; arithmetic is float32

    def steps(self, n: int) -> int:
        """Local steps in a round of a client with `n` samples."""
        if n == 0:
            return 0
        return self.local_steps or self.local_epochs * steps_per_epoch(n, self.batch_size)

    def participants(self, seed: int, number: int, able: Int) -> Int:
        """Return who trains in round `number`: all that are `able`, or as many as wanted, drawn by `seed` and round."""
        wanted = self.clients_per_round
        if wanted is None or wanted >= len(able):
            return able
        return np.sort(generator(seed, "participants", number).choice(able, wanted, replace=False))

    def numbers(self, trained: Iterative) -> Numbers:
        """Return what may differ between runs that share a program with this one, which trains by `trained`."""
        return Numbers(self.learning_rate, self.optimiser.momentum, self.optimiser.weight_decay, dict(trained.numbers))

    def without_numbers(self) -> tuple[Any, ...]:
        """Return what must be the same in all of them."""
        plain = replace(self, learning_rate=0.0, optimiser=LocalOptimiser())
        return plain, self.optimiser.kind
