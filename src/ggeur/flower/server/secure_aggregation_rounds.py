"""Rounds under secure aggregation: the server sees the total of the sites' updates, and no single one.

All sites of the run take part in every round: a round without one would reveal that site's update.
"""

import time
from typing import Any

import numpy as np

from ggeur.engine import single_client
from ggeur.engine.simulate import State
from ggeur.experiments.setup import Setup
from ggeur.flower.server.agreement import Client
from ggeur.flower.server.rounds import Rounds, ServerRound
from ggeur.flower.server.scores import Scores
from ggeur.flower.server.secure_aggregation import SecureAggregation, Sum
from ggeur.flower.server.training_sets import RemoteTrainingSets
from ggeur.flower.wire.ask import Answer, Question
from ggeur.flower.wire.blocks import message_blocks, unweighted
from ggeur.methods.algorithm import Iterative
from ggeur.stats.errors import GgeurError
from ggeur.stats.types import Tree


class SecureAggregationRounds(Rounds):
    """`Rounds` whose updates are added by the secure `aggregation`."""

    def __init__(
        self,
        sets: RemoteTrainingSets,
        setup: Setup,
        trained: Iterative,
        start: tuple[Tree, Tree],
        seed: int,
        aggregation: SecureAggregation,
    ) -> None:
        super().__init__(sets, setup, trained, start, seed)
        self._aggregation, self._kind = aggregation, setup.settings.train.weights
        if len(self._round_zero.trainable) < len(self._round_zero.clients):
            raise GgeurError(
                "Under secure aggregation every site must have training samples, and one has none.",
                code="secure-aggregation-site-empty",
            )
        aggregation.sites = tuple(client.index for client in self._round_zero.clients)

    def round(self, state: State, number: int) -> ServerRound:
        """Round `number`, begun from `state`."""
        server, counted, adds = state.servers[0], np.array(state.clients), self._trained.method.adds
        ids, sent = [client.index for client in self._round_zero.clients], self._sent(server)
        self._sets.make(number)

        def question(client: Client) -> Question:
            if not client.ready:  # it came back without its set
                self._sets.make(number)
            client.has_constants = False  # all are asked the same, or their masks would not cancel
            return self._training_question(client, sent, number, int(counted.min()))

        def read(client: Client, answer: Answer) -> Scores:
            return self._scores(client, answer, counted)

        began, blocks = time.monotonic(), message_blocks(self._like, adds, self._kind)
        found = self._aggregation.total(Sum(f"messages of round {number}", "train", blocks, question, read, number))
        total, loss = unweighted(found.arrays, self._like, adds, len(ids))
        names: Any = (self._seed, number)
        server = single_client.aggregate_total(self._trained, server, total, ids, self._weights, names)
        counted[:] = number
        waited = round(time.monotonic() - began, 2)
        self._roster.journal("round", round=number, answered=ids, waited=waited)
        return ServerRound(State(number, [server], counted, ()), loss, list(found.said.values()), [])
