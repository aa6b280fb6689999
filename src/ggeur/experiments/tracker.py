"""One trial as it runs, simulated or on real machines: its record filled in, its lines and its model written."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from ggeur.data.table import EmbeddingTable
from ggeur.experiments.checkpoint import InFlight
from ggeur.experiments.folder import RunFolder
from ggeur.experiments.result import Trial
from ggeur.experiments.settings import Settings
from ggeur.experiments.setup import Setup
from ggeur.federation.evaluation import ByClass, mean_accuracy, summarise_scores, test_deviation
from ggeur.federation.selection import Selected
from ggeur.heads import described, sizes
from ggeur.heads.head import Params
from ggeur.methods import kind_of
from ggeur.methods.algorithm import Candidate, ClosedForm, Reference, Selection, ZeroShot
from ggeur.models.model import Model
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
            model = None
            if head is not None and self.trial.status == "ok":
                last = self._history[-1] if self._history else {}  # of the head that is saved, not of the last rounds
                model = model_of_trial(self.trial, head, self.point, about, units, solved, last, test_samples)
            self._folder.finish_trial(self.number, self.trial, model)


class Work(NamedTuple):
    """A trial and what it is made of."""

    tracker: Tracker
    setup: Setup


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


def privacy_of(point: Settings, *, simulated: bool) -> dict[str, Any]:
    """Return the privacy guarantee of a trial with these settings; empty where there is none."""
    p, kind = point.privacy, kind_of(point.train.method)
    release = p.release
    made: dict[str, Any] = {"min_count": p.min_count or None, "radius": p.radius, "projection": p.projection}
    if kind in (Reference, ZeroShot):  # nobody sends anything
        if kind is Reference and (not release.exact or p.secure_aggregation):
            made["covers"] = "nothing"
        return {key: value for key, value in made.items() if value is not None}
    made["secure_aggregation"] = ("simulated" if simulated else True) if p.secure_aggregation else None
    if not release.exact:
        made |= {**release.facts, "mechanism": p.mechanism_name, "guarantee": release.statement}
        if release.guarantee:
            made["covers"] = "everything" if kind in (ClosedForm, Selection) else "statistics"
        made["noise"] = "simulated" if simulated else "operating system"
    return {key: value for key, value in made.items() if value is not None}


_ENCODER = ("encoder", "weights", "preprocessing", "dimension")


def model_of_trial(
    trial: Trial,
    params: Params,
    point: Settings,
    table: EmbeddingTable,
    units: Units | None,
    solved: str | None,
    scored: Mapping[str, float] | None,
    test_samples: Mapping[str, int] | None,
) -> Model:
    """Return the model of the final head `params` of a `trial` with these settings, on samples of `table` in `units`.

    `solved` is the type of a head computed in closed form, if not that of [train]; `scored` is its accuracy by domain,
    on so many `test_samples`. It names no path of the machine that it was made on.
    """
    head = solved or point.train.head
    tree = point.model_dump(mode="json", exclude_none=True)
    algorithm = {"method": trial.method, "augmentation": trial.augment, "seed": trial.seed, "taken": trial.taken}
    settings = {"dataset": table.meta.get("dataset"), "partition": tree["partition"], "train": tree["train"]}
    metrics: dict[str, Any] = {}
    if scored:
        avg = sum(scored.values()) / len(scored)
        metrics = {"domains": dict(scored), "avg": avg, "samples": dict(test_samples or {})}
    return Model(
        params,
        head,
        table.dimension,
        table.class_names,
        {key: table.meta[key] for key in _ENCODER if key in table.meta},
        sizes(head, params) if solved else described(head, point.head_parameters),
        units,
        algorithm={key: value for key, value in algorithm.items() if value != ""},
        settings={key: value for key, value in settings.items() if value is not None},
        metrics=metrics,
        privacy=trial.privacy,
        ball=point.privacy.ball,
    )
