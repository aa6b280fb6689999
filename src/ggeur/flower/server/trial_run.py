"""One trial of an experiment on real machines: what iterative methods and one-shot classifiers share."""

import secrets
import time
from typing import Any

import numpy as np

from ggeur.data.table import EmbeddingTable
from ggeur.experiments.folder import RunFolder
from ggeur.experiments.result import Trial
from ggeur.experiments.settings import Settings
from ggeur.experiments.setup import Setup
from ggeur.experiments.tracker import Tracker
from ggeur.federation.evaluation import by_class
from ggeur.flower.server.agreement import Agreement
from ggeur.flower.server.collecting import Collector, EachSite
from ggeur.flower.server.journal import Journal
from ggeur.flower.server.roster import Roster
from ggeur.flower.server.scores import LastScores
from ggeur.flower.server.secure_aggregation import SecureAggregation
from ggeur.flower.server.secure_statistics import MaskedStatistics
from ggeur.flower.wire.ask import Grid
from ggeur.heads.head import Params
from ggeur.stats.units import Units


class TrialRun:
    """One trial, followed by `tracker`, over the sites of Flower's `grid`, with its run `folder` and `journal`."""

    def __init__(self, grid: Grid, folder: RunFolder, journal: Journal, tracker: Tracker) -> None:
        self._folder, self._journal, self._tracker = folder, journal, tracker
        self._setup = Setup.of(tracker.point)
        self._began = time.monotonic()
        common: dict[str, Any] = {
            "run": secrets.token_hex(16),
            "trial": tracker.number,
            "seed": tracker.seed,
            "point": _whole(tracker.point),
        }
        self._roster = Roster(grid, tracker.point.federate, journal, common)
        self._collector: Collector = EachSite(self._roster)
        self._aggregation: SecureAggregation | None = None
        privacy = tracker.point.privacy
        if privacy.secure_aggregation:
            self._aggregation = SecureAggregation(self._roster, folder.statistics(tracker.number) / "attempt.json")
            self._collector = MaskedStatistics(self._roster, self._aggregation, privacy.radius or 0.0)

    def _note_traffic(self) -> None:
        """Note the bytes up and down per site."""
        trial, sites = self._tracker.trial, max(len(self._roster.clients), 1)
        trial.bytes_up, trial.bytes_down = self._roster.bytes_up // sites, self._roster.bytes_down // sites

    def _finish(self, head: Params, last: LastScores, units: Units | None, solved: str | None = None) -> Trial:
        """Finish the trial with its `head`, for samples in `units`, and the sites' scores of it, `last`.

        `solved` is the type of a head computed in closed form or defined by the method, if not that of [train].
        """
        self._note_traffic()
        agreement, tracker = self._roster.agreement, self._tracker
        assert agreement is not None
        tested = {
            name: sum(site[name][1] for site in last.scores.values() if name in site) for name in agreement.domains
        }
        about, seconds = _empty_table(agreement), time.monotonic() - self._began
        tracker.finish(head, by_class(last.confusion), seconds, about, units, tested, solved)
        return tracker.trial


def _whole(point: Settings) -> dict[str, Any]:
    """Return `point` with all defaults, as a site adds none; [privacy] without, as some keys need others."""
    privacy = {"privacy": point.privacy.model_dump(mode="json", exclude_defaults=True)}
    return point.model_dump(mode="json") | privacy


def _empty_table(agreement: Agreement) -> EmbeddingTable:
    """Return an empty table with the agreed classes, dimensions and encoder."""
    x, y = np.zeros((0, agreement.dimension), np.float32), np.zeros(0, np.int64)
    return EmbeddingTable(x, y, class_names=agreement.classes, meta=agreement.encoder)
