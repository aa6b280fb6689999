"""One cell as it runs on real machines: rounds are scored by the sites, one round later, and go into the run folder."""

from collections import defaultdict
from collections.abc import Sequence

import jax
import numpy as np
from numpy.typing import NDArray

from ggeur.core.errors import GgeurError
from ggeur.data.table import EmbeddingTable
from ggeur.deploy.server.scores import Scores, accuracy, by_class, summarise_answered
from ggeur.deploy.site.data import relabelled
from ggeur.experiment.built import head_of
from ggeur.experiment.evaluation import TestSet, mean_accuracy
from ggeur.heads.head import Params
from ggeur.runs.checkpoint import InFlight
from ggeur.runs.folder import RunFolder
from ggeur.runs.result import Cell
from ggeur.settings.schema import Settings

_MISSING = "Missing: "


class Record:
    """Follows one cell: `trained` after a round, `scored` when its head's scores have come."""

    def __init__(
        self,
        number: int,
        cell: Cell,
        point: Settings,
        folder: RunFolder,
        table: EmbeddingTable,
        domains: Sequence[str],
    ) -> None:
        self.cell, self._number, self._point, self._folder, self._table = cell, number, point, folder, table
        self._domains = domains
        self._history: list[dict[str, float]] = []
        self._waiting: tuple[Params, float, list[int]] | None = None  # a head, its round's loss, and who was missing
        self._server = self._server_table()

    def _server_table(self) -> TestSet | None:
        path = self._point.federate.test_table
        if path is None:
            return None
        table = EmbeddingTable.load(path).split(self.cell.seed)
        if table.dimension != self._table.dimension:
            raise GgeurError(
                f"{path} has {table.dimension} dimensions, the sites' tables {self._table.dimension}: use one encoder."
            )
        return TestSet(relabelled(table, self._table.class_names, table.domain_names), head_of(self._point))

    def memory(self) -> InFlight:
        """What a checkpoint keeps of the cell in flight."""
        return InFlight(self._number, self.cell, self._history)

    def recall(self, memory: InFlight) -> None:
        self.cell, self._history = memory.cell, memory.history

    def trained(self, number: int, head: Params, loss: float, missing: Sequence[int]) -> None:
        """After a round's aggregation; its scores come later."""
        finite = np.isfinite(loss) and all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(head))
        if not finite and self.cell.status == "ok":
            self.cell.status = "diverged"
            self.cell.message = f"The loss became infinite or NaN in round {number}; a smaller train.rate may help."
        if missing:
            self.cell.message = _noted(self.cell.message, number, missing)
        self._waiting = (head, loss, list(missing))

    def scored(self, sites: Sequence[Scores], number: int) -> None:
        """The sites' scores of the head after round `number`."""
        domains = accuracy(sites, self._domains)
        if self._waiting is None:
            if domains and self._point.train.start != "random":
                self.cell.start_avg = mean_accuracy(domains)
            return
        head, loss, missing = self._waiting
        self._waiting = None
        if self.cell.status != "ok":
            return
        server = None if self._server is None else self._server.accuracy(head)
        domains = domains or server or {}
        self._history.append(domains)
        if not domains:  # nobody with test rows answered
            return
        avg = mean_accuracy(domains)
        self.cell.rounds.append(avg)
        event = {"cell": self._number, "round": number, "domains": domains, "avg": avg, "loss": loss}
        event |= {"missing": missing} if missing else {}
        self._folder.record(event | ({} if server is None else {"server": server}))

    def finish(self, head: Params, confusion: NDArray[np.int64], seconds: float) -> None:
        """The summary of the rounds, and the model."""
        self.cell.seconds = seconds
        summary = summarise_answered(self._history)
        if self.cell.status == "ok" and summary is None:
            raise GgeurError("No site could score the head; there is nothing to report.")
        if self.cell.status == "ok" and summary is not None:
            self.cell.domains, self.cell.avg, self.cell.std, self.cell.rounds_to_95 = summary
            self.cell.recall, self.cell.macro_f1 = by_class(confusion)
        one = jax.tree.map(np.asarray, head) if self.cell.status == "ok" else None
        self._folder.finish_cell(self._number, self.cell, one, self._point, self._table)


def _noted(message: str, number: int, missing: Sequence[int]) -> str:
    """The message with one more round in which sites were missing: "Missing: client 2 in rounds 3, 4."

    >>> _noted(_noted("", 3, [2]), 4, [0, 2])
    'Missing: client 0 in round 4; client 2 in rounds 3, 4.'
    """
    before, _, noted = message.partition(_MISSING)
    rounds: dict[int, list[str]] = defaultdict(list)
    for part in noted.rstrip(".").split("; ") if noted else []:
        index, _, numbers = part.removeprefix("client ").partition(" in round")
        rounds[int(index)] += numbers.lstrip("s ").split(", ")
    for client in missing:
        rounds[client].append(str(number))
    parts = [f"client {k} in round{'s' if len(r) > 1 else ''} {', '.join(r)}" for k, r in sorted(rounds.items())]
    return f"{before}{_MISSING}{'; '.join(parts)}."
