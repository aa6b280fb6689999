"""One cell as it runs, simulated or on real machines: its record filled in, its lines and its model written."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from ggeur.core.units import Units
from ggeur.data.table import EmbeddingTable
from ggeur.experiment.evaluation import ByClass, mean_accuracy, summarise, test_deviation
from ggeur.federation.choosing import Choice
from ggeur.heads.head import Params
from ggeur.methods.algorithm import Candidate
from ggeur.runs.checkpoint import InFlight
from ggeur.runs.folder import RunFolder
from ggeur.runs.promise import promise
from ggeur.runs.result import Cell
from ggeur.settings.schema import Settings

OnRound = Callable[[dict[str, Any]], None]


class Tracker:
    """Follows one cell."""

    def __init__(
        self, number: int, cell: Cell, point: Settings, folder: RunFolder | None, on_round: OnRound | None = None
    ) -> None:
        self.number, self.cell, self.seed, self.point = number, cell, cell.seed, point
        self._folder, self._on_round = folder, on_round
        self._history: list[dict[str, float]] = []
        self.done = folder is not None and number in folder.finished
        if folder is not None and self.done:
            self.cell = folder.finished[number]

    def memory(self) -> InFlight:
        """What a checkpoint keeps of the cell in flight."""
        return InFlight(self.number, self.cell, self._history)

    def recall(self, memory: InFlight) -> None:
        self.cell, self._history = memory.cell, memory.history

    def trained(self, number: int, heads: Sequence[Params], loss: float, missing: Sequence[int] = ()) -> bool:
        """After round `number`, in which these clients were `missing`; whether the heads are worth scoring."""
        for client in missing:
            self.cell.missing.setdefault(client, []).append(number)
        finite = np.isfinite(loss) and all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(heads))
        if not finite and self.cell.status == "ok":
            self.cell.status = "diverged"
            self.cell.message = f"The loss became infinite or NaN in round {number}; a smaller train.rate may help."
        return self.cell.status == "ok"

    def score(self, number: int, domains: dict[str, float], loss: float, **more: Any) -> None:
        """The accuracies after round `number`; none where nobody with test rows answered."""
        self._history.append(domains)
        if not domains:
            return
        avg = mean_accuracy(domains)
        self.cell.rounds.append(avg)
        event = {"cell": self.number, "round": number, "domains": domains, "avg": avg, "loss": loss, **more}
        if self._folder is not None:
            self._folder.record(event)
        if self._on_round is not None:
            self._on_round({**event, "rounds": self.point.train.rounds})

    def chose(self, choice: Choice, candidates: Sequence[Candidate]) -> None:
        """What was expected, beside what the test rows say, so that a reader can check it."""
        cell = self.cell
        cell.taken, cell.message = candidates[choice.taken].label, choice.sentence(candidates)
        if choice.expected is not None:
            cell.expected = choice.by_label(candidates)
            if cell.rounds:
                bias = cell.rounds[-1] - cell.expected[cell.taken]
                cell.message += f" The test rows say {cell.rounds[-1]:.1f} %, {bias:+.1f} from that."

    def finish(
        self,
        head: Params | None,
        by_class: ByClass | None,
        seconds: float,
        about: EmbeddingTable,
        units: Units | None = None,
        test_rows: Mapping[str, int] | None = None,
        solved: str | None = None,
    ) -> None:
        """The summary of the rounds; `head`, where there is one, is saved with what `about` says of its classes.

        `units` are those of the rows it was trained on, where they are not the table's; `test_rows` are how many each
        domain has been scored on; `solved` is the kind of head that was solved for, or that a method has of its own.
        """
        self.cell.seconds, self.done = seconds, True
        if self.cell.status == "ok":
            self.cell.domains, self.cell.avg, self.cell.std, self.cell.rounds_to_95 = summarise(self._history)
            if test_rows is not None:
                self.cell.test_deviation = test_deviation(self.cell.domains, test_rows)
            if by_class is not None:
                self.cell.recall, self.cell.macro_f1 = by_class
        self.cell.message = " ".join(filter(None, [self.cell.message, missing_sentence(self.cell.missing)]))
        self.cell.privacy = promise(self.point, simulated=self._folder is None or not self._folder.real)
        if self._folder is not None:
            one = head if self.cell.status == "ok" else None
            last = self._history[-1] if self._history else {}  # of the head that is saved, not of the last rounds
            self._folder.finish_cell(self.number, self.cell, one, self.point, about, units, solved, last, test_rows)


def missing_sentence(missing: Mapping[int, Sequence[int]]) -> str:
    """Who was missing when.

    >>> missing_sentence({2: [3, 4], 0: [4]})
    'Missing: client 0 in round 4; client 2 in rounds 3, 4.'
    """
    parts = [
        f"client {client} in round{'s' if len(rounds) > 1 else ''} {', '.join(map(str, rounds))}"
        for client, rounds in sorted(missing.items())
    ]
    return f"Missing: {'; '.join(parts)}." if parts else ""
