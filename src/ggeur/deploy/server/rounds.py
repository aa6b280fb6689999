"""The rounds of one cell on real machines: ask, check, aggregate; whoever is away is recorded and used again later.

A site scores the head it is sent before it trains on it, so a round's accuracy is known one round later, and no
site's process starts twice in a round. A site keeps its state under the round's number, and is told which of its rounds
was the last to count: an answer that came too late, or a resumed run, changes nothing.
"""

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from ggeur.core.errors import GgeurError
from ggeur.core.types import Tree
from ggeur.deploy.server.agreement import Client
from ggeur.deploy.server.roster import Roster
from ggeur.deploy.server.round_zero import RoundZero
from ggeur.deploy.server.scores import MOST_TEST_ROWS, Scores, checked_scores
from ggeur.deploy.wire.ask import Answer
from ggeur.deploy.wire.check import Expected
from ggeur.deploy.wire.packing import Arrays, arrays_to_tree, tree_to_arrays
from ggeur.engine import lane
from ggeur.engine.simulate import State
from ggeur.experiment.setup import Setup
from ggeur.federation.start import client_weights
from ggeur.methods.algorithm import Trained

_LARGEST_LOSS = float(np.finfo(np.float32).max)  # sites compute it in float32; a weighted mean of these is finite


class Start(NamedTuple):
    """The server's state before round 1, and the state every client starts with."""

    server: Tree
    client: Tree


class Round(NamedTuple):
    """A round: the new state, the mean local loss, and the scores of the head that it began with."""

    state: State
    loss: float
    scores: list[Scores]
    missing: list[int]


class Rounds:
    """Trains one cell over the sites of a roster."""

    def __init__(
        self, roster: Roster, settled: RoundZero, setup: Setup, seed: int, trained: Trained, start: Start
    ) -> None:
        self.roster, self.settled = roster, settled
        self.seed, self.trained, self.start = seed, trained, start
        self.training = setup.training
        clients = settled.clients
        self.place = {client.index: k for k, client in enumerate(clients)}
        rows = [settled.rows(k) for k in range(len(clients))]
        self.able = np.array([c.index for c, n in zip(clients, rows, strict=True) if n], np.int64)
        weights = client_weights(rows, settled.layout.count.sum(axis=1), setup.settings.train.weights)
        self.weight = {client.index: float(w) for client, w in zip(clients, weights, strict=True)}
        sent = self.trained.method.broadcast(start.server)
        agreement = settled.agreement
        self._expected = Expected.of(
            lane.message_like(
                trained, self.training, agreement.dimension, len(agreement.classes), sent, sent["params"], start.client
            )
        )
        self._remembers = bool(jax.tree.leaves(start.client)) or not self.training.broadcast

    def first_state(self) -> State:
        """State.clients holds, per client, the last of its rounds that counted."""
        return State(0, [self.start.server], np.zeros(len(self.settled.clients), np.int64), ())

    def round(self, state: State, number: int) -> Round:
        """Round `number`, begun from `state`."""
        server, counted = state.servers[0], np.array(state.clients)
        self.prepare_sites(number)
        chosen = set(self.training.participants(self.seed, number, self.able).tolist())
        sent = jax.tree.map(np.asarray, self.trained.method.broadcast(server))
        ready = [client for client in self.roster.present if client.ready]
        for index in sorted(chosen - {client.index for client in ready}):
            self.roster.missing(index, None, number, "it is not connected, or has no training set")

        def question(client: Client) -> tuple[str, dict[str, Any], Arrays]:
            if client.index in chosen:
                return self._training(client, sent, number, int(counted[self.place[client.index]]))
            arrays, shape = tree_to_arrays(sent["params"], "head")
            return "evaluate", {"head": shape}, arrays

        messages: dict[int, Tree] = {}
        losses: dict[int, float] = {}
        scores: list[Scores] = []
        began, work = time.monotonic(), 0.0
        for client, answer in self.roster.ask_clients(ready, question, number):
            try:
                scored = self._scored(client, answer, counted)
                if client.index in chosen:
                    messages[client.index], losses[client.index] = self._message(client, answer)
            except GgeurError as error:
                self.roster.missing(client.index, client.node, number, str(error))
                continue
            work = max(work, _seconds(answer))
            scores.append(scored)
        waited = time.monotonic() - began
        self._require(messages, chosen, number)
        ids = sorted(messages)
        weights = np.array([self.weight[i] for i in ids])
        server = lane.aggregate(self.trained, server, [messages[i] for i in ids], ids, weights, (self.seed, number))
        counted[[self.place[i] for i in ids]] = number
        self.roster.journal("round", round=number, answered=ids, waited=round(waited, 2), slowest=round(work, 2))
        loss = float(np.average([losses[i] for i in ids], weights=weights))
        return Round(State(number, [server], counted, ()), loss, scores, sorted(chosen - set(ids)))

    def _training(self, client: Client, sent: Tree, number: int, since: int) -> tuple[str, dict[str, Any], Arrays]:
        """What a client is sent to train on; what never changes only once, its first state only before it has one."""
        constant = {name: sent[name] for name in self.trained.method.constant}
        arrays, shape = tree_to_arrays({k: v for k, v in sent.items() if k not in constant}, "sent")
        facts: dict[str, Any] = {"sent": shape, "round": number, "since": since, "remembers": self._remembers}
        if not client.has_constants:
            more, facts["constant"] = tree_to_arrays(constant, "constant")
            arrays |= more
        if since == 0 or not self._remembers:
            more, facts["first"] = tree_to_arrays(jax.tree.map(np.asarray, self.start.client), "first")
            arrays |= more
        return "train", facts, arrays

    def _scored(self, client: Client, answer: Answer, counted: NDArray[np.int64]) -> Scores:
        """A client's scores of the head it was sent; a GgeurError says why it does not count in this round."""
        if answer.problem is not None:
            raise GgeurError(answer.problem)
        lacks = answer.facts.get("lacks")
        if lacks == "state":
            counted[self.place[client.index]] = 0
            raise GgeurError("it has lost what it remembered of the last round, and will start anew")
        if lacks is not None:
            client.ready, client.has_constants = lacks == "constant", False
            raise GgeurError("it has lost its training set, and will be sent everything again")
        return checked_scores(answer.facts, self.settled.agreement.domains)

    def _message(self, client: Client, answer: Answer) -> tuple[Tree, float]:
        """What a client trained, and its loss."""
        client.has_constants = True
        message, loss = arrays_to_tree(answer.arrays, answer.facts.get("message", "")), answer.facts.get("loss")
        self._expected.check(message, "message")
        if not isinstance(loss, float) or not abs(loss) <= _LARGEST_LOSS:
            raise GgeurError("its loss is NaN or infinite (a smaller train.rate may help)")
        return message, loss

    def _require(self, messages: Mapping[int, Tree], chosen: set[int], number: int) -> None:
        least = min(self.roster.settings.min_nodes, len(chosen))
        if len(messages) < max(least, 1):
            raise GgeurError(
                f"{len(messages)} of {len(chosen)} sites took part in round {number}, [federate] min_nodes = {least}; "
                "federation.jsonl in the run folder says who was missing and why."
            )

    def prepare_sites(self, number: int) -> dict[int, Tree]:
        """Greet whoever came, and have sites without a training set make theirs; their methods' first messages."""
        self.roster.meet(number)
        agreement = self.settled.agreement
        like = Expected.of(
            lane.zero_preparation(self.trained, self.training.batch, agreement.dimension, len(agreement.classes))
        )
        waiting = [client for client in self.roster.present if not client.ready]
        prepared: dict[int, Tree] = {}

        def question(client: Client) -> tuple[str, dict[str, Any], Arrays]:
            return (
                "query.augment",
                {"fingerprint": client.fingerprint},
                self.settled.for_client(self.place[client.index]),
            )

        for client, answer in self.roster.ask_clients(waiting, question, number):
            rows = self.settled.rows(self.place[client.index])
            try:
                if answer.problem is not None:
                    raise GgeurError(answer.problem)
                if answer.facts.get("rows") != rows:
                    raise GgeurError(f"it made {answer.facts.get('rows')} rows of what should be {rows}")
                message = arrays_to_tree(answer.arrays, answer.facts.get("prepared", ""))
                if rows:
                    like.check(message, "first message")
            except GgeurError as error:
                self.roster.missing(client.index, client.node, number, f"no training set: {error}")
                continue
            if rows:
                prepared[client.index] = message
            client.ready, client.has_constants = True, False
            self.roster.journal("augmented", client=client.index, rows=rows, seconds=round(answer.seconds, 2))
        return prepared

    def evaluate(self, params: Tree, *, last: bool) -> tuple[list[Scores], NDArray[np.int64]]:
        """Every site's scores of a head, and the confusion over all of them; with `last` sites forget the run."""
        self.prepare_sites(self.training.rounds)
        arrays, shape = tree_to_arrays(jax.tree.map(np.asarray, params), "head")
        classes = len(self.settled.agreement.classes)
        scores, confusion = [], np.zeros((classes, classes), np.int64)
        ready = [client for client in self.roster.present if client.ready]
        asked = self.roster.ask_clients(ready, lambda client: ("evaluate", {"head": shape, "last": last}, arrays), 0)
        for client, answer in asked:
            try:
                if answer.problem is not None or "lacks" in answer.facts:
                    raise GgeurError(answer.problem or "it has lost its test rows")
                scored = checked_scores(answer.facts, self.settled.agreement.domains)
                table = answer.arrays.get("confusion", np.zeros(0))
                if table.shape != confusion.shape or table.dtype.kind != "i" or not _are_counts(table):
                    raise GgeurError("its confusion is not a table of counts")
            except GgeurError as error:
                self.roster.missing(client.index, client.node, self.training.rounds, f"not scored: {error}")
                continue
            scores.append(scored)
            confusion += table
        return scores, confusion


def _are_counts(table: NDArray[Any]) -> bool:
    return bool(table.min() >= 0 and table.max() <= MOST_TEST_ROWS)


def _seconds(answer: Answer) -> float:
    """How long a site says it worked; what is no number is no time."""
    given = answer.facts.get("seconds")
    return given if isinstance(given, float) and np.isfinite(given) else 0.0
