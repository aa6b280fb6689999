"""Have sites make their training sets along the shared shapes, and collect the first messages of a method."""

import jax
import numpy as np

from ggeur.engine import single_client
from ggeur.engine.aggregation import add_prepared
from ggeur.flower.server.agreement import Client
from ggeur.flower.server.roster import Roster
from ggeur.flower.server.round_zero import RoundZero
from ggeur.flower.server.secure_aggregation import SecureAggregation, Sum
from ggeur.flower.wire.ask import Answer, Question
from ggeur.flower.wire.blocks import message_blocks, unweighted
from ggeur.flower.wire.check import check_tree
from ggeur.flower.wire.packing import arrays_to_tree
from ggeur.methods.algorithm import Iterative
from ggeur.stats.errors import GgeurError
from ggeur.stats.types import Tree


class RemoteTrainingSets:
    """The training sets of the sites of `roster`, laid out by `round_zero` for `trained` with batches of `batch`.

    `aggregation`, if given, adds first messages by secure aggregation.
    """

    def __init__(
        self,
        roster: Roster,
        round_zero: RoundZero,
        trained: Iterative,
        batch: int,
        aggregation: SecureAggregation | None = None,
    ) -> None:
        self._aggregation = aggregation
        self.roster, self.round_zero, self._method = roster, round_zero, trained.method
        agreement = round_zero.agreement
        self._zero = single_client.zero_preparation(trained, batch, agreement.dimension, len(agreement.classes))

    def make(self, number: int) -> dict[int, Tree]:
        """Greet new sites before round `number`, have sites without a set make one, and return their messages."""
        self.roster.meet(number)
        waiting = [client for client in self.roster.present if not client.ready]
        first: dict[int, Tree] = {}
        answers = self.roster.ask(waiting, self._question, self._first_message, number, "no training set: ")
        for client, answer, (samples, message) in answers:
            if samples:
                first[client.index] = message
            client.ready, client.has_constants = True, False
            self.roster.journal("augmented", client=client.index, samples=samples, seconds=round(answer.seconds, 2))
        return first

    def _question(self, client: Client) -> Question:
        arrays = self.round_zero.for_client(client.index)
        return Question("query.augment_site", {"fingerprint": client.hello.fingerprint}, arrays)

    def _first_message(self, client: Client, answer: Answer) -> tuple[int, Tree]:
        """Return how many samples a client has made, and its method's first message."""
        samples = self.round_zero.samples[self.round_zero.place[client.index]]
        if answer.facts.get("samples") != samples:
            raise GgeurError(
                f"it made {answer.facts.get('samples')} samples of what should be {samples}",
                code="message-training-set-size",
            )
        if self._aggregation is not None:
            return samples, ()
        message = arrays_to_tree(answer.arrays, answer.facts.get("prepared", ""))
        if samples:
            check_tree(message, self._zero, "first message")
        return samples, message

    def prepared(self, nodes: int) -> Tree:
        """Return the total of the first messages as the method defines it, with zeros for nodes that sent none."""
        first = self.make(0)
        if self._aggregation is not None:
            return self._under_masks(self._aggregation) if self._method.prepares else {}
        each = [first.get(k, self._zero) for k in range(nodes)]
        return add_prepared(self._method, jax.tree.map(lambda *leaves: np.stack(leaves), *each))

    def _under_masks(self, aggregation: SecureAggregation) -> Tree:
        adds = self._method.prepared_adds
        blocks = message_blocks(self._zero, adds, "equal")
        total = aggregation.total(Sum("first messages", "prepare", blocks))
        return unweighted(total.arrays, self._zero, adds, len(self.round_zero.clients))[0]
