"""Accuracy as the sites report it: totals of right answers and samples by domain, as in the simulation.

It arrives one round late: a site scores the head it is sent before it trains on it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ggeur.data.table import EmbeddingTable
from ggeur.experiments.setup import Setup
from ggeur.experiments.tracker import Tracker
from ggeur.experiments.trial_data import in_ball, in_units
from ggeur.federation.evaluation import TestSet, mean_accuracy
from ggeur.flower.server.agreement import Agreement, Client
from ggeur.flower.server.roster import Roster
from ggeur.flower.site.data import relabel
from ggeur.flower.wire.ask import Answer, Question
from ggeur.heads.head import Head, Params
from ggeur.stats.errors import GgeurError
from ggeur.stats.types import Int
from ggeur.stats.units import Units

Scores = dict[str, tuple[int, int]]
MOST_TEST_ROWS = 10**12


def checked_scores(facts: Mapping[str, Any], domains: Sequence[str]) -> Scores:
    """Return the scores in a site's `facts` on some of the `domains`; raise GgeurError with half a sentence."""
    given = facts.get("scores")
    if not isinstance(given, dict) or not given.keys() <= set(domains):
        raise GgeurError("its scores are not of the federation's domains", code="message-scores-domains")
    scores = {}
    for name, pair in given.items():
        whole = isinstance(pair, list) and len(pair) == 2 and all(type(n) is int for n in pair)
        if not whole or not 0 <= pair[0] <= pair[1] <= MOST_TEST_ROWS or pair[1] == 0:
            raise GgeurError("its scores are not numbers of right answers and samples", code="message-scores-invalid")
        scores[name] = (pair[0], pair[1])
    return scores


class LastScores(NamedTuple):
    """Every site's scores of a head, by its index, and the confusion matrix over all sites."""

    scores: dict[int, Scores]
    confusion: Int


def last_scores(
    roster: Roster, clients: Sequence[Client], question: Question, agreement: Agreement, number: int
) -> LastScores:
    """Return the scores by `clients` of the last head, which `question` holds, after round `number`."""
    confusion = np.zeros((len(agreement.classes), len(agreement.classes)), np.int64)

    def read(client: Client, answer: Answer) -> tuple[Scores, NDArray[Any]]:
        if "lacks" in answer.facts:
            raise GgeurError("it has lost its test samples", code="message-test-samples-lost")
        scores = checked_scores(answer.facts, agreement.domains)
        table = answer.arrays.get("confusion", np.zeros(0))
        counts = table.shape == confusion.shape and table.dtype.kind == "i"
        if not counts or table.min() < 0 or table.max() > MOST_TEST_ROWS:
            raise GgeurError("its confusion is not a table of counts", code="message-confusion-invalid")
        return scores, table

    scores = {}
    for client, _, (scored, table) in roster.ask(clients, lambda client: question, read, number, "not scored: "):
        scores[client.index] = scored
        confusion += table
    return LastScores(scores, confusion)


def accuracy(sites: Sequence[Scores], domains: Sequence[str]) -> dict[str, float]:
    """Return the percentage right in each of `domains`, over all `sites` that answered and have test samples of it."""
    total = {name: np.sum([s[name] for s in sites if name in s], axis=0) for name in domains}
    return {name: 100 * float(n[0] / n[1]) for name, n in total.items() if np.ndim(n)}


class LateScores:
    """Pass scores to `tracker`: `expect` those of a head after its round, `add` them when they have come.

    `setup` is the method's, `agreement` has the domains, `units` are those of the samples, and `head` is the head's
    type.
    """

    def __init__(
        self, tracker: Tracker, setup: Setup, agreement: Agreement, units: Units | None, head: Head | None = None
    ) -> None:
        self._tracker, self._setup, self._agreement, self._units = tracker, setup, agreement, units
        self._head: tuple[Params, float, Sequence[int]] | None = None  # its round's loss and missing clients
        self._server = self._server_table(head or setup.head)

    def _server_table(self, head: Head) -> TestSet | None:
        path = self._setup.settings.federate.test_table
        if path is None:
            return None
        table, dimension = EmbeddingTable.load(path).split(self._tracker.seed), self._agreement.dimension
        ball = self._setup.settings.privacy.ball
        table = table if ball is None else in_ball(table, ball)
        if table.dimension != dimension:
            raise GgeurError(
                f"{path} has {table.dimension} dimensions, the sites' tables {dimension}: use one encoder.",
                code="embeddings-dimension-mismatch",
            )
        table = table if self._units is None else in_units(table, self._units)
        return TestSet(relabel(table, self._agreement.classes, table.domain_names), head)

    def expect(self, head: Params, loss: float, missing: Sequence[int] = ()) -> None:
        """Expect the scores of `head`, from a round with this mean `loss` and without the clients `missing`."""
        self._head = (head, loss, missing)

    def add(self, sites: Sequence[Scores], number: int) -> None:
        """Add the scores by `sites` of the head after round `number`."""
        domains = accuracy(sites, self._agreement.domains)
        if self._head is None:
            if domains and self._setup.start is not None:
                self._tracker.trial.start_avg = mean_accuracy(domains)
            return
        (head, loss, missing), self._head = self._head, None
        if self._tracker.trial.status != "ok":
            return
        server = None if self._server is None else self._server.accuracy(head)
        more = ({"missing": list(missing)} if missing else {}) | ({} if server is None else {"server": server})
        self._tracker.score(number, domains or server or {}, loss, **more)
