"""Run an experiment: every point of its grid, cells that one compiled program serves stacked in it."""

import os
import time
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from ggeur.core.errors import GgeurError
from ggeur.core.names import is_own
from ggeur.data.files import CannotWrite
from ggeur.engine.compilation import keep_compiled_programs
from ggeur.engine.simulate import Simulation
from ggeur.engine.stack import Run
from ggeur.engine.training import Training
from ggeur.experiment.bounds import central_run, local_runs
from ggeur.experiment.built import head_of, method_of, solved, training_of
from ggeur.experiment.cost import bytes_before_training, solved_bytes
from ggeur.experiment.dealing import Augmented, augmented_once, build_run, partition_rows, solved_head, task_of
from ggeur.experiment.source import load_table
from ggeur.experiment.stacks import stacks
from ggeur.experiment.tracker import OnRound, Tracker
from ggeur.methods import kind_of, resolve
from ggeur.methods.algorithm import Bound, Given
from ggeur.runs.checkpoint import Snapshot
from ggeur.runs.folder import RunFolder, check_same
from ggeur.runs.interrupt import check
from ggeur.runs.result import Cell, Result
from ggeur.settings.grid import Experiment
from ggeur.settings.schema import Settings


def run(
    experiment: Experiment,
    *,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    on_round: OnRound | None = None,
) -> Result:
    """Run every cell and return the result; with `out`, also write a run folder, or go on in it with `resume`.

    `on_round` is called with {"cell", "round", "rounds", "domains", "avg", "loss"} after every round of every cell:
    the place to log to MLflow, Weights & Biases or TensorBoard.
    """
    if not isinstance(experiment, Experiment):
        raise GgeurError("run takes an Experiment: make one with Experiment.of({...}) or Experiment.load(path).")
    keep_compiled_programs()
    if resume and out is not None and (Path(out) / "result.json").exists():
        check_same(Path(out), experiment)
        return Result.load(out)
    folder = None if out is None else RunFolder(out, experiment, resume=resume)
    try:
        if folder is not None:
            sources = dict.fromkeys(point.data for point in experiment.points)
            folder.check_inputs({str(s.table or s.dataset): load_table(s) for s in sources})
        trackers = _trackers(experiment, folder, on_round)
        for number, stack in enumerate(stacks(trackers)):
            _run_stack(number, stack, folder)
        result = Result([tracker.cell for tracker in trackers])
        if folder is not None:
            folder.finish(result)
    except CannotWrite as error:
        if folder is not None and folder.abandon():
            raise CannotWrite(f"{error} Mend that, then go on with `ggeur run --resume {folder.path}`.") from error
        raise
    except BaseException:
        if folder is not None:
            folder.abandon()
        raise
    return result


def _trackers(experiment: Experiment, folder: RunFolder | None, on_round: OnRound | None) -> list[Tracker]:
    """One for every cell, in order: points, and the seeds of each."""
    trackers: list[Tracker] = []
    for point, varied in zip(experiment.points, experiment.varied, strict=True):
        for seed in experiment.seeds:
            cell = Cell(point.train.method, point.augment.kind, seed, varied)
            trackers.append(Tracker(len(trackers), cell, point, folder, on_round))
    return trackers


def _run_stack(number: int, stack: list[Tracker], folder: RunFolder | None) -> None:
    if all(tracker.done for tracker in stack):
        return
    if solved(stack[0].point):
        _solve(stack[0])
    else:
        _train(number, stack, folder)


class _Job(NamedTuple):
    """A cell and what it trains: one run, or one per client for the bound `local`."""

    tracker: Tracker
    runs: list[Run]
    mine: slice  # of the runs of the stack


def _jobs(trackers: list[Tracker]) -> list[_Job]:
    jobs: list[_Job] = []
    made: dict[Hashable, Augmented] = {}  # kept while the stack is laid out: cells of a sweep share their noise
    first = 0
    for t in trackers:
        table = load_table(t.point.data).split(t.seed)
        key = (t.point.partition, t.point.augment, t.seed)
        if key not in made:
            made[key] = augmented_once(table, t.point, t.seed)
        runs = _runs(t.point, build_run(table, t.point, t.seed, made[key]))
        jobs.append(_Job(t, runs, slice(first, first + len(runs))))
        first += len(runs)
    return jobs


def _runs(point: Settings, run: Run) -> list[Run]:
    algorithm = resolve(point.train.method, head_of(point), point.method.get(point.train.method, {}))
    if not isinstance(algorithm, Bound):
        return [run]
    return local_runs(run) if algorithm.alone else [central_run(run)]


def _in_flight(number: int, stack: list[Tracker], folder: RunFolder | None) -> tuple[list[Tracker], Snapshot | None]:
    """The cells that an earlier process was at and where it stopped, or else those that are not done."""
    todo = [t for t in stack if not t.done]
    if folder is None:
        return todo, None
    snapshot = folder.snapshot_of(number, [t.number for t in stack], [t.number for t in todo])
    if snapshot is None:
        return todo, None
    held = {cell.number for cell in snapshot.cells}
    return [t for t in stack if t.number in held], snapshot


def _train(number: int, trackers: list[Tracker], folder: RunFolder | None) -> None:
    began = time.perf_counter()
    trackers, snapshot = _in_flight(number, trackers, folder)
    stack = _jobs(trackers)
    simulation = _simulation(stack)
    state = _or_say_whose(simulation.start, trackers[0].point)
    if snapshot is not None:
        state = snapshot.state(state)
        for tracker, memory in zip(trackers, snapshot.cells, strict=True):
            tracker.recall(memory)
    else:
        for job in stack:
            _begin(job, simulation.training)
    every, rounds = trackers[0].point.run.checkpoint_every, trackers[0].point.train.rounds
    ahead = simulation.rounds(state)
    while (result := _or_say_whose(lambda: next(ahead, None), trackers[0].point)) is not None:
        check()
        state = result.state
        for job in stack:
            if not _bound(job.tracker.point):
                job.tracker.cell.bytes_up += result.bytes_up[job.mine.start]
                job.tracker.cell.bytes_down += result.bytes_down[job.mine.start]
            job.tracker.round(state.round, result.params[job.mine], float(np.mean(result.loss[job.mine])))
        if folder is not None and (state.round % every == 0 or state.round == rounds):
            folder.checkpoint(number, state, [t.memory() for t in trackers])
    heads, seconds = simulation.heads(state), time.perf_counter() - began
    steps = sum(sum(t.cell.local_steps) for t in trackers)
    for job in stack:
        job.tracker.finish(heads[job.mine], seconds * sum(job.tracker.cell.local_steps) / steps)


def _simulation(stack: list[_Job]) -> Simulation:
    """Of all runs; a point's method is built once, so that its seeds have the same."""
    points = {id(job.tracker.point): job.tracker.point for job in stack}
    methods = {key: method_of(point) for key, point in points.items()}
    each = [job.tracker.point for job in stack for _ in job.runs]
    runs = [run for job in stack for run in job.runs]
    return Simulation(runs, [methods[id(point)] for point in each], [training_of(point) for point in each])


T = TypeVar("T")


def _or_say_whose(work: Callable[[], T], point: Settings) -> T:
    """What goes wrong in a user's own method is said in a sentence that names it."""
    try:
        return work()
    except GgeurError:
        raise
    except Exception as error:
        if not is_own(point.train.method):
            raise
        first = (str(error).splitlines() or [""])[0].rstrip(".")
        raise GgeurError(f"The method '{point.train.method}' failed: {type(error).__name__}: {first}.") from error


def _bound(point: Settings) -> bool:
    """There, nobody sends anything as a federation would."""
    return kind_of(point.train.method) is Bound


def _begin(job: _Job, training: Training) -> None:
    """What is known of a cell before its first round."""
    tracker, cell = job.tracker, job.tracker.cell
    tracker.start([run.params for run in job.runs])
    sets = [s for run in job.runs for s in run.sets if len(s.y) or len(job.runs) == 1]
    cell.local_steps = [training.steps(len(s.y)) for s in sets]
    if not _bound(tracker.point):
        cell.bytes_up, cell.bytes_down = bytes_before_training(tracker.point, load_table(tracker.point.data))


def _solve(tracker: Tracker) -> None:
    """A head that needs no training: one solution, scored as round 0."""
    began, point = time.perf_counter(), tracker.point
    name, table = point.train.method, load_table(point.data).split(tracker.seed)
    algorithm = resolve(name, head_of(point), point.method.get(name, {}))
    if isinstance(algorithm, Given):
        task = task_of(table, tracker.seed, name)
        if lacks := algorithm.lacks(task):
            tracker.cell.status, tracker.cell.message = "unavailable", lacks
            return
        params = algorithm.solve(task)
    else:
        parts = partition_rows(table, point, tracker.seed)
        if not any(len(p) for p in parts):
            raise GgeurError(f"The federation has no training samples at all (seed {tracker.seed}).")
        params = solved_head(name, table, parts, point, tracker.seed)
    tracker.cell.bytes_up, tracker.cell.bytes_down = solved_bytes(point, table)
    tracker.round(0, [params], 0.0)
    tracker.finish([params], time.perf_counter() - began)
