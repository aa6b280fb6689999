"""Run an experiment: every point of its grid, the seeds of a point stacked in one compiled program."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ggeur.core.errors import GgeurError
from ggeur.data.files import CannotWrite
from ggeur.data.table import EmbeddingTable
from ggeur.engine.compilation import keep_compiled_programs
from ggeur.engine.federation import Run
from ggeur.engine.local import LocalOptimiser
from ggeur.engine.simulate import Simulation, Training
from ggeur.experiment.bounds import central_run, local_runs
from ggeur.experiment.config import Settings
from ggeur.experiment.cost import bytes_before_training, closed_form_bytes
from ggeur.experiment.federation import build_run, head_of, partition_rows, solved_head
from ggeur.experiment.folder import RunFolder, check_same
from ggeur.experiment.grid import Experiment
from ggeur.experiment.interrupt import check
from ggeur.experiment.result import Cell, Result
from ggeur.experiment.source import load_table
from ggeur.experiment.tracker import OnRound, Tracker
from ggeur.methods import BOUNDS, CLOSED, WITHOUT_DATA, resolve
from ggeur.methods.zeroshot import zeroshot

_STACK_BYTES = 2 * 2**30  # of noise held at once by the runs of a stack
_STACK_SEEDS = 10


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
        for number, (point, stack) in enumerate(_all_stacks(experiment, trackers)):
            _run_stack(point, number, stack, folder)
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


def _all_stacks(experiment: Experiment, trackers: list[Tracker]) -> Iterator[tuple[Settings, list[Tracker]]]:
    """The cells that are computed together: seeds of one point, few enough to fit in memory."""
    n = len(experiment.seeds)
    for i, point in enumerate(experiment.points):
        own = trackers[i * n : (i + 1) * n]
        size = 1 if point.train.method in (*CLOSED, *WITHOUT_DATA) else stack_size(point, load_table(point.data))
        for first in range(0, n, size):
            yield point, own[first : first + size]


def _run_stack(point: Settings, number: int, stack: list[Tracker], folder: RunFolder | None) -> None:
    if all(tracker.done for tracker in stack):
        return
    if point.train.method in (*CLOSED, *WITHOUT_DATA):
        for tracker in stack:
            _solve(point, tracker)
    else:
        _train(point, number, stack, folder)


class _Job(NamedTuple):
    tracker: Tracker
    runs: list[Run]


def stack_size(point: Settings, table: EmbeddingTable) -> int:
    """How many seeds run together: a function of the settings alone, so that a resumed run stacks as before."""
    if point.augment.kind != "ggeur":
        return _STACK_SEEDS
    clients = point.partition.clients if point.partition.kind == "dirichlet" else table.n_domains
    draws = (point.augment.target or 0) + table.n_domains * point.augment.per_prototype
    one = 4 * table.dimension * table.n_classes * draws  # what one client draws is never shared
    return max(1, min(_STACK_SEEDS, _STACK_BYTES // min(clients * one, max(one, point.augment.bank_mib * 2**20))))


def _runs(method: str, run: Run) -> list[Run]:
    if method == "local":
        return local_runs(run)
    return [central_run(run)] if method == "central" else [run]


def training(point: Settings) -> Training:
    """[train] as the engine takes it."""
    t = point.train
    return Training(
        rounds=t.rounds,
        batch=t.batch,
        rate=t.rate,
        local_epochs=t.local_epochs,
        local_steps=t.local_steps,
        optimiser=LocalOptimiser(t.optimiser, t.momentum, t.weight_decay),
        clients_per_round=t.clients_per_round,
        broadcast=t.broadcast,
        storage=t.storage,
    )


def _train(point: Settings, number: int, trackers: list[Tracker], folder: RunFolder | None) -> None:
    began = time.perf_counter()
    table = load_table(point.data)
    stack = [_Job(t, _runs(point.train.method, build_run(table.split(t.seed), point, t.seed))) for t in trackers]
    method = resolve(point.train.method, head_of(point), point.method.get(point.train.method, {}))
    simulation = Simulation([run for job in stack for run in job.runs], method, training(point))
    ends = np.cumsum([len(job.runs) for job in stack])
    own = [slice(end - len(job.runs), end) for end, job in zip(ends, stack, strict=True)]
    state = simulation.start()
    bound = point.train.method in BOUNDS  # there, nobody sends anything as a federation would
    snapshot = None if folder is None else folder.snapshot
    if snapshot is not None and snapshot.stack == number:
        state = snapshot.state(state)
        for tracker, memory in zip(trackers, snapshot.cells, strict=True):
            tracker.recall(memory)
    else:
        up, down = (0, 0) if bound else bytes_before_training(point, table)
        for job in stack:
            job.tracker.start([run.params for run in job.runs])
            sets = [s for run in job.runs for s in run.sets if len(s.y) or len(job.runs) == 1]
            job.tracker.cell.local_steps = [simulation.training.steps(len(s.y)) for s in sets]
            job.tracker.cell.bytes_up, job.tracker.cell.bytes_down = up, down
    for result in simulation.rounds(state):
        check()
        state = result.state
        for job, mine in zip(stack, own, strict=True):
            if not bound:
                job.tracker.cell.bytes_up += result.bytes_up[mine.start]
                job.tracker.cell.bytes_down += result.bytes_down[mine.start]
            job.tracker.round(state.round, result.params[mine], float(np.mean(result.loss[mine])))
        if folder is not None and (state.round % point.run.checkpoint_every == 0 or state.round == point.train.rounds):
            folder.checkpoint(number, state, [t.memory() for t in trackers])
    heads = simulation.heads(state)
    for job, mine in zip(stack, own, strict=True):
        job.tracker.finish(heads[mine], (time.perf_counter() - began) / len(stack))


def _solve(point: Settings, tracker: Tracker) -> None:
    """A head that needs no training: one solution, scored as round 0."""
    began = time.perf_counter()
    name, table = point.train.method, load_table(point.data).split(tracker.seed)
    if name == "zeroshot":
        if table.text is None:
            tracker.cell.status = "unavailable"
            tracker.cell.message = "zeroshot needs a table with text embeddings of the class names."
            return
        params = zeroshot(table.text)
    else:
        parts = partition_rows(table, point, tracker.seed)
        if not any(len(p) for p in parts):
            raise GgeurError(f"The federation has no training samples at all (seed {tracker.seed}).")
        params = solved_head(name, table, parts, point, tracker.seed)
    tracker.cell.bytes_up, tracker.cell.bytes_down = closed_form_bytes(name, table)
    tracker.round(0, [params], 0.0)
    tracker.finish([params], time.perf_counter() - began)
