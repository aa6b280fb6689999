"""The clients of a stack of runs: what each holds, and how those that take part train, many in one compiled call.

Client k of run r has the number r * K + k. What it computes does not depend on what it runs beside: its batches, keys
and weights are functions of seed, round and client.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ggeur.engine import trees
from ggeur.engine.aggregation import frozen, heavy
from ggeur.engine.local import ClientBatch, local_training, power_of_two, preparation
from ggeur.engine.stack import Run, few_sizes, stack_runs
from ggeur.engine.training import Training
from ggeur.methods.algorithm import Iterative
from ggeur.stats.seeding import PREPARE, TRAIN, batch_order
from ggeur.stats.types import THREADS, Int, Tree

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


_SENT_BYTES = 2**18  # by a server, past which it is not copied for every client


class Done(NamedTuple):
    """The results of some clients in a round."""

    messages: Tree
    states: Tree
    ends: Tree  # () where heads are broadcast
    losses: NDArray[Any]


class ClientGroups:
    """All clients of `runs`, which train by the methods `each` and alike but for the numbers of `trainings`."""

    def __init__(self, runs: Sequence[Run], each: Sequence[Iterative], trainings: Sequence[Training]) -> None:
        self._runs, self._training, self._recipe = runs, trainings[0], each[0].recipe
        self.n_clients = len(runs[0].sets)
        stack = stack_runs(runs, self._training.storage)
        self._base, self._bank = jax.tree.map(jnp.asarray, (stack.base, stack.bank))
        self._shapes = [jax.tree.map(jnp.asarray, run.shapes) for run in runs]
        self.dtype = jnp.promote_types(self._base.dtype, jnp.float32)
        self._sets = [s for run in stack.sets for s in run]
        self.ids = np.concatenate([np.arange(self.n_clients) if run.ids is None else run.ids for run in runs])
        self.steps = np.array([self._training.steps(len(s.y)) for s in self._sets])
        numbers = [t.numbers(one) for t, one in zip(trainings, each, strict=True)]
        self.numbers = jax.tree.map(lambda *a: np.array(a, self.dtype), *numbers)  # stacked over runs
        self.frozen, self._pictures = frozen(each[0]), runs[0].pictures  # one for all, as the recipe is
        alone = heavy(each[0]) or self._pictures is not None
        self._chunks = Chunks(self._training.batch_size, self._base.shape[1], alone)

    def able(self, r: int) -> Int:
        """The clients of a run that have samples; the others never take part."""
        return np.flatnonzero(self.steps[r * self.n_clients : (r + 1) * self.n_clients])

    def prepared(self) -> Tree:
        """Every client's message before round 1, stacked over clients; zeros from a client without samples."""
        run = preparation(self._recipe, self._training.batch_size)
        able = np.flatnonzero(self.steps)
        chunks = self._chunks.of(able, self.steps[able])
        made = []
        for clients in chunks:
            numbers = trees.take(self.numbers.method, clients // self.n_clients)
            out = run(self._base, self._bank, self._client_batch(clients), self._names(PREPARE, 0, clients), numbers)
            made.append(jax.tree.map(np.asarray, out))
        whole = jax.tree.map(lambda a: np.zeros((len(self._sets), *a.shape[1:]), a.dtype), made[0])
        for clients, out in zip(chunks, made, strict=True):
            whole = trees.put(whole, clients, out)
        return whole

    def trained(
        self,
        active: Int,
        number: int,
        sent: list[dict[str, Tree]],
        states: Tree,
        heads: Tree,
        pool: ThreadPoolExecutor,
    ) -> Done:
        """Return the results of the clients `active` in round `number`, in their order.

        `sent` is what the servers send, one per run; `states` and `heads` are those of all clients.
        """
        apart = len(sent) == 1 or self._shapes[0] is not None or trees.size_in_bytes(sent[0]) > _SENT_BYTES
        apart = apart or self._chunks.alone
        chunks = self._divided(active, apart=apart)
        work = list(pool.map(lambda clients: self._chunk(clients, number, sent, states, heads, apart=apart), chunks))
        done: Done = trees.scatter(work, [np.searchsorted(active, clients) for clients in chunks], len(active))
        return done

    def _divided(self, active: Int, *, apart: bool) -> list[Int]:
        """Yield clients that share a call: of all runs, or `apart`, each of one run with what its server sends."""
        run = active // self.n_clients
        groups = [active[run == r] for r in range(len(self._runs))] if apart else [active]
        return [clients for group in groups for clients in self._chunks.of(group, self.steps[group])]

    def _chunk(
        self, clients: Int, number: int, sent: list[dict[str, Tree]], states: Tree, heads: Tree, *, apart: bool
    ) -> Done:
        """Train these clients. Sizes are rounded up where they vary by round, so that few programs are compiled."""
        batch, steps = self._training.batch_size, self.steps[clients]
        size = len(clients) if self._training.clients_per_round is None else few_sizes(len(clients))
        filled = np.resize(clients, size)  # filling repeats clients, with no steps to take
        order = np.full((size, power_of_two(int(steps.max())) * batch), -1, np.int32)
        for line, i, count in zip(order, clients, steps, strict=False):
            seed, client, n = self._runs[i // self.n_clients].seed, int(self.ids[i]), len(self._sets[i].y)
            line[: count * batch] = batch_order(seed, number, client, n, int(count), batch)
        broadcast, run = self._training.broadcast, filled // self.n_clients
        sent_to = sent[run[0]] if apart else trees.stack([sent[r] for r in run])
        kind = self._training.optimiser.kind
        train = local_training(
            self._recipe, kind, batch, one_server=apart, one_start=apart and broadcast, pictures=self._pictures
        )
        out = train(
            self._base,
            self._bank,
            self._shapes[run[0]],
            self.frozen,
            self._client_batch(filled),
            order,
            np.append(steps, np.zeros(size - len(clients), steps.dtype)).astype(np.int32),
            np.int32(steps.max()),
            sent_to["params"] if broadcast else trees.take(heads, filled),
            sent_to,
            trees.take(states, filled),
            self._names(TRAIN, number, filled),
            trees.take(self.numbers, run[0] if apart else run),
        )
        messages, states, ends, losses = trees.take(jax.tree.map(np.asarray, out), slice(len(clients)))
        return Done(messages, states, () if broadcast else ends, losses)

    def _client_batch(self, clients: Int) -> ClientBatch:
        sets = [self._sets[i] for i in clients]
        return ClientBatch.of(sets, power_of_two(max(len(s.y) for s in sets)), self._runs[0].n_classes)

    def _names(self, purpose: int, number: int, clients: Int) -> NDArray[np.uint32]:
        """(L, 4): seed, purpose, round and number of each client, from which its random key is folded."""
        seeds = np.array([run.seed for run in self._runs])[clients // self.n_clients]
        return np.stack(np.broadcast_arrays(seeds, purpose, number, self.ids[clients]), axis=1).astype(np.uint32)
