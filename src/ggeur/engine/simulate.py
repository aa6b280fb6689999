"""The whole federation in one process, round by round, compiled by JAX.

A stack is several runs (seeds, and points of a grid that one program serves) whose clients, the lanes, train side by
side. What a client computes does not depend on what it runs beside: its batches, keys and weights are functions of
seed, round and client.
"""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ggeur.core.errors import GgeurError
from ggeur.core.seeding import AGGREGATE, PREPARE, TRAIN
from ggeur.core.threads import THREADS
from ggeur.core.types import Int, Tree
from ggeur.engine import trees
from ggeur.engine.chunks import Chunks
from ggeur.engine.local import Lanes, aggregation, batch_order, local_training, power_of_two, preparation
from ggeur.engine.messages import add_prepared
from ggeur.engine.own_head import frozen, heavy, shown
from ggeur.engine.stack import Run, few_sizes, stack_runs
from ggeur.engine.training import Training
from ggeur.methods.algorithm import Trained

_SENT_BYTES = 2**18  # by a server, past which it is not copied for every client


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
    seconds: float = 0.0  # that training and aggregation took; in the first rounds they compile


class _Done(NamedTuple):
    """What some lanes have made of a round."""

    messages: Tree
    clients: Tree
    ends: Tree
    losses: NDArray[Any]


class Simulation:
    """A stack of `runs`, ready to train; iterate over `rounds`.

    The method `trained` and `training` are one for all runs, or one for each, which may then differ in numbers such as
    rates.
    """

    def __init__(
        self, runs: Sequence[Run], trained: Trained | Sequence[Trained], training: Training | Sequence[Training]
    ) -> None:
        self.runs = runs
        each_trained = [trained] * len(runs) if isinstance(trained, Trained) else list(trained)
        self._trained, self._methods = each_trained, [one.method for one in each_trained]
        trainings = [training] * len(runs) if isinstance(training, Training) else list(training)
        self.training, self.n_clients, self._recipe = trainings[0], len(runs[0].sets), each_trained[0].recipe
        self._check(trainings, each_trained)
        stack = stack_runs(runs, self.training.storage)
        self._base, self._bank = jax.tree.map(jnp.asarray, (stack.base, stack.bank))
        self._shapes = [jax.tree.map(jnp.asarray, run.shapes) for run in runs]
        self._dtype = jnp.promote_types(self._base.dtype, jnp.float32)
        self._sets = [s for run in stack.sets for s in run]
        self._ids = np.concatenate([np.arange(self.n_clients) if run.ids is None else run.ids for run in runs])
        self._steps = np.array([self.training.steps(len(s.y)) for s in self._sets])
        each = [t.numbers(one) for t, one in zip(trainings, each_trained, strict=True)]
        self._numbers = jax.tree.map(lambda *a: np.array(a, self._dtype), *each)  # stacked over runs
        self._prepared_bytes = 0  # of a client's message before round 1
        self._frozen, self._pictures = frozen(each_trained[0]), runs[0].pictures  # one for all, as the recipe is
        alone = heavy(each_trained[0]) or self._pictures is not None
        self._chunks = Chunks(self.training.batch, self._base.shape[1], alone)

    @property
    def local_steps(self) -> list[list[int]]:
        """Of every run, the steps of each client in a round."""
        return self._steps.reshape(len(self.runs), -1).tolist()

    def _check(self, trainings: Sequence[Training], each: Sequence[Trained]) -> None:
        for run in self.runs:
            if len(run.sets) != self.n_clients:
                raise GgeurError("Runs of one stack must have the same number of clients.")
            if run.pictures != self.runs[0].pictures:
                raise GgeurError("Runs of one stack must all train on pictures of one kind, or none.")
            if not any(len(s.y) for s in run.sets):
                raise GgeurError(f"The federation has no training samples at all (seed {run.seed}).")
        if len({t.without_numbers() for t in trainings}) > 1 or any(one.recipe != self._recipe for one in each):
            raise GgeurError("Runs of one stack must train alike, but for numbers such as rates.")

    def start(self) -> State:
        """The state before round 1."""
        prepared = self._prepare()
        self._prepared_bytes = trees.size_in_bytes(prepared) // len(self._sets)
        servers, clients = [], []
        for r, (run, method) in enumerate(zip(self.runs, self._methods, strict=True)):
            own = slice(r * self.n_clients, (r + 1) * self.n_clients)
            total = add_prepared(method, trees.take(prepared, own))
            server, client = method.init(run.params, total, len(self._able(r)))
            servers.append(server)
            clients.append(jax.tree.map(lambda a: np.broadcast_to(a, (self.n_clients, *np.shape(a))), client))
        own_heads = () if self.training.broadcast else trees.concatenate([run.own_params for run in self.runs])
        return State(0, servers, trees.concatenate(clients), own_heads)

    def rounds(self, state: State | None = None) -> Iterator[Round]:
        """Train from `state` (by default the start) to the last round."""
        state = self.start() if state is None else state
        with ThreadPoolExecutor(THREADS) as pool:
            while state.round < self.training.rounds:
                began = time.perf_counter()
                result = self._round(state, pool)
                yield result._replace(seconds=time.perf_counter() - began)
                state = result.state

    def heads(self, state: State) -> list[Tree]:
        """The global head of every run, as of `state`."""
        return [shown(one, sent, self._frozen) for one, sent in zip(self._trained, self._sent(state), strict=True)]

    def _sent(self, state: State) -> list[dict[str, Tree]]:
        return [method.broadcast(server) for method, server in zip(self._methods, state.servers, strict=True)]

    def _able(self, r: int) -> Int:
        """The clients of a run that have samples; the others never take part."""
        return np.flatnonzero(self._steps[r * self.n_clients : (r + 1) * self.n_clients])

    def _round(self, state: State, pool: ThreadPoolExecutor) -> Round:
        number = state.round + 1
        sent = self._sent(state)
        chosen = [self.training.participants(run.seed, number, self._able(r)) for r, run in enumerate(self.runs)]
        active = np.concatenate([r * self.n_clients + ids for r, ids in enumerate(chosen)])
        apart = len(sent) == 1 or self._shapes[0] is not None or trees.size_in_bytes(sent[0]) > _SENT_BYTES
        apart = apart or self._chunks.alone
        chunks = self._divided(active, apart=apart)
        work = list(pool.map(lambda lanes: self._chunk(lanes, number, state, sent, apart=apart), chunks))
        done: _Done = trees.scatter(work, [np.searchsorted(active, lanes) for lanes in chunks], len(active))
        servers, losses = [], []
        ends = np.cumsum([len(ids) for ids in chosen])
        for r, (ids, end) in enumerate(zip(chosen, ends, strict=True)):
            at = slice(end - len(ids), end)
            weights = self.runs[r].weights[ids] / self.runs[r].weights[ids].sum()
            servers.append(
                self._aggregate(
                    r, number, state.servers[r], trees.take(done.messages, at), self._ids[active[at]], weights
                )
            )
            losses.append(float(np.sum(weights * done.losses[at])))
        new = State(
            number,
            servers,
            trees.put(state.clients, active, done.clients),
            () if self.training.broadcast else trees.put(state.own, active, done.ends),
        )
        up, down = self._traffic(number, sent[0], trees.size_in_bytes(done.messages) // len(active), chosen)
        return Round(new, self.heads(new), losses, chosen, up, down)

    def _aggregate(self, r: int, number: int, server: Tree, messages: Tree, ids: Int, weights: NDArray[Any]) -> Tree:
        names = np.array([self.runs[r].seed, AGGREGATE, number], np.uint32)
        numbers = trees.take(self._numbers.method, r)
        return aggregation(self._recipe)(server, messages, ids, weights.astype(self._dtype), names, numbers)

    def _traffic(
        self, number: int, sent: dict[str, Tree], message: int, chosen: list[Int]
    ) -> tuple[list[int], list[int]]:
        """Bytes up and down of a round, per run and client; what never changes travels with the first."""
        once = trees.size_in_bytes([sent[name] for name in self._methods[0].constant])
        down = trees.size_in_bytes(sent) - once if self.training.broadcast else 0
        first = number == 1
        share = [len(ids) / len(self._able(r)) for r, ids in enumerate(chosen)]
        return (
            [int(message * s) + first * self._prepared_bytes for s in share],
            [int(down * s) + first * once for s in share],
        )

    def _divided(self, active: Int, *, apart: bool) -> list[Int]:
        """Lanes that share a call: of all runs, or `apart`, each of one run, to which alone its server's words go."""
        run = active // self.n_clients
        groups = [active[run == r] for r in range(len(self.runs))] if apart else [active]
        return [lanes for group in groups for lanes in self._chunks.of(group, self._steps[group])]

    def _chunk(self, lanes: Int, number: int, state: State, sent: list[dict[str, Tree]], *, apart: bool) -> _Done:
        """Train these lanes. Sizes are rounded up where they vary by round, so that few programs are compiled."""
        batch, steps = self.training.batch, self._steps[lanes]
        size = len(lanes) if self.training.clients_per_round is None else few_sizes(len(lanes))
        filled = np.resize(lanes, size)  # filling repeats lanes, with no steps to take
        order = np.full((size, power_of_two(int(steps.max())) * batch), -1, np.int32)
        for line, lane, count in zip(order, lanes, steps, strict=False):
            seed, client, n = self.runs[lane // self.n_clients].seed, int(self._ids[lane]), len(self._sets[lane].y)
            line[: count * batch] = batch_order(seed, number, client, n, int(count), batch)
        broadcast, run = self.training.broadcast, filled // self.n_clients
        own_sent = sent[run[0]] if apart else trees.stack([sent[r] for r in run])
        kind = self.training.optimiser.kind
        train = local_training(
            self._recipe, kind, batch, one_server=apart, one_start=apart and broadcast, pictures=self._pictures
        )
        out = train(
            self._base,
            self._bank,
            self._shapes[run[0]],
            self._frozen,
            self._lane_data(filled),
            order,
            np.append(steps, np.zeros(size - len(lanes), steps.dtype)).astype(np.int32),
            np.int32(steps.max()),
            own_sent["params"] if broadcast else trees.take(state.own, filled),
            own_sent,
            trees.take(state.clients, filled),
            self._names(TRAIN, number, filled),
            trees.take(self._numbers, run[0] if apart else run),
        )
        messages, clients, ends, losses = trees.take(jax.tree.map(np.asarray, out), slice(len(lanes)))
        return _Done(messages, clients, () if broadcast else ends, losses)

    def _lane_data(self, lanes: Int) -> Lanes:
        sets = [self._sets[i] for i in lanes]
        return Lanes.of(sets, power_of_two(max(len(s.y) for s in sets)), self.runs[0].n_classes)

    def _prepare(self) -> Tree:
        """Every client's message before round 1, stacked over lanes; zeros from a client without samples."""
        if not self._methods[0].prepares:
            return ()
        run = preparation(self._recipe, self.training.batch)
        able = np.flatnonzero(self._steps)
        chunks = self._chunks.of(able, self._steps[able])
        made = []
        for lanes in chunks:
            numbers = trees.take(self._numbers.method, lanes // self.n_clients)
            out = run(self._base, self._bank, self._lane_data(lanes), self._names(PREPARE, 0, lanes), numbers)
            made.append(jax.tree.map(np.asarray, out))
        whole = jax.tree.map(lambda a: np.zeros((len(self._sets), *a.shape[1:]), a.dtype), made[0])
        for lanes, out in zip(chunks, made, strict=True):
            whole = trees.put(whole, lanes, out)
        return whole

    def _names(self, purpose: int, number: int, lanes: Int) -> NDArray[np.uint32]:
        """(L, 4): seed, purpose, round and client of each lane, from which its random key is folded."""
        seeds = np.array([run.seed for run in self.runs])[lanes // self.n_clients]
        return np.stack(np.broadcast_arrays(seeds, purpose, number, self._ids[lanes]), axis=1).astype(np.uint32)
