"""The whole federation in one process, round by round, compiled by JAX.

A stack is several runs (seeds, and points of a grid that one program serves), whose clients `ClientGroups` trains side
by side. This module holds what goes on between them: who takes part, the servers, and what is sent.
"""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from ggeur.engine import trees
from ggeur.engine.aggregation import add_prepared, aggregation, shown
from ggeur.engine.client_groups import ClientGroups
from ggeur.engine.stack import Run
from ggeur.engine.training import Training
from ggeur.methods.algorithm import Iterative
from ggeur.stats.errors import GgeurError
from ggeur.stats.seeding import AGGREGATE
from ggeur.stats.types import THREADS, Int, Tree


class State(NamedTuple):
    """The state that a stack carries from round to round."""

    round: int
    servers: list[Tree]  # one per run
    clients: Tree  # stacked over all runs: client k of run r is r * K + k
    heads: Tree  # of all clients, which keep them where nothing is broadcast, else ()


class Round(NamedTuple):
    """The public facts of a round: per run the global head, the mean local loss and who took part."""

    state: State
    params: list[Tree]
    loss: list[float]
    participants: list[Int]
    bytes_up: list[int]  # per run, of a client's messages this round, on average over those with samples
    bytes_down: list[int]
    seconds: float = 0.0  # that training and aggregation took; in the first rounds they compile


class Simulation:
    """A stack of `runs`, ready to train; iterate over `rounds`.

    The method `trained` and `training` are one for all runs, or one for each, which may then differ in numbers such as
    learning rates.
    """

    def __init__(
        self, runs: Sequence[Run], trained: Iterative | Sequence[Iterative], training: Training | Sequence[Training]
    ) -> None:
        self.runs = runs
        each_trained = [trained] * len(runs) if isinstance(trained, Iterative) else list(trained)
        self._trained, self._methods = each_trained, [one.method for one in each_trained]
        trainings = [training] * len(runs) if isinstance(training, Training) else list(training)
        self.training, self.n_clients, self._recipe = trainings[0], len(runs[0].sets), each_trained[0].recipe
        self._check(trainings, each_trained)
        self._clients = ClientGroups(runs, each_trained, trainings)
        self._prepared_bytes = 0  # of a client's message before round 1

    @property
    def local_steps(self) -> list[list[int]]:
        """The steps of each client in a round, for every run."""
        return self._clients.steps.reshape(len(self.runs), -1).tolist()

    def _check(self, trainings: Sequence[Training], each: Sequence[Iterative]) -> None:
        for run in self.runs:
            if len(run.sets) != self.n_clients:
                raise GgeurError("Runs of one stack must have the same number of clients.", code="stack-clients-differ")
            if run.pictures != self.runs[0].pictures:
                raise GgeurError(
                    "Runs of one stack must all train on pictures of one kind, or none.", code="stack-images-mixed"
                )
            if not any(len(s.y) for s in run.sets):
                raise GgeurError(
                    f"The federation has no training samples at all (seed {run.seed}).", code="training-samples-missing"
                )
        if len({t.without_numbers() for t in trainings}) > 1 or any(one.recipe != self._recipe for one in each):
            raise GgeurError(
                "Runs of one stack must train alike, but for numbers such as learning rates.",
                code="stack-training-differs",
            )

    def start(self) -> State:
        """The state before round 1."""
        prepared = self._clients.prepared() if self._methods[0].prepares else ()
        self._prepared_bytes = trees.size_in_bytes(prepared) // len(self._clients.steps)
        servers, clients = [], []
        for r, (run, method) in enumerate(zip(self.runs, self._methods, strict=True)):
            of_run = slice(r * self.n_clients, (r + 1) * self.n_clients)
            total = add_prepared(method, trees.take(prepared, of_run))
            server, client = method.init(run.params, total, len(self._clients.able(r)))
            servers.append(server)
            clients.append(jax.tree.map(lambda a: np.broadcast_to(a, (self.n_clients, *np.shape(a))), client))
        heads = () if self.training.broadcast else trees.concatenate([run.client_params for run in self.runs])
        return State(0, servers, trees.concatenate(clients), heads)

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
        return [
            shown(one, sent, self._clients.frozen) for one, sent in zip(self._trained, self._sent(state), strict=True)
        ]

    def _sent(self, state: State) -> list[dict[str, Tree]]:
        return [method.broadcast(server) for method, server in zip(self._methods, state.servers, strict=True)]

    def _round(self, state: State, pool: ThreadPoolExecutor) -> Round:
        number = state.round + 1
        sent = self._sent(state)
        chosen = [
            self.training.participants(run.seed, number, self._clients.able(r)) for r, run in enumerate(self.runs)
        ]
        active = np.concatenate([r * self.n_clients + ids for r, ids in enumerate(chosen)])
        done = self._clients.trained(active, number, sent, state.clients, state.heads, pool)
        servers, losses = [], []
        ends = np.cumsum([len(ids) for ids in chosen])
        for r, (ids, end) in enumerate(zip(chosen, ends, strict=True)):
            at = slice(end - len(ids), end)
            weights = self.runs[r].weights[ids] / self.runs[r].weights[ids].sum()
            servers.append(
                self._aggregate(
                    r, number, state.servers[r], trees.take(done.messages, at), self._clients.ids[active[at]], weights
                )
            )
            losses.append(float(np.sum(weights * done.losses[at])))
        new = State(
            number,
            servers,
            trees.put(state.clients, active, done.states),
            () if self.training.broadcast else trees.put(state.heads, active, done.ends),
        )
        up, down = self._traffic(number, sent[0], trees.size_in_bytes(done.messages) // len(active), chosen)
        return Round(new, self.heads(new), losses, chosen, up, down)

    def _aggregate(self, r: int, number: int, server: Tree, messages: Tree, ids: Int, weights: NDArray[Any]) -> Tree:
        names = np.array([self.runs[r].seed, AGGREGATE, number], np.uint32)
        numbers = trees.take(self._clients.numbers.method, r)
        return aggregation(self._recipe)(server, messages, ids, weights.astype(self._clients.dtype), names, numbers)

    def _traffic(
        self, number: int, sent: dict[str, Tree], message: int, chosen: list[Int]
    ) -> tuple[list[int], list[int]]:
        """Bytes up and down of a round, per run and client; what never changes travels with the first."""
        once = trees.size_in_bytes([sent[name] for name in self._methods[0].constant])
        down = trees.size_in_bytes(sent) - once if self.training.broadcast else 0
        first = number == 1
        share = [len(ids) / len(self._clients.able(r)) for r, ids in enumerate(chosen)]
        return (
            [int(message * s) + first * self._prepared_bytes for s in share],
            [int(down * s) + first * once for s in share],
        )
