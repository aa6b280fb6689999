"""Scores that come one round late: a site scores the head it is sent before it trains on it."""

from collections.abc import Sequence

from ggeur.core.errors import GgeurError
from ggeur.data.table import EmbeddingTable
from ggeur.deploy.server.agreement import Agreement
from ggeur.deploy.server.scores import Scores, accuracy
from ggeur.deploy.site.data import relabelled
from ggeur.experiment.evaluation import TestSet, mean_accuracy
from ggeur.experiment.setup import Setup
from ggeur.experiment.tracker import Tracker
from ggeur.heads.head import Params


class LateScores:
    """Follows one cell: `trained` after a round, `scored` when its head's scores have come."""

    def __init__(self, tracker: Tracker, setup: Setup, agreement: Agreement) -> None:
        self.tracker, self._setup, self._agreement = tracker, setup, agreement
        self._waiting: tuple[Params, float, list[int]] | None = None  # a head, its round's loss, and who was missing
        self._server = self._server_table()

    def _server_table(self) -> TestSet | None:
        path = self._setup.settings.federate.test_table
        if path is None:
            return None
        table, dimension = EmbeddingTable.load(path).split(self.tracker.seed), self._agreement.dimension
        if table.dimension != dimension:
            raise GgeurError(
                f"{path} has {table.dimension} dimensions, the sites' tables {dimension}: use one encoder."
            )
        return TestSet(relabelled(table, self._agreement.classes, table.domain_names), self._setup.head)

    def trained(self, number: int, head: Params, loss: float, missing: Sequence[int]) -> None:
        """After a round's aggregation; its scores come later."""
        self.tracker.trained(number, [head], loss, missing)
        self._waiting = (head, loss, list(missing))

    def resumed(self, head: Params, loss: float) -> None:
        """Where an earlier process stopped: that round is counted, its scores are still to come."""
        self._waiting = (head, loss, [])

    def scored(self, sites: Sequence[Scores], number: int) -> None:
        """The sites' scores of the head after round `number`."""
        domains = accuracy(sites, self._agreement.domains)
        cell = self.tracker.cell
        if self._waiting is None:
            if domains and self._setup.start is not None:
                cell.start_avg = mean_accuracy(domains)
            return
        head, loss, missing = self._waiting
        self._waiting = None
        if cell.status != "ok":
            return
        server = None if self._server is None else self._server.accuracy(head)
        more = ({"missing": missing} if missing else {}) | ({} if server is None else {"server": server})
        self.tracker.score(number, domains or server or {}, loss, **more)
