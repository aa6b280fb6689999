"""The rounds of one trial on real machines: ask, check, aggregate; absent sites are recorded and return later.

A site scores the head it is sent before it trains on it, so a round's accuracy is known one round later, and no
site's process starts twice in a round. A site keeps its state under the round's number, and is told which of its
rounds counted last. So a late answer or a resumed run changes nothing.
"""

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from ggeur.engine import single_client
from ggeur.engine.aggregation import frozen, shown
from ggeur.engine.simulate import State
from ggeur.experiments.setup import Setup
from ggeur.federation.start import client_weights
from ggeur.flower.server.agreement import Client
from ggeur.flower.server.scores import LastScores, Scores, checked_scores, last_scores
from ggeur.flower.server.training_sets import RemoteTrainingSets
from ggeur.flower.wire.ask import Answer, Question
from ggeur.flower.wire.check import check_tree
from ggeur.flower.wire.packing import Arrays, arrays_to_tree, tree_to_arrays
from ggeur.heads.head import Params
from ggeur.methods.algorithm import Iterative
from ggeur.stats.errors import GgeurError
from ggeur.stats.types import Int, Tree
from ggeur.stats.units import Units

_LARGEST_LOSS = float(np.finfo(np.float32).max)  # sites compute it in float32; a weighted mean of these is finite


class ServerRound(NamedTuple):
    """The result of a round: the new state, the mean local loss, and the scores of the head that it began with."""

    state: State
    loss: float
    scores: list[Scores]
    missing: list[int]


class Rounds:
    """Train one trial on the sites' `sets` by the method `trained` and the `setup`; `seed` is the run's.

    It begins from `start`: the server's state before round 1, and the state that every client starts with.
    """

    def __init__(
        self, sets: RemoteTrainingSets, setup: Setup, trained: Iterative, start: tuple[Tree, Tree], seed: int
    ) -> None:
        self._roster, self._round_zero, self._sets = sets.roster, sets.round_zero, sets
        self._trained, self._training, self._seed = trained, setup.training, seed
        self._server, self._client = start
        self._frozen, self._own_head = frozen(trained), setup.method_head
        round_zero, agreement = sets.round_zero, sets.round_zero.agreement
        originals, weights = round_zero.layout.count.sum(axis=1), setup.settings.train.weights
        self._weights = client_weights(round_zero.samples, originals, weights)
        sent = trained.method.broadcast(self._server)
        self._like = single_client.message_like(
            trained, setup.training, agreement.dimension, len(agreement.classes), sent, sent["params"], self._client
        )
        self._remembers = bool(jax.tree.leaves(self._client)) or not setup.training.broadcast

    @property
    def first_state(self) -> State:
        """Return the first state; State.clients holds, per client, its last round that counted."""
        return State(0, [self._server], np.zeros(len(self._round_zero.clients), np.int64), ())

    @property
    def units(self) -> Units | None:
        """Return the units of the head's samples, None for those of the encoder."""
        return self._round_zero.units

    def head(self, state: State) -> Params:
        """Return the global head in `state`."""
        sent = self._trained.method.broadcast(state.servers[0])
        return jax.tree.map(np.asarray, shown(self._trained, sent, self._frozen))

    def _scoring(self, head: Params, **facts: Any) -> Question:
        """Return the question to a site that only scores `head`."""
        arrays, shape = tree_to_arrays(head, "head")
        return Question("evaluate", {"head": shape, "kind": self._own_head, **facts}, arrays)

    def round(self, state: State, number: int) -> ServerRound:
        """Run round `number` from `state`."""
        roster, place = self._roster, self._round_zero.place
        server, counted = state.servers[0], np.array(state.clients)
        self._sets.make(number)
        chosen = set(self._training.participants(self._seed, number, self._round_zero.trainable).tolist())
        sent = self._sent(server)
        ready = [client for client in roster.present if client.ready]
        head = self.head(state) if any(client.index not in chosen for client in ready) else None
        for index in sorted(chosen - {client.index for client in ready}):
            roster.missing(roster.clients[index], number, "it is not connected, or has no training set")

        def question(client: Client) -> Question:
            if client.index in chosen:
                return self._training_question(client, sent, number, int(counted[place[client.index]]))
            return self._scoring(head)

        def read(client: Client, answer: Answer) -> tuple[Scores, tuple[Tree, float] | None]:
            scores = self._scores(client, answer, counted)
            return scores, self._message(client, answer) if client.index in chosen else None

        messages: dict[int, tuple[Tree, float]] = {}
        scores: list[Scores] = []
        began, slowest = time.monotonic(), 0.0
        for client, answer, (scored, message) in roster.ask(ready, question, read, number):
            scores.append(scored)
            slowest = max(slowest, _seconds(answer))
            if message is not None:
                messages[client.index] = message
        waited = time.monotonic() - began
        here = f"{len(messages)} of {len(chosen)} sites took part in round {number}"
        roster.require(len(messages), len(chosen), here)
        ids = sorted(messages)
        places = [place[i] for i in ids]
        trees, losses = zip(*(messages[i] for i in ids), strict=True)
        weights = self._weights[places]
        server = single_client.aggregate(self._trained, server, list(trees), ids, weights, (self._seed, number))
        counted[places] = number
        roster.journal("round", round=number, answered=ids, waited=round(waited, 2), slowest=round(slowest, 2))
        loss = float(np.average(losses, weights=weights))
        return ServerRound(State(number, [server], counted, ()), loss, scores, sorted(chosen - set(ids)))

    def _sent(self, server: Tree) -> Mapping[str, Tree]:
        """Return what the server, in that state, sends to every client."""
        return jax.tree.map(np.asarray, self._trained.method.broadcast(server))

    def _training_question(self, client: Client, sent: Mapping[str, Tree], number: int, since: int) -> Question:
        """Return a client's question to train; constant inputs are sent once, a first state only before it has one."""
        constant = {name: sent[name] for name in self._trained.method.constant}
        parts: dict[str, Tree] = {"sent": {k: v for k, v in sent.items() if k not in constant}}
        if not client.has_constants:
            parts["constant"] = constant
        if since == 0 or not self._remembers:
            parts["first"] = jax.tree.map(np.asarray, self._client)
        facts: dict[str, Any] = {"round": number, "since": since, "remembers": self._remembers}
        arrays: Arrays = {}
        for name, part in parts.items():
            leaves, facts[name] = tree_to_arrays(part, name)
            arrays |= leaves
        return Question("train", facts, arrays)

    def _scores(self, client: Client, answer: Answer, counted: Int) -> Scores:
        """Return a client's scores of the head it was sent; raise GgeurError where it does not count in this round."""
        lacks = answer.facts.get("lacks")
        if lacks == "state":
            counted[self._round_zero.place[client.index]] = 0
            raise GgeurError("it has lost its state of the last round, and will start again", code="message-state-lost")
        if lacks is not None:
            client.ready, client.has_constants = lacks == "constant", False
            raise GgeurError(
                "it has lost its training set, and will be sent everything again", code="message-training-set-lost"
            )
        return checked_scores(answer.facts, self._round_zero.agreement.domains)

    def _message(self, client: Client, answer: Answer) -> tuple[Tree, float]:
        """Return a client's update and its loss."""
        client.has_constants = True
        message, loss = arrays_to_tree(answer.arrays, answer.facts.get("message", "")), answer.facts.get("loss")
        check_tree(message, self._like, "message")
        if not isinstance(loss, float) or not abs(loss) <= _LARGEST_LOSS:
            raise GgeurError(
                "its loss is NaN or infinite (a smaller train.learning_rate may help)", code="message-loss-not-finite"
            )
        return message, loss

    def evaluate_last(self, head: Params) -> LastScores:
        """Return every site's scores of `head`; the sites then delete the run's files."""
        rounds = self._training.rounds
        self._sets.make(rounds)
        ready = [client for client in self._roster.present if client.ready]
        question = self._scoring(head, last=True)
        return last_scores(self._roster, ready, question, self._round_zero.agreement, rounds)


def _seconds(answer: Answer) -> float:
    """Return the seconds that a site reports; 0 where that is no number."""
    given = answer.facts.get("seconds")
    return given if isinstance(given, float) and np.isfinite(given) else 0.0
