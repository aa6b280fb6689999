"""Which trials are computed together: those that one compiled program serves, few enough to fit in memory.

Seeds share a program, and so do points of a grid that differ in how data is dealt out or augmented, or in numbers such
as rates. The answer is a function of the settings alone, so that a resumed run stacks as before.
"""

from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from typing import NamedTuple

import jax

from ggeur.data.table import EmbeddingTable
from ggeur.experiments.setup import Setup
from ggeur.experiments.tracker import Tracker
from ggeur.experiments.trial_data import TrialData
from ggeur.federation.augmentation import Augmentation
from ggeur.heads.head import Params
from ggeur.methods.algorithm import Task
from ggeur.stats.errors import Unavailable

_STACK_BYTES = 2 * 2**30  # of noise, and of clients' heads, states and messages, held at once by a stack
_COPIES = 8  # of a head for every client: its state, its message, where it ends, and these put together
_STACK_TRIALS = 10


class Work(NamedTuple):
    """A trial and what it is made of."""

    tracker: Tracker
    setup: Setup


def stacks(trials: Sequence[Work], trial_data: TrialData) -> list[list[Work]]:
    """The trials in groups; groups are in the order of their first trials."""
    facts: dict[int, _Facts] = {}
    groups: list[list[Work]] = []
    filling: dict[Hashable, tuple[list[Work], dict[Hashable, int]]] = {}  # by program: its last group, what it holds
    for work in trials:
        setup, point = work.setup, work.setup.settings
        if setup.trained is None:
            groups.append([work])
            continue
        if id(setup) not in facts:
            facts[id(setup)] = _Facts.of(setup, trial_data.table(point.data), trial_data.task(point.data))
        program, noise, heads = facts[id(setup)]
        program = program, setup.samples(work.tracker.seed)  # the trials of a stack share one table
        # Noise is held once by the trials that share it.
        more: dict[Hashable, int] = {(setup.dealt, work.tracker.seed): noise, work.tracker.number: heads}
        group, held = filling.get(program, ([], {}))
        if not group or len(group) == _STACK_TRIALS or sum((held | more).values()) > _STACK_BYTES:
            group, held = [], {}
            groups.append(group)
            filling[program] = group, held
        group.append(work)
        held.update(more)
    return groups


class _Facts(NamedTuple):
    """Of a point: what trials must agree in to be computed together, and what one of them holds, in bytes."""

    program: Hashable
    noise: int
    heads: int

    @classmethod
    def of(cls, setup: Setup, table: EmbeddingTable, task: Task) -> "_Facts":
        point, head, trained = setup.settings, setup.head, setup.trained
        assert trained is not None
        clients = point.partition.clients if point.partition.kind == "dirichlet" else table.n_domains
        program = (
            clients,
            (setup.augmentation.draws_noise, setup.augmentation.rank),  # by which a step is cheap or dear
            head,
            point.augment.pictures,
            trained.recipe,
            setup.training.without_numbers(),
            point.train.method,
            point.run.checkpoint_every,
        )
        params = jax.eval_shape(_first(setup, task), jax.random.key(0))
        size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(params))
        return cls(program, _noise_bytes(setup.augmentation, table, clients), _COPIES * size * clients)


def _first(setup: Setup, task: Task) -> Callable[[jax.Array], Params]:
    """(key) -> what training starts from."""
    with suppress(Unavailable):  # which is said when its turn comes
        trained = setup.of_task(task).trained
        if trained is not None and trained.method.head is not None:
            return trained.method.head.init
    return lambda key: setup.head.init(key, task.dimension, len(task.class_names))


def _noise_bytes(a: Augmentation, table: EmbeddingTable, clients: int) -> int:
    """Of one seed's bank, at most, or of the shapes that take its place."""
    if a.noise is None or a.rule is None:
        return 0
    if a.rank is not None:
        return 4 * table.n_classes * (1 + min(a.rank, table.dimension) * table.dimension)
    sample, rule = 4 * table.dimension, a.rule
    prototypes = table.n_classes * table.n_domains * rule.per_prototype
    if rule.per_sample is None:
        around_own = table.n_classes * rule.target
        total = clients * (around_own + prototypes)
    else:
        around_own = len(table) * rule.per_sample  # if one client held all samples
        total = around_own + clients * prototypes
    one = around_own + prototypes  # what one client draws is never shared
    return min(sample * total, max(sample * one, a.bank_bytes))
