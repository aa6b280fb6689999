"""One cell as it runs: its heads scored round by round, its record filled in, its lines and its model written."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any
from weakref import WeakValueDictionary

import jax
import numpy as np

from ggeur.experiment.built import head_of
from ggeur.experiment.evaluation import TestSet, mean_accuracy, summarise
from ggeur.experiment.source import load_table
from ggeur.heads.head import Params
from ggeur.runs.checkpoint import InFlight
from ggeur.runs.folder import RunFolder
from ggeur.runs.result import Cell
from ggeur.settings.schema import Settings

OnRound = Callable[[dict[str, Any]], None]
_tests: WeakValueDictionary[Hashable, TestSet] = WeakValueDictionary()  # of cells in flight: sweeps share them


class Tracker:
    """Follows one cell."""

    def __init__(
        self, number: int, cell: Cell, point: Settings, folder: RunFolder | None, on_round: OnRound | None
    ) -> None:
        self.number, self.cell, self.seed, self.point = number, cell, cell.seed, point
        self._folder, self._on_round = folder, on_round
        self._test: TestSet | None = None
        self._history: list[dict[str, float]] = []
        self.done = folder is not None and number in folder.finished
        if folder is not None and self.done:
            self.cell = folder.finished[number]

    @property
    def test(self) -> TestSet:
        if self._test is None:
            table, head = load_table(self.point.data), head_of(self.point)
            key = (table.fingerprint(), self.seed, head)
            self._test = _tests.get(key) or TestSet(table.split(self.seed), head)
            _tests[key] = self._test
        return self._test

    def memory(self) -> InFlight:
        """What a checkpoint keeps of the cell in flight."""
        return InFlight(self.number, self.cell, self._history)

    def recall(self, memory: InFlight) -> None:
        self.cell, self._history = memory.cell, memory.history

    def start(self, heads: Sequence[Params]) -> None:
        """Score the head that training starts from, where it is not a random one."""
        if self.point.train.start != "random":
            self.cell.start_avg = mean_accuracy(self.test.accuracy(heads[0]))

    def round(self, number: int, heads: Sequence[Params], loss: float) -> None:
        """After a round: the mean over `heads`, of which there is one but for the bound `local`."""
        if self.cell.status != "ok":
            return
        if not (np.isfinite(loss) and all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(heads))):
            self.cell.status = "diverged"
            self.cell.message = f"The loss became infinite or NaN in round {number}; a smaller train.rate may help."
            return
        scores = [self.test.accuracy(params) for params in heads]
        domains = {name: float(np.mean([s[name] for s in scores])) for name in scores[0]}
        avg = mean_accuracy(domains)
        self._history.append(domains)
        self.cell.rounds.append(avg)
        event = {"cell": self.number, "round": number, "domains": domains, "avg": avg, "loss": loss}
        if self._folder is not None:
            self._folder.record(event)
        if self._on_round is not None:
            self._on_round({**event, "rounds": self.point.train.rounds})

    def finish(self, heads: Sequence[Params], seconds: float) -> None:
        """The summary of the rounds; the model is saved where there is one model."""
        self.cell.seconds, self.done = seconds, True
        one = heads[0] if len(heads) == 1 and self.cell.status == "ok" else None
        if self.cell.status == "ok":
            self.cell.domains, self.cell.avg, self.cell.std, self.cell.rounds_to_95 = summarise(self._history)
        if one is not None:
            self.cell.recall, self.cell.macro_f1 = self.test.by_class(one)
        if self._folder is not None:
            self._folder.finish_cell(self.number, self.cell, one, self.point, load_table(self.point.data))
        self._test = None  # the test rows of a finished cell are not needed again
