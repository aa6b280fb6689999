"""One trial whose head is solved on real machines: statistics come, the head goes out and is scored.

A site that was late or lost, and is back before the end, is added: what the others sent is kept, and only it is asked.
"""

import shutil
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from ggeur.core.custom import is_custom
from ggeur.core.site_statistics import Breakdown, FederationStatistics
from ggeur.core.units import Units
from ggeur.deploy.server.agreement import Agreement, Client
from ggeur.deploy.server.opening import OpenedFederation, agree_and_collect
from ggeur.deploy.server.reopening import check_all_are_back
from ggeur.deploy.server.round_zero import packed
from ggeur.deploy.server.scores import LastScores, LateScores, last_scores
from ggeur.deploy.server.text import asked_text, collect_text, common_prompts
from ggeur.deploy.server.trial_run import TrialRun
from ggeur.deploy.wire.ask import Question
from ggeur.deploy.wire.packing import tree_to_arrays
from ggeur.deploy.wire.requested import RequestedStatistics
from ggeur.experiment.trial_data import chosen_by_rule
from ggeur.federation.noisy_statistics import repaired_total
from ggeur.federation.selection import Selected, select
from ggeur.federation.start import one_shot_head
from ggeur.heads import resolve as resolve_head
from ggeur.heads.head import Params
from ggeur.methods.algorithm import ClosedForm, Selection, Task
from ggeur.runs.result import Trial


class _Solution(NamedTuple):
    """A head of some kind, for samples in `units`, and of whose statistics it is; how it was chosen, if it was."""

    params: Params
    head: str
    agreement: Agreement
    units: Units | None
    clients: set[int]
    choice: Selected | None
    chosen: Selection | None  # what it was chosen from


class OneShotRun(TrialRun):
    """A trial without rounds."""

    def run(self) -> Trial:
        """From hello to the end; what sites sent to an earlier process that stopped is taken as it was kept."""
        tracker, roster = self._tracker, self._roster
        roster.gather()
        found = self._solve()
        last, again = self._score(found, roster.present), set[int]()
        while waiting := [client for client in self._unscored(found, last) if client.index not in again]:
            again |= {client.index for client in waiting}  # each once: one that is always late must not delay the end
            if all(client.index in found.clients for client in waiting):
                more = self._score(found, waiting)
                last = LastScores(last.scores | more.scores, last.confusion + more.confusion)
            else:
                found = self._solve()
                last = self._score(found, roster.present)
        missing = sorted(set(range(tracker.point.federate.sites or 1)) - found.clients)
        check_all_are_back(self._folder.path, tracker.number, missing)
        scores = LateScores(tracker, self._setup, found.agreement, found.units, resolve_head(found.head))
        tracker.trained(0, [found.params], 0.0, missing)
        scores.expect(found.params, 0.0, missing)
        scores.add(list(last.scores.values()), 0)
        if found.choice is not None and found.chosen is not None:
            tracker.chose(found.choice, found.chosen.candidates)
        own = None if found.head == tracker.point.train.head else found.head
        trial = self._finish(found.params, last, found.units, own)
        shutil.rmtree(self._folder.sums(tracker.number), ignore_errors=True)
        return trial

    @property
    def _chosen(self) -> Selection:
        assert isinstance(self._setup.algorithm, Selection)
        return self._setup.algorithm

    @property
    def _parameters(self) -> dict[str, Any]:
        point = self._tracker.point
        return point.method.get(point.train.method, {})

    def _unscored(self, found: _Solution, last: LastScores) -> list[Client]:
        """Who is there now and has not scored the head: one that came later, or whose answer was lost.

        To a secure aggregation that was opened nobody can be added.
        """
        self._roster.closed = False
        self._roster.meet(0)
        waiting = [client for client in self._roster.present if client.index not in last.scores]
        return [client for client in waiting if self._sums is None or client.index in found.clients]

    def _solve(self) -> _Solution:
        """The head of the sites that are there, and of those that are not but have sent their statistics."""
        solved, name = self._setup.algorithm, self._tracker.point.train.method
        choice, chosen, task = None, None, None
        if isinstance(solved, Selection):
            opened, choice, chosen, task = self._choose()
            name, _, solved = chosen.candidates[choice.taken]
        else:
            assert isinstance(solved, ClosedForm)
            opened = self._collect(lambda agreement: self._wanted(solved))
            prompts = False if is_custom(name) else asked_text(name, self._parameters)
            task = self._task(opened.agreement, prompts)
        assert opened.sums is not None
        messages = ((domain, message.of_kind(solved.needs)) for domain, message in opened.sums.by_domain())
        release = self._setup.release
        if release.exact:
            total = FederationStatistics.of(messages, solved.apart)
        else:
            total = repaired_total(release, messages, opened.sums.clients(), solved.apart, solved.eigenvalues)
        params = one_shot_head(solved, name, total, task, self._tracker.seed)
        return _Solution(params, solved.head, opened.agreement, opened.units, opened.sums.senders, choice, chosen)

    def _task(self, agreement: Agreement, prompts: str | Literal[False] | None, *, needed: bool = True) -> Task:
        """Return what is to be learnt, with the sites' text by these `prompts`, by any, or with none."""
        text = None if prompts is False else collect_text(self._roster, agreement, prompts, needed=needed)
        return Task(agreement.dimension, agreement.classes, text)

    def _wanted(self, solved: ClosedForm) -> RequestedStatistics:
        noisy = not self._setup.release.exact
        return RequestedStatistics(solved.needs, solved.apart is not None, noisy=noisy)

    def _collect(self, wanted: Callable[[Agreement], RequestedStatistics]) -> OpenedFederation:
        folder = self._folder.sums(self._tracker.number)
        return agree_and_collect(self._roster, self._collector, wanted, folder, standardise=self._setup.standardise)

    def _choose(self) -> tuple[OpenedFederation, Selected, Selection, Task]:
        """Which candidate the statistics of every domain select; of text too, where all sites have the same."""
        chosen, roster = self._chosen, self._roster
        if not self._setup.release.exact:
            return self._by_rule()
        opened = self._collect(lambda agreement: RequestedStatistics(chosen.sends, by_domain=True))
        assert opened.sums is not None
        prompts = common_prompts(roster) if chosen.wants_text else None
        task = self._task(opened.agreement, False if prompts is None else prompts, needed=False)
        among = chosen.of_task(task)
        by_domain = FederationStatistics.of(opened.sums.by_domain(), Breakdown(chosen.sends)).apart
        choice = select(among, by_domain, task, self._tracker.seed)
        roster.journal("chosen", taken=among.candidates[choice.taken].label, why=choice.sentence(among.candidates))
        return opened, choice, among, task

    def _by_rule(self) -> tuple[OpenedFederation, Selected, Selection, Task]:
        """The candidate that a public rule takes, which must be known before sites are asked."""
        choice: Selected | None = None

        def wanted(agreement: Agreement) -> RequestedStatistics:
            nonlocal choice
            choice = chosen_by_rule(self._setup, len(agreement.classes), len(self._roster.clients))
            return self._wanted(self._chosen.candidates[choice.taken].solved)

        opened = self._collect(wanted)
        assert choice is not None
        self._roster.journal("chosen", taken=self._chosen.candidates[choice.taken].label, why=choice.why)
        return opened, choice, self._chosen, self._task(opened.agreement, False)

    def _score(self, found: _Solution, clients: Sequence[Client]) -> LastScores:
        """The scores of the head by `clients`; whoever sends none is missing, but what it sent before counts."""
        self._roster.closed = True
        arrays, shape = tree_to_arrays(found.params, "head")
        question = Question("query.score", {"kind": found.head, "head": shape}, arrays | packed(found.units))
        return last_scores(self._roster, clients, question, found.agreement, 0)
