"""Run one trial of an iterative method on real machines."""

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ggeur.engine.simulate import State
from ggeur.experiments.checkpoint import Snapshot
from ggeur.experiments.folder import RunFolder
from ggeur.experiments.result import Trial
from ggeur.experiments.tracker import Tracker
from ggeur.federation.augmentation_plan import plan_augmentation
from ggeur.federation.one_shot import one_shot
from ggeur.federation.start import random_head, to_train
from ggeur.flower.server.agreement import Agreement
from ggeur.flower.server.flower_federation import FlowerFederation
from ggeur.flower.server.journal import Journal
from ggeur.flower.server.round_zero import RoundZero
from ggeur.flower.server.rounds import Rounds
from ggeur.flower.server.scores import LateScores
from ggeur.flower.server.secure_aggregation_rounds import SecureAggregationRounds
from ggeur.flower.server.text import asked_text, collect_text
from ggeur.flower.server.training_sets import RemoteTrainingSets
from ggeur.flower.server.trial_run import TrialRun
from ggeur.flower.wire.ask import Grid
from ggeur.heads.head import Params
from ggeur.methods import has_own_head
from ggeur.methods.algorithm import Task
from ggeur.stats.errors import GgeurError
from ggeur.stats.site_statistics import StatisticsQuery, largest
from ggeur.stats.types import FloatArray, Tree


class IterativeRun(TrialRun):
    """A trial of an iterative method."""

    def __init__(self, grid: Grid, folder: RunFolder, journal: Journal, tracker: Tracker) -> None:
        super().__init__(grid, folder, journal, tracker)
        assert self._setup.trained is not None
        self._trained = self._setup.trained
        self._path = folder.path / "checkpoint" / f"plan-{tracker.number:05d}.npz"

    def run(self) -> Trial:
        """Run the trial from the greetings, or from the last checkpoint, to the end."""
        snapshot, tracker = self._folder.snapshot, self._tracker
        if snapshot is not None and snapshot.stack == tracker.number and self._path.exists():
            rounds, state, scores = self._resume(snapshot)
        else:
            rounds, state, scores = self._open()
        state = self._train(rounds, state, scores)
        head = rounds.head(state)
        last = rounds.evaluate_last(head)
        scores.add(list(last.scores.values()), state.round)
        return self._finish(head, last, rounds.units, self._setup.method_head)

    def _train(self, rounds: Rounds, state: State, scores: LateScores) -> State:
        for number in range(state.round + 1, self._setup.training.rounds + 1):
            done = rounds.round(state, number)
            state = done.state
            scores.add(done.scores, number - 1)
            self._note_traffic()
            head = rounds.head(state)
            self._tracker.trained(number, [head], done.loss, done.missing)
            scores.expect(head, done.loss, done.missing)
            # Rounds are counted as scored, so that lines of the metrics after this are written again on resuming.
            kept = State(number - 1, [(state.servers[0], np.int64(number), np.float64(done.loss))], state.clients, ())
            self._folder.checkpoint(self._tracker.number, kept, [self._tracker.memory()])
        return state

    def _open(self) -> tuple[Rounds, State, LateScores]:
        """Run round 0: statistics, layout, training sets, and the server's first state."""
        roster, train, nodes = self._roster, self._tracker.point.train, self._tracker.point.federate.sites or 1
        standardise, start, seed = self._setup.standardise, self._setup.start, self._tracker.seed
        roster.gather()
        with tempfile.TemporaryDirectory(prefix="ggeur-statistics-") as folder:
            federation = FlowerFederation(roster, self._collector, Path(folder), self._setup)
            round_zero = self._plan(federation)
            total = federation.received.merged
            if not standardise and total is not None and len(total.second) and (note := total.units.note("the sites")):
                roster.journal("note", why=note)
            roster.closed = True
            task, text = self._take_task(round_zero.agreement)
            if start is None:
                params = random_head(self._setup.head, task, seed, trained=self._trained)
            else:
                params = to_train(one_shot(federation, start, train.start, task, seed).params)
        sets = RemoteTrainingSets(roster, round_zero, self._trained, train.batch_size, self._aggregation)
        prepared = sets.prepared(nodes)
        rounds = self._rounds(sets, params, prepared)
        said = {key: np.array(roster.common[key]) for key in ("run", "weights")}
        round_zero.save(self._path, {"params": params, "prepared": prepared, "text": text, **said})
        samples = {client.index: n for client, n in zip(round_zero.clients, round_zero.samples, strict=True)}
        self._tracker.trial.local_steps = [self._setup.training.steps(samples.get(k, 0)) for k in range(nodes)]
        scores = LateScores(self._tracker, self._setup, round_zero.agreement, round_zero.units)
        return rounds, rounds.first_state, scores

    def _plan(self, federation: FlowerFederation) -> RoundZero:
        """Collect the statistics that the augmentation needs, and what solves the first head; lay out who draws."""
        a, start, roster = self._setup.augmentation, self._setup.start, self._roster
        kind = largest([a.needs, start and start.needs])
        query = None if kind is None else StatisticsQuery(kind, None if start is None else start.apart)
        end = time.monotonic() + roster.settings.wait
        agreement = federation.collect(lambda agreement: query, end if self._aggregation is None else None)
        if a.noise is not None:
            roster.journal(
                "merging", clients=len(roster.known), classes=len(agreement.classes), dimension=agreement.dimension
            )
        plan = plan_augmentation(federation, a, agreement.dimension, "the sites are not of several domains")
        for note in plan.notes:
            roster.journal("note", why=note)
        return RoundZero(agreement, roster.known, plan.layout, plan.shapes, federation.sample_units)

    def _resume(self, snapshot: Snapshot) -> tuple[Rounds, State, LateScores]:
        """Restore round 0 and the state of `snapshot`; sites say whether they still have their training sets."""
        round_zero, kept = RoundZero.load(self._path)
        agreement, roster, trial = round_zero.agreement, self._roster, snapshot.trials[0].trial
        roster.common |= {"run": str(kept["run"]), "classes": agreement.classes, "domains": agreement.domains}
        roster.clients = {client.index: client for client in round_zero.clients}
        roster.agreement, roster.closed = agreement, True
        self._take_task(agreement, kept["text"])
        if str(kept.get("weights", roster.common["weights"])) != roster.common["weights"]:
            raise GgeurError(
                f"The frozen model of {self._tracker.point.train.method} has changed since {self._folder.path} was "
                "started; start a new run, or bring back what was there.",
                code="model-frozen-changed",
            )
        roster.bytes_up, roster.bytes_down = (n * len(roster.clients) for n in (trial.bytes_up, trial.bytes_down))
        sets = RemoteTrainingSets(roster, round_zero, self._trained, self._setup.training.batch_size, self._aggregation)
        rounds = self._rounds(sets, kept["params"], kept["prepared"])
        first = rounds.first_state
        template = first._replace(servers=[(first.servers[0], np.int64(0), np.float64(0))])
        restored = snapshot.state(template)
        server, number, loss = restored.servers[0]
        state = restored._replace(round=int(number), servers=[server])
        self._journal("resumed", round=state.round)
        roster.gather()
        self._tracker.recall(snapshot.trials[0])
        scores = LateScores(self._tracker, self._setup, agreement, round_zero.units)
        scores.expect(rounds.head(state), float(loss))
        return rounds, state, scores

    def _take_task(self, agreement: Agreement, text: Mapping[str, FloatArray] | None = None) -> tuple[Task, Tree]:
        """Return the task, for which some methods are built only now, and its text, collected or kept."""
        point, encoder = self._tracker.point, str(agreement.encoder.get("encoder", ""))
        method = point.train.method
        if text is None:
            prompts = asked_text(method, point.method.get(method, {})) if has_own_head(method) else False
            text = {} if prompts is False else collect_text(self._roster, agreement, prompts)
        task = Task(agreement.dimension, agreement.classes, text, encoder=encoder)
        self._roster.common["encoder"] = encoder
        self._setup = self._setup.of_task(task)
        assert self._setup.trained is not None
        self._trained = self._setup.trained
        own = self._trained.method.head
        self._roster.common["weights"] = "" if own is None else own.weights()  # sites must have the same
        return task, dict(text)

    def _rounds(self, sets: RemoteTrainingSets, params: Params, prepared: Tree) -> Rounds:
        """Return the rounds that start from the head `params` and `prepared`, the total of the first messages."""
        start = self._trained.method.init(params, prepared, len(sets.round_zero.trainable))
        if self._aggregation is not None:
            return SecureAggregationRounds(
                sets, self._setup, self._trained, start, self._tracker.seed, self._aggregation
            )
        return Rounds(sets, self._setup, self._trained, start, self._tracker.seed)
