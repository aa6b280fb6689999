"""Which cells are computed together: those that one compiled program serves, few enough to fit in memory.

Seeds share a program, and so do points of a grid that differ in how data is dealt out or augmented, or in numbers such
as rates. The answer is a function of the settings alone, so that a resumed run stacks as before.
"""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import jax

from ggeur.data.table import EmbeddingTable
from ggeur.experiment.built import head_of, method_of, solved, training_of
from ggeur.experiment.source import load_table
from ggeur.experiment.tracker import Tracker
from ggeur.settings.schema import Settings

_STACK_BYTES = 2 * 2**30  # of noise, and of clients' heads, states and messages, held at once by a stack
_COPIES = 8  # of a head for every client: its state, its message, where it ends, and these put together
_STACK_CELLS = 10


def stacks(trackers: Sequence[Tracker]) -> list[list[Tracker]]:
    """The cells in groups; groups are in the order of their first cells."""
    facts: dict[int, _Facts] = {}
    groups: list[list[Tracker]] = []
    filling: dict[Hashable, tuple[list[Tracker], dict[Hashable, int]]] = {}  # by program: its last group, what it holds
    for tracker in trackers:
        point = tracker.point
        if solved(point):
            groups.append([tracker])
            continue
        if id(point) not in facts:
            facts[id(point)] = _Facts.of(point)
        program, noise, heads = facts[id(point)]
        # Noise is held once by the cells that share it.
        more: dict[Hashable, int] = {(point.partition, point.augment, tracker.seed): noise, tracker.number: heads}
        group, held = filling.get(program, ([], {}))
        if not group or len(group) == _STACK_CELLS or sum((held | more).values()) > _STACK_BYTES:
            group, held = [], {}
            groups.append(group)
            filling[program] = group, held
        group.append(tracker)
        held.update(more)
    return groups


class _Facts(NamedTuple):
    """Of a point: what cells must agree in to be computed together, and what one of them holds, in bytes."""

    program: Hashable
    noise: int
    heads: int

    @classmethod
    def of(cls, point: Settings) -> "_Facts":
        table, head = load_table(point.data), head_of(point)
        program = (
            point.data,
            _clients(point, table),
            point.augment.kind == "ggeur",  # without noise a step is cheaper
            head,
            method_of(point).recipe,
            training_of(point).without_numbers(),
            point.train.method,
            point.run.checkpoint_every,
        )
        params = jax.eval_shape(lambda key: head.init(key, table.dimension, table.n_classes), jax.random.key(0))
        size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(params))
        return cls(program, _noise_bytes(point, table), _COPIES * size * _clients(point, table))


def _clients(point: Settings, table: EmbeddingTable) -> int:
    return point.partition.clients if point.partition.kind == "dirichlet" else table.n_domains


def _noise_bytes(point: Settings, table: EmbeddingTable) -> int:
    """Of one seed's bank, at most."""
    a = point.augment
    if a.kind != "ggeur":
        return 0
    clients, row = _clients(point, table), 4 * table.dimension
    prototypes = table.n_classes * table.n_domains * a.per_prototype
    if a.per_sample is None:
        around_own = table.n_classes * (a.target or 0)
        total = clients * (around_own + prototypes)
    else:
        around_own = len(table) * a.per_sample  # if one client held all rows
        total = around_own + clients * prototypes
    one = around_own + prototypes  # what one client draws is never shared
    return min(row * total, max(row * one, a.bank_mib * 2**20))
