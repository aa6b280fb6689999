"""A sweep: eight values of a number as one grid, whose trials share a program, and as eight runs in turn."""

import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import jax
from benchmarks.timing import Line, seconds
from jax.experimental.compilation_cache import compilation_cache

import ggeur

MU = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0]
ROUNDS = 10


def experiment(mu: Any) -> ggeur.Experiment:
    return ggeur.Experiment.of(
        {
            "data": {"dataset": "mini-digits"},
            "partition": {"kind": "domain"},
            "train": {"method": "fedprox", "rounds": ROUNDS, "local_epochs": 1},
            "method": {"fedprox": {"mu": mu}},
        }
    )


def from_nothing(run: Callable[[], object]) -> float:
    """Its seconds with nothing compiled before, in memory or on disk."""
    jax.clear_caches()
    with tempfile.TemporaryDirectory() as folder:
        jax.config.update("jax_compilation_cache_dir", folder)
        compilation_cache.reset_cache()  # or the folder before this one would stay in use
        return seconds(run)


def main() -> Iterator[Line]:
    grid, each = experiment(MU), [experiment(mu) for mu in MU]
    work = f"FedProx with {len(MU)} values of mu, GGEUR, built-in digits, {ROUNDS} rounds"
    ggeur.run(each[0])  # the table is made, the noise drawn
    one = min(from_nothing(lambda: ggeur.run(grid)) for _ in range(2))
    apart = min(from_nothing(lambda: [ggeur.run(e) for e in each]) for _ in range(2))
    yield Line("sweep: one run for each value", f"{work}; compilation included", one, apart)
