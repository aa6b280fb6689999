"""Group clients into compiled calls, alike in steps and few enough for a cache; compiled programs are kept on disk."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from ggeur.engine.local import power_of_two
from ggeur.stats.storage import cache_folder
from ggeur.stats.types import THREADS, Int

_ORDER_BYTES = 64 * 2**20  # of batch orders, and what they pick, in one compiled call
_BATCH_BYTES = 2**20  # of the samples that one step forms in one compiled call: about what a core's cache holds
_CALL_STEPS = 128  # that a compiled call should at least be worth


class Chunks(NamedTuple):
    """The rule, for batches of one size."""

    batch: int
    dimension: int
    alone: bool = False  # every client in a call of its own

    def of(self, clients: Int, steps: Int) -> list[Int]:
        """Return chunks of `clients`, which have `steps` to take: the busiest first, one per thread if they suffice."""
        if self.alone:
            return list(clients[np.argsort(-steps, kind="stable")][:, None])
        chunks: list[Int] = []
        for group, longest in _alike(clients, steps):
            order_bytes = 16 * self.batch * power_of_two(longest)
            in_cache = max(4, _BATCH_BYTES // (4 * self.batch * self.dimension))
            room = max(1, min(_ORDER_BYTES // order_bytes, max(in_cache, _CALL_STEPS // longest)))
            pieces = len(group) if self.alone else max(-(-len(group) // room), min(THREADS, len(group)))
            chunks += [group[i::pieces] for i in range(pieces)]  # dealt in turn, so that pieces are alike
        return chunks


def _alike(clients: Int, steps: Int) -> Iterator[tuple[Int, int]]:
    """Return groups in which at most a third of (clients x longest) is idle, and their longest; the busiest first."""
    order = np.argsort(-steps, kind="stable")
    clients, steps = clients[order], steps[order]
    while len(clients):
        padded = steps[0] * np.arange(1, len(clients) + 1)
        fits = int(np.argmax(np.append(padded > 1.5 * np.cumsum(steps), True)))
        yield clients[:fits], int(steps[0])
        clients, steps = clients[fits:], steps[fits:]


def keep_compiled_programs() -> None:
    """Turn on JAX's persistent compilation cache, unless the user has set one up already."""
    config: Any = jax.config
    if config.jax_compilation_cache_dir is None:
        config.update("jax_compilation_cache_dir", str(cache_folder() / "jax"))
        config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
