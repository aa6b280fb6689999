"""The trials of a stack, computed: heads trained over rounds in one program, or solved, and scored."""

from __future__ import annotations

import time
from typing import NamedTuple

import jax
import numpy as np

from ggeur.engine.simulate import Simulation
from ggeur.engine.stack import Run
from ggeur.experiments.checkpoint import Snapshot
from ggeur.experiments.cost import bytes_before_training, bytes_of_one_shot
from ggeur.experiments.folder import RunFolder
from ggeur.experiments.settings_types import RANDOM
from ggeur.experiments.setup import Setup
from ggeur.experiments.tracker import Work
from ggeur.experiments.trial_data import TrialData, task_of
from ggeur.federation.evaluation import TestSet, mean_accuracy
from ggeur.heads import resolve as resolve_head
from ggeur.methods.algorithm import ClosedForm, Reference, Selection, ZeroShot
from ggeur.stats.augmented_sets import AugmentedSet
from ggeur.stats.custom import blaming
from ggeur.stats.errors import Unavailable
from ggeur.stats.long_jobs import check


def local_runs(run: Run) -> list[Run]:
    """One federation per client that has samples, in which it is alone; their accuracies are averaged."""
    clients = [(k, s, jax.tree.map(lambda a, k=k: a[k : k + 1], run.client_params)) for k, s in enumerate(run.sets)]
    return [
        run._replace(sets=[s], weights=np.ones(1), client_params=own, ids=np.array([k]))
        for k, s, own in clients
        if len(s.y)
    ]


def central_run(run: Run) -> Run:
    """One client that holds the samples of all."""
    originals = np.concatenate([np.arange(len(s.y)) < s.originals for s in run.sets])
    order = np.argsort(~originals, kind="stable")  # originals first, as in any set
    sample, noise, y = (np.concatenate([s[i] for s in run.sets])[order] for i in range(3))
    whole = AugmentedSet(sample, noise, y, originals=int(originals.sum()))
    own = jax.tree.map(lambda heads: heads[:1], run.client_params)
    return run._replace(sets=[whole], weights=np.ones(1), client_params=own)


def run_stack(number: int, stack: list[Work], folder: RunFolder | None, trial_data: TrialData) -> None:
    """Compute the trials of a `stack`, the `number`-th of a run; what one needs and is not there leaves it out."""
    try:
        if stack[0].setup.trained is None:
            _solve(stack[0], trial_data)
        else:
            with blaming(stack[0].setup.settings.train.method, "method"):
                _train(number, stack, folder, trial_data)
    except Unavailable as error:
        for work in stack:
            work.tracker.trial.status, work.tracker.trial.message = "unavailable", str(error)


class _Job(NamedTuple):
    """A trial, what it trains (one run, or one per client for the bound `local`) and what it is scored on."""

    work: Work
    runs: list[Run]
    mine: slice  # of the runs of the stack
    test: TestSet


def _jobs(trials: list[Work], trial_data: TrialData) -> list[_Job]:
    jobs: list[_Job] = []
    first = 0
    laid = {}  # kept while the stack is laid out: trials of a sweep share their noise, however large
    for work in trials:
        setup, seed = work.setup.of_task(trial_data.task(work.setup.settings.data)), work.tracker.seed
        key = (setup.dealt, seed)
        if key not in laid:
            laid[key] = trial_data.augmented(setup, seed)
        runs = _runs(setup, trial_data.run(setup, seed, laid[key]))
        jobs.append(
            _Job(Work(work.tracker, setup), runs, slice(first, first + len(runs)), trial_data.test_set(setup, seed))
        )
        first += len(runs)
    return jobs


def _runs(setup: Setup, run: Run) -> list[Run]:
    if not isinstance(setup.algorithm, Reference):
        return [run]
    return local_runs(run) if setup.algorithm.alone else [central_run(run)]


def _in_flight(number: int, stack: list[Work], folder: RunFolder | None) -> tuple[list[Work], Snapshot | None]:
    """The trials that an earlier process was at and where it stopped, or else those that are not done."""
    todo = [work for work in stack if not work.tracker.done]
    if folder is None:
        return todo, None
    numbers = [work.tracker.number for work in stack]
    snapshot = folder.snapshot_of(number, numbers, [work.tracker.number for work in todo])
    if snapshot is None:
        return todo, None
    held = {trial.number for trial in snapshot.trials}
    return [work for work in stack if work.tracker.number in held], snapshot


def _train(number: int, trials: list[Work], folder: RunFolder | None, trial_data: TrialData) -> None:
    began = time.perf_counter()
    trials, snapshot = _in_flight(number, trials, folder)
    stack = _jobs(trials, trial_data)
    simulation = _simulation(stack)
    first = trials[0].setup.settings
    state = simulation.start()
    if snapshot is not None:
        state = snapshot.state(state)
        for work, memory in zip(trials, snapshot.trials, strict=True):
            work.tracker.recall(memory)
    else:
        for job in stack:
            _begin(job, [n for run in simulation.local_steps[job.mine] for n in run], trial_data)
    every, rounds = first.run.checkpoint_every, []
    for result in simulation.rounds(state):
        check()
        rounds.append(result.seconds)
        state = result.state
        for job in stack:
            tracker, heads = job.work.tracker, result.params[job.mine]
            if not isinstance(
                job.work.setup.algorithm, Reference
            ):  # there, nobody sends anything as a federation would
                tracker.trial.bytes_up += result.bytes_up[job.mine.start]
                tracker.trial.bytes_down += result.bytes_down[job.mine.start]
            loss = float(np.mean(result.loss[job.mine]))
            if tracker.trained(state.round, heads, loss):
                tracker.score(state.round, job.test.mean_accuracy(heads), loss)
        if folder is not None and (state.round % every == 0 or state.round == first.train.rounds):
            folder.checkpoint(number, state, [work.tracker.memory() for work in trials])
    ends, seconds = simulation.heads(state), time.perf_counter() - began
    steps = sum(sum(work.tracker.trial.local_steps) for work in trials)
    later = float(np.mean(rounds[1:])) if len(rounds) > 1 else None  # the first compiles
    for job in stack:
        trial = job.work.tracker.trial
        share = sum(trial.local_steps) / steps
        trial.round_seconds = None if later is None else share * later
        _finish(job, ends[job.mine], seconds * share, trial_data)


def _simulation(stack: list[_Job]) -> Simulation:
    """Of all runs of the stack."""
    setups = [job.work.setup for job in stack for _ in job.runs]
    runs = [run for job in stack for run in job.runs]
    return Simulation(runs, [s.trained for s in setups if s.trained is not None], [s.training for s in setups])


def _begin(job: _Job, steps: list[int], trial_data: TrialData) -> None:
    """Return what is known of a trial before its first round."""
    setup, trial = job.work.setup, job.work.tracker.trial
    if setup.settings.train.start != RANDOM:
        trial.start_avg = mean_accuracy(job.test.accuracy(job.runs[0].params))
    trial.local_steps = steps
    if not isinstance(setup.algorithm, Reference):
        trial.bytes_up, trial.bytes_down = bytes_before_training(
            setup, trial_data.samples(setup, job.work.tracker.seed)[0], job.runs[0]
        )
        trial.bytes_first = trial.bytes_up + trial.bytes_down


def _finish(job: _Job, heads: list[object], seconds: float, trial_data: TrialData) -> None:
    tracker = job.work.tracker
    one = heads[0] if len(heads) == 1 and tracker.trial.status == "ok" else None
    by_class = None if one is None else job.test.by_class(one)
    table, units = trial_data.samples(job.work.setup, tracker.seed)
    tracker.trial.same_data = trial_data.same_data(job.work.setup)
    tracker.finish(one, by_class, seconds, table, units, job.test.samples, job.work.setup.method_head)


def _solve(work: Work, trial_data: TrialData) -> None:
    """A head that needs no training: one solution, scored as round 0."""
    began, setup, tracker = time.perf_counter(), work.setup, work.tracker
    algorithm, seed, name = setup.algorithm, tracker.seed, setup.settings.train.method
    table, units = trial_data.samples(setup, seed)
    head: str | None = None
    selected, sent, features = None, None, None
    if isinstance(algorithm, ZeroShot):
        params, head = algorithm.solve(task_of(table)), algorithm.head
    else:
        assert isinstance(algorithm, ClosedForm | Selection)
        if isinstance(algorithm, Selection):
            algorithm = algorithm.of_task(task_of(table))
        found = trial_data.one_shot(algorithm, name, setup, seed)
        params, head, selected = found.params, found.solver.solved.head, found.selected
        features = found.statistics.features
        by_statistics = isinstance(algorithm, Selection) and selected is not None and not selected.why
        sent = (
            algorithm.needs
            if not isinstance(algorithm, Selection)
            else (algorithm.sends if by_statistics else found.solver.solved.needs)
        )
    tracker.trial.bytes_up, tracker.trial.bytes_down = bytes_of_one_shot(setup, sent, table, params, features)
    tracker.trial.bytes_first = tracker.trial.bytes_up + tracker.trial.bytes_down
    own = head not in (None, setup.settings.train.head)
    test = trial_data.test_set(setup, seed, resolve_head(str(head)) if own else None)
    by_class = None
    if tracker.trained(0, [params], 0.0):
        tracker.score(0, test.accuracy(params), 0.0)
        by_class = test.by_class(params)
    if selected is not None and isinstance(algorithm, Selection):
        tracker.chose(selected, algorithm.candidates)
    tracker.trial.same_data = trial_data.same_data(setup)
    tracker.finish(params, by_class, time.perf_counter() - began, table, units, test.samples, head if own else None)
