"""Run an experiment: every point of its grid, the seeds of a point stacked in one compiled program."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from ggeur.core.errors import GgeurError
from ggeur.engine.compilation import keep_compiled_programs
from ggeur.engine.federation import Run
from ggeur.engine.local import LocalOptimiser
from ggeur.engine.simulate import Simulation, Training
from ggeur.experiment.bounds import central_run, local_runs
from ggeur.experiment.config import Settings
from ggeur.experiment.cost import bytes_before_training, closed_form_bytes
from ggeur.experiment.evaluate import TestSet, mean_accuracy, summarise
from ggeur.experiment.federation import build_run, head_of, partition_rows, solved_head
from ggeur.experiment.folder import RunFolder
from ggeur.experiment.grid import Experiment
from ggeur.experiment.result import Cell, Result
from ggeur.experiment.source import load_table
from ggeur.heads.head import Params
from ggeur.methods import CLOSED, WITHOUT_DATA, resolve
from ggeur.methods.zeroshot import zeroshot

OnRound = Callable[[dict[str, Any]], None]
_STACK_BYTES = 2 * 2**30  # of noise held at once by the runs of a stack
_STACK_SEEDS = 10


def run(
    experiment: Experiment, *, out: str | os.PathLike[str] | None = None, on_round: OnRound | None = None
) -> Result:
    """Run every cell and return the result; with `out`, also write a run folder.

    `on_round` is called with {"cell", "round", "rounds", "domains", "avg", "loss"} after every round of every cell:
    the place to log to MLflow, Weights & Biases or TensorBoard.
    """
    keep_compiled_programs()
    folder = None if out is None else RunFolder(out, experiment)
    seeds = experiment.seeds
    cells = [
        Cell(point.train.method, point.augment.kind, seed, varied)
        for point, varied in zip(experiment.points, experiment.varied, strict=True)
        for seed in seeds
    ]
    try:
        for i, point in enumerate(experiment.points):
            at = i * len(seeds)
            trackers = [_Tracker(at + s, cells[at + s], point, folder, on_round) for s in range(len(seeds))]
            _run_point(point, trackers)
    except BaseException:
        if folder is not None:
            folder.abandon()
        raise
    result = Result(cells)
    if folder is not None:
        folder.finish(result)
    return result


def _run_point(point: Settings, trackers: Sequence["_Tracker"]) -> None:
    if point.train.method in (*CLOSED, *WITHOUT_DATA):
        for tracker in trackers:
            _solve(point, tracker)
    else:
        for stack in _stacks(point, trackers):
            _train(point, stack)


class _Tracker:
    """Follows one cell: scores its heads round by round, fills in its record, writes its lines and its model."""

    def __init__(
        self, number: int, cell: Cell, point: Settings, folder: RunFolder | None, on_round: OnRound | None
    ) -> None:
        self.cell, self.seed = cell, cell.seed
        self._number, self._point, self._folder, self._on_round = number, point, folder, on_round
        self._test: TestSet | None = None
        self._history: list[dict[str, float]] = []

    @property
    def test(self) -> TestSet:
        if self._test is None:
            self._test = TestSet(load_table(self._point.data).split(self.seed), head_of(self._point))
        return self._test

    def start(self, heads: Sequence[Params]) -> None:
        """Score the head that training starts from, where it is not a random one."""
        if self._point.train.start != "random":
            self.cell.start_avg = mean_accuracy(self.test.accuracy(heads[0]))

    def round(self, number: int, heads: Sequence[Params], loss: float) -> None:
        """After a round: the mean over `heads`, of which there is one but for the bound `local`."""
        if self.cell.status != "ok":
            return
        if not (np.isfinite(loss) and all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(heads))):
            self.cell.status = "diverged"
            self.cell.message = f"The loss became infinite or NaN in round {number}; a smaller train.rate may help."
            return
        scores = [self.test.accuracy(params) for params in heads]
        domains = {name: float(np.mean([s[name] for s in scores])) for name in scores[0]}
        avg = mean_accuracy(domains)
        self._history.append(domains)
        self.cell.rounds.append(avg)
        event = {"cell": self._number, "round": number, "domains": domains, "avg": avg, "loss": loss}
        if self._folder is not None:
            self._folder.record(event)
        if self._on_round is not None:
            self._on_round({**event, "rounds": self._point.train.rounds})

    def finish(self, heads: Sequence[Params], seconds: float) -> None:
        """The summary of the rounds; the model is saved where there is one model."""
        self.cell.seconds = seconds
        if self.cell.status != "ok":
            return
        self.cell.domains, self.cell.avg, self.cell.std, self.cell.rounds_to_95 = summarise(self._history)
        if len(heads) == 1:
            self.cell.recall, self.cell.macro_f1 = self.test.by_class(heads[0])
            if self._folder is not None:
                self._folder.save_model(self._number, heads[0], self._point, load_table(self._point.data))


class _Job(NamedTuple):
    tracker: _Tracker
    runs: list[Run]


def _stacks(point: Settings, trackers: Sequence[_Tracker]) -> Iterator[list[_Job]]:
    """The point's seeds, as many at once as memory allows; what is computed does not depend on it."""
    stack: list[_Job] = []
    held = 0
    for tracker in trackers:
        run = build_run(load_table(point.data).split(tracker.seed), point, tracker.seed)
        runs = _runs(point.train.method, run)
        size = 0 if run.bank is None else run.bank.nbytes
        if stack and (held + size > _STACK_BYTES or len(stack) == _STACK_SEEDS):
            yield stack
            stack, held = [], 0
        stack.append(_Job(tracker, runs))
        held += size
    yield stack


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
    )


def _train(point: Settings, stack: list[_Job]) -> None:
    began = time.perf_counter()
    method = resolve(point.train.method, head_of(point), point.method.get(point.train.method, {}))
    simulation = Simulation([run for job in stack for run in job.runs], method, training(point))
    ends = np.cumsum([len(job.runs) for job in stack])
    own = [slice(end - len(job.runs), end) for end, job in zip(ends, stack, strict=True)]
    up, down = bytes_before_training(point, load_table(point.data))
    for job in stack:
        job.tracker.start([run.params for run in job.runs])
        sets = [s for run in job.runs for s in run.sets if len(s.y) or len(job.runs) == 1]
        job.tracker.cell.local_steps = [simulation.training.steps(len(s.y)) for s in sets]
    heads: list[Params] = []
    for result in simulation.rounds():
        heads = result.params
        up, down = up + result.bytes_up, down + result.bytes_down
        for job, mine in zip(stack, own, strict=True):
            job.tracker.round(result.state.round, heads[mine], float(np.mean(result.loss[mine])))
    for job, mine in zip(stack, own, strict=True):
        job.tracker.cell.bytes_up, job.tracker.cell.bytes_down = up, down
        job.tracker.finish(heads[mine], (time.perf_counter() - began) / len(stack))


def _solve(point: Settings, tracker: _Tracker) -> None:
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
