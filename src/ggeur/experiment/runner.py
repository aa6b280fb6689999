"""Run an experiment: every point of its grid, the seeds of a point stacked in one compiled program."""

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from ggeur.engine.compilation import keep_compiled_programs
from ggeur.engine.federation import Run
from ggeur.engine.local import LocalOptimiser
from ggeur.engine.simulate import Round, Simulation, Training
from ggeur.experiment.config import Settings
from ggeur.experiment.cost import bytes_before_training
from ggeur.experiment.evaluate import TestSet, summarise
from ggeur.experiment.federation import build_run
from ggeur.experiment.folder import RunFolder
from ggeur.experiment.grid import Experiment
from ggeur.experiment.result import Cell, Result
from ggeur.experiment.source import load_table
from ggeur.heads import resolve as resolve_head
from ggeur.methods import resolve as resolve_method

OnRound = Callable[[dict[str, Any]], None]
_STACK_BYTES = 2 * 2**30  # of noise held at once by the runs of a stack
_STACK_RUNS = 10


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
            own = range(i * len(seeds), (i + 1) * len(seeds))
            for stack in _stacks(point, seeds):
                numbers = [own[seeds.index(run.seed)] for run in stack]
                _run_stack(point, stack, numbers, cells, folder, on_round)
    except BaseException:
        if folder is not None:
            folder.abandon()
        raise
    result = Result(cells)
    if folder is not None:
        folder.finish(result)
    return result


def _stacks(point: Settings, seeds: tuple[int, ...]) -> Iterator[list[Run]]:
    """The point's runs, as many at once as memory allows; what is computed does not depend on it."""
    stack: list[Run] = []
    for seed in seeds:
        run = build_run(load_table(point.data).split(seed), point, seed)
        held = sum(r.bank.nbytes for r in (*stack, run) if r.bank is not None)
        if stack and (held > _STACK_BYTES or len(stack) == _STACK_RUNS):
            yield stack
            stack = []
        stack.append(run)
    yield stack


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


def _run_stack(
    point: Settings,
    stack: list[Run],
    numbers: list[int],
    cells: list[Cell],
    folder: RunFolder | None,
    on_round: OnRound | None,
) -> None:
    """Train the stack and fill in its cells."""
    began = time.perf_counter()
    head = resolve_head(point.train.head, softmax=point.train.softmax)
    method = resolve_method(point.train.method, head, point.method.get(point.train.method, {}))
    table = load_table(point.data)
    tests = [TestSet(table.split(run.seed), head) for run in stack]
    simulation = Simulation(stack, method, training(point))
    history: list[list[dict[str, float]]] = [[] for _ in stack]
    last: Round | None = None
    for last in simulation.rounds():
        for r, number in enumerate(numbers):
            cell = cells[number]
            if cell.status == "ok":
                _record_round(cell, number, r, last, tests[r], history[r], point, folder, on_round)
    assert last is not None
    up, down = bytes_before_training(point, table)
    for r, number in enumerate(numbers):
        cell = cells[number]
        cell.seconds = (time.perf_counter() - began) / len(stack)
        cell.local_steps = [simulation.training.steps(len(s.y)) for s in stack[r].sets]
        cell.bytes_up = up + last.bytes_up * point.train.rounds
        cell.bytes_down = down + last.bytes_down * point.train.rounds
        if cell.status == "ok":
            cell.domains, cell.avg, cell.std, cell.rounds_to_95 = summarise(history[r])
            cell.recall, cell.macro_f1 = tests[r].by_class(last.params[r])
            if folder is not None:
                folder.save_model(number, last.params[r], point, table)


def _record_round(
    cell: Cell,
    number: int,
    r: int,
    round_: Round,
    test: TestSet,
    history: list[dict[str, float]],
    point: Settings,
    folder: RunFolder | None,
    on_round: OnRound | None,
) -> None:
    params, loss, at = round_.params[r], round_.loss[r], round_.state.round
    if not (np.isfinite(loss) and all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(params))):
        cell.status = "diverged"
        cell.message = f"The loss became infinite or NaN in round {at}; a smaller train.rate may help."
        return
    domains = test.accuracy(params)
    avg = float(np.mean(list(domains.values())))
    history.append(domains)
    cell.rounds.append(avg)
    event = {"cell": number, "round": at, "domains": domains, "avg": avg, "loss": loss}
    if folder is not None:
        folder.record(event)
    if on_round is not None:
        on_round({**event, "rounds": point.train.rounds})
