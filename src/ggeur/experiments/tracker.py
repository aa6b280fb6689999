"""One trial as it runs, simulated or on real machines: its record filled in, its lines and its model written."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from ggeur.data.table import EmbeddingTable
from ggeur.experiments.checkpoint import InFlight
from ggeur.experiments.folder import RunFolder
from ggeur.experiments.privacy_statement import privacy_of
from ggeur.experiments.result import Trial
from ggeur.experiments.settings import Settings
from ggeur.federation.evaluation import ByClass, mean_accuracy, summarise_scores, test_deviation
from ggeur.federation.selection import Selected
from ggeur.heads.head import Params
from ggeur.methods.algorithm import Candidate
from ggeur.stats.units import Units

OnRound = Callable[[dict[str, Any]], None]


class Tracker:
    """Follows one trial."""

    def __init__(
        self, number: int, trial: Trial, point: Settings, folder: RunFolder | None, on_round: OnRound | None = None
    ) -> None:
        self.number, self.trial, self.seed, self.point = number, trial, trial.seed, point
        self._folder, self._on_round = folder, on_round
        self._history: list[dict[str, float]] = []
        self.done = folder is not None and number in folder.finished
        if folder is not None and self.done:
            self.trial = folder.finished[number]

    def memory(self) -> InFlight:
        """Return what a checkpoint keeps of the trial in flight."""
        return InFlight(self.number, self.trial, self._history)

    def recall(self, memory: InFlight) -> None:
        self.trial, self._history = memory.trial, memory.history

    def trained(self, number: int, heads: Sequence[Params], loss: float, missing: Sequence[int] = ()) -> bool:
        """After round `number`, in which these clients were `missing`; whether the heads are worth scoring."""
        for client in missing:
            self.trial.missing.setdefault(client, []).append(number)
        finite = np.isfinite(loss) and all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(heads))
        if not finite and self.trial.status == "ok":
            self.trial.status = "diverged"
            self.trial.message = (
                f"The loss became infinite or NaN in round {number}; a smaller train.learning_rate may help."
            )
        return self.trial.status == "ok"

    def score(self, number: int, domains: dict[str, float], loss: float, **more: Any) -> None:
        """The accuracies after round `number`; none where nobody with test samples answered."""
        self._history.append(domains)
        if not domains:
            return
        avg = mean_accuracy(domains)
        self.trial.rounds.append(avg)
        event = {"trial": self.number, "round": number, "domains": domains, "avg": avg, "loss": loss, **more}
        if self._folder is not None:
            self._folder.record(event)
        if self._on_round is not None:
            self._on_round({**event, "rounds": self.point.train.rounds})

    def chose(self, choice: Selected, candidates: Sequence[Candidate]) -> None:
        """Which candidate was selected, and how all rank."""
        trial = self.trial
        trial.taken, trial.message = candidates[choice.taken].label, choice.sentence(candidates)
        trial.expected = choice.expected(candidates)

    def finish(
        self,
        head: Params | None,
        by_class: ByClass | None,
        seconds: float,
        about: EmbeddingTable,
        units: Units | None = None,
        test_samples: Mapping[str, int] | None = None,
        solved: str | None = None,
    ) -> None:
        """The summary of the rounds; `head`, where there is one, is saved with what `about` says of its classes.

        `units` are those of the samples it was trained on, where they are not the table's; `test_samples` are how many
        each domain has been scored on; `solved` is the kind of head that was solved for, or that a method has of its
        own.
        """
        self.trial.seconds, self.done = seconds, True
        if self.trial.status == "ok":
            self.trial.domains, self.trial.avg, self.trial.std, self.trial.rounds_to_95 = summarise_scores(
                self._history
            )
            if test_samples is not None:
                self.trial.test_deviation = test_deviation(self.trial.domains, test_samples)
            if by_class is not None:
                self.trial.recall, self.trial.macro_f1 = by_class
        self.trial.message = " ".join(filter(None, [self.trial.message, missing_sentence(self.trial.missing)]))
        self.trial.privacy = privacy_of(self.point, simulated=self._folder is None or not self._folder.real)
        if self._folder is not None:
            one = head if self.trial.status == "ok" else None
            last = self._history[-1] if self._history else {}  # of the head that is saved, not of the last rounds
            self._folder.finish_trial(
                self.number, self.trial, one, self.point, about, units, solved, last, test_samples
            )


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
