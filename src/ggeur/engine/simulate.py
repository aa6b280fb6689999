"""The whole federation in one process, round by round, compiled by JAX.

Clients (of all stacked runs) are grouped by their number of steps, so that at most a third of a group's work is
idle; groups run side by side on two threads. What a client computes does not depend on its group: its batches, keys
and weights are functions of seed, round and client.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ggeur.core.errors import GgeurError
from ggeur.core.seeding import generator, stream
from ggeur.engine.federation import Run, few_sizes, stack_runs
from ggeur.engine.local import (
    Lanes,
    LocalOptimiser,
    aggregation,
    batch_order,
    local_training,
    power_of_two,
    preparation,
    steps_per_epoch,
)
from ggeur.methods.method import Method, Tree

Int = NDArray[np.int64]
_ORDER_BYTES = 64 * 2**20  # of batch orders, and what they pick, in one compiled call
_BATCH_BYTES = 2**20  # of the rows that one step forms in one compiled call: about what a core's cache holds
_CALL_STEPS = 128  # that a compiled call should at least be worth
_THREADS = 2  # fixed, not the machine's count, so that grouping, and with it rounding, is the same everywhere


@dataclass(frozen=True)
class Training:
    """[train], as far as the engine is concerned."""

    rounds: int
    batch: int
    rate: float
    local_epochs: int = 10
    local_steps: int | None = None
    optimiser: LocalOptimiser = field(default_factory=LocalOptimiser)
    clients_per_round: int | None = None
    broadcast: bool = True
    storage: str = "float32"  # of embeddings and noise, or "float16"; arithmetic is float32

    def steps(self, n: int) -> int:
        """Local steps in a round of a client with n rows."""
        if n == 0:
            return 0
        return self.local_steps or self.local_epochs * steps_per_epoch(n, self.batch)


class State(NamedTuple):
    """All that a stack carries from round to round."""

    round: int
    servers: list[Tree]  # one per run
    clients: Tree  # stacked over lanes, run * K + client
    own: Tree  # (lanes, ...): heads that clients keep where nothing is broadcast, else ()


class Round(NamedTuple):
    """What the caller sees of a round: per run the global head, the mean local loss and who took part."""

    state: State
    params: list[Tree]
    loss: list[float]
    participants: list[Int]
    bytes_up: list[int]  # per run, of a client's messages this round, on average over those with samples
    bytes_down: list[int]


class _Chunk(NamedTuple):
    lanes: Int  # the lanes that really take part; filling comes after them
    messages: Tree
    clients: Tree
    ends: Tree
    losses: NDArray[Any]


class Simulation:
    """A stack of runs of one method, ready to train; iterate over `rounds`."""

    def __init__(self, runs: Sequence[Run], method: Method, training: Training) -> None:
        self.runs, self.method, self.training = runs, method, training
        self.n_clients = len(runs[0].sets)
        for run in runs:
            if len(run.sets) != self.n_clients:
                raise GgeurError("Runs of one stack must have the same number of clients.")
            if not any(len(s.y) for s in run.sets):
                raise GgeurError(f"The federation has no training samples at all (seed {run.seed}).")
        stack = stack_runs(runs, training.storage)
        self._base = jnp.asarray(stack.base)
        self._dtype = jnp.promote_types(self._base.dtype, jnp.float32)
        self._bank = None if stack.bank is None else jnp.asarray(stack.bank)
        self._sets = [s for run in stack.sets for s in run]
        self._steps = np.array([training.steps(len(s.y)) for s in self._sets])
        self._prepared_bytes = 0  # of a client's message before round 1
        self._train = local_training(
            method,
            training.optimiser,
            training.batch,
            one_server=len(runs) == 1,
            one_start=len(runs) == 1 and training.broadcast,
        )

    def start(self) -> State:
        """The state before round 1."""
        prepared = self._prepare()
        self._prepared_bytes = _bytes(prepared) // len(self._sets)
        servers, clients = [], []
        for r, run in enumerate(self.runs):
            own = slice(r * self.n_clients, (r + 1) * self.n_clients)
            able = int(np.count_nonzero(self._steps[own]))  # clients without samples never take part
            server, client = self.method.init(run.params, _take(prepared, own), able)
            servers.append(server)
            clients.append(jax.tree.map(lambda a: np.broadcast_to(a, (self.n_clients, *np.shape(a))), client))
        own_heads = () if self.training.broadcast else _concatenate([run.own_params for run in self.runs])
        return State(0, servers, _concatenate(clients), own_heads)

    def rounds(self, state: State | None = None) -> Iterator[Round]:
        """Train from `state` (default: the start) to the last round."""
        state = self.start() if state is None else state
        with ThreadPoolExecutor(_THREADS) as pool:
            while state.round < self.training.rounds:
                result = self._round(state, pool)
                yield result
                state = result.state

    def heads(self, state: State) -> list[Tree]:
        """The global head of every run."""
        return [self.method.broadcast(server)["params"] for server in state.servers]

    def _round(self, state: State, pool: ThreadPoolExecutor) -> Round:
        number = state.round + 1
        sent = [self.method.broadcast(server) for server in state.servers]
        every = sent[0] if len(sent) == 1 else jax.tree.map(lambda *a: np.stack(a), *sent)
        chosen = [self._participants(r, number) for r in range(len(self.runs))]
        active = np.concatenate([r * self.n_clients + ids for r, ids in enumerate(chosen)])
        work = pool.map(lambda lanes: self._chunk(lanes, number, state, every), self._chunks(active))
        done = _join(list(work))
        servers, losses = [], []
        ends = np.cumsum([len(ids) for ids in chosen])
        for r, (ids, end) in enumerate(zip(chosen, ends, strict=True)):
            at = slice(end - len(ids), end)
            weights = self.runs[r].weights[ids]
            weights = weights / weights.sum()
            names = np.array([self.runs[r].seed, stream("aggregate"), number], np.uint32)
            servers.append(
                aggregation(self.method)(
                    state.servers[r], _take(done.messages, at), ids, jnp.asarray(weights, self._dtype), names
                )
            )
            losses.append(float(np.sum(weights * done.losses[at])))
        new = State(
            number,
            servers,
            _put(state.clients, done.lanes, done.clients),
            () if self.training.broadcast else _put(state.own, done.lanes, done.ends),
        )
        up, down = self._traffic(number, sent[0], _bytes(done.messages) // len(done.lanes), chosen)
        return Round(new, self.heads(new), losses, chosen, up, down)

    def _traffic(
        self, number: int, sent: dict[str, Tree], message: int, chosen: list[Int]
    ) -> tuple[list[int], list[int]]:
        """Bytes up and down of a round, per run and client; what never changes travels with the first."""
        once = _bytes([sent[name] for name in self.method.constant])
        down = _bytes(sent) - once if self.training.broadcast else 0
        first = number == 1
        able = np.count_nonzero(self._steps.reshape(len(self.runs), -1), axis=1)
        share = [len(ids) / n for ids, n in zip(chosen, able, strict=True)]
        return (
            [int(message * s) + first * self._prepared_bytes for s in share],
            [int(down * s) + first * once for s in share],
        )

    def _participants(self, r: int, number: int) -> Int:
        """Who trains this round; a client without samples sits out."""
        able = np.flatnonzero(self._steps[r * self.n_clients : (r + 1) * self.n_clients])
        wanted = self.training.clients_per_round
        if wanted is None or wanted >= len(able):
            return able
        rng = generator(self.runs[r].seed, "participants", number)
        return np.sort(rng.choice(able, wanted, replace=False))

    def _chunks(self, active: Int) -> list[Int]:
        """Lanes that run together, the busiest first; at least two chunks, for two threads, where there are two."""
        chunks: list[Int] = []
        for lanes in _alike(active, self._steps[active]):
            longest = int(self._steps[lanes[0]])
            order_bytes = 16 * self.training.batch * power_of_two(longest)
            batch_bytes = 4 * self.training.batch * self._base.shape[1]
            in_cache = max(4, _BATCH_BYTES // batch_bytes)
            room = max(1, min(_ORDER_BYTES // order_bytes, max(in_cache, _CALL_STEPS // longest)))
            pieces = max(-(-len(lanes) // room), min(_THREADS, len(lanes)))
            chunks += [lanes[i::pieces] for i in range(pieces)]  # dealt in turn, so that pieces are alike
        return chunks

    def _chunk(self, lanes: Int, number: int, state: State, sent: Tree) -> _Chunk:
        """Train these lanes. Sizes are rounded up where they vary by round, so that few programs are compiled."""
        batch, steps = self.training.batch, self._steps[lanes]
        size = len(lanes) if self.training.clients_per_round is None else few_sizes(len(lanes))
        filled = np.resize(lanes, size)  # filling repeats lanes, with no steps to take
        order = np.full((size, power_of_two(int(steps.max())) * batch), -1, np.int32)
        for line, lane, count in zip(order, lanes, steps, strict=False):
            r, k = divmod(int(lane), self.n_clients)
            n = len(self._sets[lane].y)
            line[: count * batch] = batch_order(self.runs[r].seed, number, k, n, int(count), batch)
        broadcast, alone = self.training.broadcast, len(self.runs) == 1
        own_sent = sent if alone else _take(sent, filled // self.n_clients)
        start = own_sent["params"] if broadcast else _take(state.own, filled)
        out = self._train(
            self._base,
            self._bank,
            self._lane_data(filled),
            order,
            np.append(steps, np.zeros(size - len(lanes), steps.dtype)).astype(np.int32),
            np.int32(steps.max()),
            start,
            own_sent,
            _take(state.clients, filled),
            self._names("train", number, filled),
            jnp.asarray(self.training.rate, self._dtype),
        )
        messages, clients, ends, losses = _take(jax.tree.map(np.asarray, out), slice(len(lanes)))
        return _Chunk(lanes, messages, clients, () if broadcast else ends, losses)

    def _lane_data(self, lanes: Int) -> Lanes:
        sets = [self._sets[i] for i in lanes]
        return Lanes.of(sets, power_of_two(max(len(s.y) for s in sets)), self.runs[0].n_classes)

    def _prepare(self) -> Tree:
        """Every client's message before round 1, stacked over lanes; zeros from a client without samples."""
        if self.method.prepare is Method._field_defaults["prepare"]:
            return ()
        run = preparation(self.method, self.training.batch)
        chunks = []
        for lanes in self._chunks(np.flatnonzero(self._steps)):
            out = run(self._base, self._bank, self._lane_data(lanes), self._names("prepare", 0, lanes))
            chunks.append((lanes, jax.tree.map(np.asarray, out)))
        whole = jax.tree.map(lambda a: np.zeros((len(self._sets), *a.shape[1:]), a.dtype), chunks[0][1])
        for lanes, out in chunks:
            whole = _put(whole, lanes, out)
        return whole

    def _names(self, purpose: str, number: int, lanes: Int) -> NDArray[np.uint32]:
        """(L, 4): seed, purpose, round and client of each lane, from which its random key is folded."""
        seeds = np.array([run.seed for run in self.runs])[lanes // self.n_clients]
        names = np.empty((len(lanes), 4), np.uint32)
        names[:] = np.stack(np.broadcast_arrays(seeds, stream(purpose), number, lanes % self.n_clients), axis=1)
        return names


def _alike(lanes: Int, steps: Int) -> Iterator[Int]:
    """Groups in which at most a third of (lanes x longest) is idle, the busiest first."""
    order = np.argsort(-steps, kind="stable")
    lanes, steps = lanes[order], steps[order]
    while len(lanes):
        padded = steps[0] * np.arange(1, len(lanes) + 1)
        fits = int(np.argmax(np.append(padded > 1.5 * np.cumsum(steps), True)))
        yield lanes[:fits]
        lanes, steps = lanes[fits:], steps[fits:]


def _join(chunks: list[_Chunk]) -> _Chunk:
    """All chunks of a round as one, in the order of lanes; each array is copied once, as there may be many clients."""
    lanes = np.sort(np.concatenate([c.lanes for c in chunks]))
    at = [np.searchsorted(lanes, c.lanes) for c in chunks]

    def laid(*pieces: NDArray[Any]) -> NDArray[Any]:
        whole = np.empty((len(lanes), *pieces[0].shape[1:]), pieces[0].dtype)
        for piece, place in zip(pieces, at, strict=True):
            whole[place] = piece
        return whole

    return _Chunk(lanes, *jax.tree.map(laid, *(c[1:] for c in chunks)))


def _take(tree: Tree, at: Any) -> Tree:
    return jax.tree.map(lambda a: a[at], tree)


def _concatenate(trees: Sequence[Tree]) -> Tree:
    return jax.tree.map(lambda *a: np.concatenate(a), *trees)


def _bytes(tree: Tree) -> int:
    return sum(int(leaf.nbytes) for leaf in jax.tree.leaves(tree))


def _put(tree: Tree, at: Int, values: Tree) -> Tree:
    def put(old: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
        changed = np.array(old)
        changed[at] = new
        return changed

    return jax.tree.map(put, tree, values)
