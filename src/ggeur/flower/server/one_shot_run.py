"""One trial whose head is solved on real machines: statistics come, the head goes out and is scored.

A site that was late or lost, and is back before the end, is added: what the others sent is kept, and only it is asked.
"""

import shutil
from typing import Any, Literal, NamedTuple

from ggeur.experiments.folder import RunFolder
from ggeur.experiments.result import Trial
from ggeur.experiments.tracker import Tracker
from ggeur.experiments.trial_data import chosen_by_rule
from ggeur.federation.one_shot import OneShot, one_shot
from ggeur.federation.selection import Selected
from ggeur.flower.server.agreement import Agreement, Client
from ggeur.flower.server.flower_federation import FlowerFederation
from ggeur.flower.server.journal import Journal
from ggeur.flower.server.received_features import SiteGone
from ggeur.flower.server.reopening import check_all_are_back
from ggeur.flower.server.scores import LastScores, LateScores
from ggeur.flower.server.text import asked_text, collect_text, common_prompts
from ggeur.flower.server.trial_run import TrialRun
from ggeur.flower.wire.ask import Grid
from ggeur.heads import resolve as resolve_head
from ggeur.methods.algorithm import ClosedForm, Selection, Task
from ggeur.stats.custom import is_custom
from ggeur.stats.site_statistics import StatisticsQuery


class _Answer(NamedTuple):
    """A classifier, and whose statistics it was computed from."""

    found: OneShot
    algorithm: ClosedForm | Selection
    senders: set[int]

    @property
    def head(self) -> str:
        return self.found.solver.solved.head


class OneShotRun(TrialRun):
    """A trial without rounds."""

    def __init__(self, grid: Grid, folder: RunFolder, journal: Journal, tracker: Tracker) -> None:
        super().__init__(grid, folder, journal, tracker)
        statistics = folder.statistics(tracker.number)
        self._federation = FlowerFederation(self._roster, self._collector, statistics, self._setup)

    def run(self) -> Trial:
        """Run from the greetings to the end; what sites sent to an earlier process that stopped is taken as it was
        kept.
        """
        tracker, roster, federation = self._tracker, self._roster, self._federation
        roster.gather()
        answer = self._solve()
        params = answer.found.params
        last, again = federation.evaluate(answer.head, params, roster.present), set[int]()
        while waiting := [client for client in self._unscored(answer, last) if client.index not in again]:
            again |= {client.index for client in waiting}  # each once: one that is always late must not delay the end
            if all(client.index in answer.senders for client in waiting):
                more = federation.evaluate(answer.head, params, waiting)
                last = LastScores(last.scores | more.scores, last.confusion + more.confusion)
            else:
                answer = self._solve()
                params = answer.found.params
                last = federation.evaluate(answer.head, params, roster.present)
        missing = sorted(set(range(tracker.point.federate.sites or 1)) - answer.senders)
        check_all_are_back(self._folder.path, tracker.number, missing)
        units = federation.sample_units
        scores = LateScores(tracker, self._setup, federation.agreement, units, resolve_head(answer.head))
        tracker.trained(0, [params], 0.0, missing)
        scores.expect(params, 0.0, missing)
        scores.add(list(last.scores.values()), 0)
        if answer.found.selected is not None and isinstance(answer.algorithm, Selection):
            tracker.chose(answer.found.selected, answer.algorithm.candidates)
        trial = self._finish(params, last, units, None if answer.head == tracker.point.train.head else answer.head)
        shutil.rmtree(self._folder.statistics(tracker.number), ignore_errors=True)
        return trial

    @property
    def _parameters(self) -> dict[str, Any]:
        point = self._tracker.point
        return point.method.get(point.train.method, {})

    def _unscored(self, answer: _Answer, last: LastScores) -> list[Client]:
        """Who is there now and has not scored the head: one that came later, or whose answer was lost.

        To a secure aggregation that was opened nobody can be added.
        """
        self._roster.closed = False
        self._roster.meet(0)
        waiting = [client for client in self._roster.present if client.index not in last.scores]
        return [client for client in waiting if self._aggregation is None or client.index in answer.senders]

    def _solve(self) -> _Answer:
        """The head of the sites that are there, and of those that are not but have sent their statistics.

        Where a site is lost between statistics and features, the others go on without it.
        """
        while True:
            try:
                return self._solve_once()
            except SiteGone:
                continue

    def _solve_once(self) -> _Answer:
        name, federation = self._tracker.point.train.method, self._federation
        assert isinstance(self._setup.algorithm, ClosedForm | Selection)
        algorithm: ClosedForm | Selection = self._setup.algorithm
        selected: Selected | None = None

        def query(agreement: Agreement) -> StatisticsQuery:
            """Under noise, what the public rule selects must be known before sites are asked."""
            nonlocal selected
            if isinstance(algorithm, Selection) and not self._setup.release.exact:
                selected = chosen_by_rule(self._setup, len(agreement.classes), len(self._roster.clients))
                return algorithm.candidates[selected.taken].solved.query
            return algorithm.query

        agreement = federation.collect(query)
        if isinstance(algorithm, Selection):
            prompts = common_prompts(self._roster) if algorithm.wants_text and selected is None else None
            task = self._task(agreement, False if prompts is None else prompts, needed=False)
            algorithm = algorithm if selected is not None else algorithm.of_task(task)
        else:
            task = self._task(agreement, False if is_custom(name) else asked_text(name, self._parameters))
        found = one_shot(federation, algorithm, name, task, self._tracker.seed, selected)
        if found.selected is not None and isinstance(algorithm, Selection):
            why = found.selected.sentence(algorithm.candidates)
            self._roster.journal("chosen", taken=found.solver.label, why=why)
        return _Answer(found, algorithm, federation.received.senders)

    def _task(self, agreement: Agreement, prompts: str | Literal[False] | None, *, needed: bool = True) -> Task:
        """Return what is to be learnt, with the sites' text by these `prompts`, by any, or with none."""
        text = None if prompts is False else collect_text(self._roster, agreement, prompts, needed=needed)
        return Task(agreement.dimension, agreement.classes, text)
