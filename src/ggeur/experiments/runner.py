"""Run an experiment: every point of its grid, trials that one compiled program serves stacked in it."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Hashable, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import NamedTuple

import jax

from ggeur.data.table import EmbeddingTable
from ggeur.engine.local import keep_compiled_programs
from ggeur.experiments.checkpoint import check_startable
from ggeur.experiments.computing import run_stack
from ggeur.experiments.folder import RunFolder, finished_result, run_folder
from ggeur.experiments.grid import Experiment
from ggeur.experiments.result import Result, Trial
from ggeur.experiments.settings import Settings
from ggeur.experiments.setup import Setup
from ggeur.experiments.tracker import OnRound, Tracker, Work
from ggeur.experiments.trial_data import TrialData, start_fingerprint
from ggeur.federation.augmentation import Augmentation
from ggeur.heads.head import Params
from ggeur.methods import has_own_head
from ggeur.methods.algorithm import Task
from ggeur.stats.errors import GgeurError, Unavailable
from ggeur.stats.validate import check_path


def fingerprints(experiment: Experiment, trial_data: TrialData) -> dict[str, str]:
    """By name, of all that the points of `experiment` read; a run that goes on must find the same."""
    sources = dict.fromkeys(point.data for point in experiment.points)
    found = {str(s.table or s.dataset): trial_data.table(s).fingerprint() for s in sources}
    for point in experiment.points:
        found |= start_fingerprint(point) | _weights_fingerprint(point, trial_data)
    return found


def _weights_fingerprint(point: Settings, trial_data: TrialData) -> dict[str, str]:
    """Of what a method has frozen, such as a text tower; nothing of one that cannot be built, which is said later."""
    if not has_own_head(point.train.method):
        return {}
    try:
        trained = Setup.of(point).of_task(trial_data.task(point.data)).trained
    except Unavailable:
        return {}
    own = None if trained is None else trained.method.head
    found = "" if own is None else own.weights()
    method, clip = point.train.method, point.method.get(point.train.method, {}).get("clip")
    where = f" in {clip}" if clip else ""
    return {f"The frozen model of {method}{where} for {point.data.table or point.data.dataset}": found} if found else {}


def run(
    experiment: Experiment,
    *,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    on_round: OnRound | None = None,
) -> Result:
    """Run every trial and return the result.

    Parameters
    ----------
    experiment : what to run: `Experiment.load(path)` or `Experiment.of({...})`.
    out : a run folder to write; without one nothing is kept on disk.
    resume : go on in `out` where an earlier process stopped.
    on_round : called with {"trial", "round", "rounds", "domains", "avg", "loss"} after every round of every trial: the
        place to log from; [run] track, which logs to MLflow and others, is followed by the command line.

    >>> settings = {"data": {"dataset": "mini-digits"}, "augment": {"kind": "none"}, "train": {"method": "lda"}}
    >>> (row,) = run(Experiment.of({**settings, "partition": {"kind": "domain"}})).rows()
    >>> sorted(row.domains)
    ['clutter', 'handwritten', 'texture', 'typeset']
    """
    if not isinstance(experiment, Experiment):
        raise GgeurError(
            "run takes an Experiment: make one with Experiment.of({...}) or Experiment.load(path).",
            code="argument-not-experiment",
        )
    out = None if out is None else check_path("out", out)
    if on_round is not None and not callable(on_round):
        raise GgeurError(
            "on_round must be a function, which is called after every round.", code="argument-not-function"
        )
    keep_compiled_programs()
    if resume and out is not None and (done := finished_result(out, experiment)) is not None:
        return done
    with nullcontext() if out is None else run_folder(out, experiment, resume=resume) as folder:
        trial_data = TrialData()
        if folder is not None:
            folder.check_inputs(fingerprints(experiment, trial_data))
        trials = _trials(experiment, folder, on_round)
        for number, stack in enumerate(stacks(trials, trial_data)):
            if not all(work.tracker.done for work in stack):
                run_stack(number, stack, folder, trial_data)
        result = Result([work.tracker.trial for work in trials])
        if folder is not None:
            folder.finish(result)
    return result


def check_ready(experiment: Experiment, out: Path | None) -> None:
    """Return what can be told at once of an `experiment` and its new folder `out`: better than after a bar has
    appeared.
    """
    if out is not None:
        check_startable(out)
    for table in dict.fromkeys(point.data.table for point in experiment.points):
        if table is not None and not zipfile.is_zipfile(table):
            EmbeddingTable.load(table)  # which says what is wrong


def _trials(experiment: Experiment, folder: RunFolder | None, on_round: OnRound | None) -> list[Work]:
    """Every trial, in order: points, and the seeds of each."""
    trials: list[Work] = []
    for point, varied in zip(experiment.points, experiment.varied, strict=True):
        setup = Setup.of(point)
        for seed in experiment.seeds:
            trial = Trial(point.train.method, point.augment.kind, seed, varied)
            trials.append(Work(Tracker(len(trials), trial, point, folder, on_round), setup))
    return trials


_STACK_BYTES = 2 * 2**30  # of noise, and of clients' heads, states and messages, held at once by a stack
_COPIES = 8  # of a head for every client: its state, its message, where it ends, and these put together
_STACK_TRIALS = 10


def stacks(trials: Sequence[Work], trial_data: TrialData) -> list[list[Work]]:
    """The trials in groups; groups are in the order of their first trials."""
    facts: dict[int, _Facts] = {}
    groups: list[list[Work]] = []
    filling: dict[Hashable, tuple[list[Work], dict[Hashable, int]]] = {}  # by program: its last group, what it holds
    for work in trials:
        setup, point = work.setup, work.setup.settings
        if setup.trained is None:
            groups.append([work])
            continue
        if id(setup) not in facts:
            facts[id(setup)] = _Facts.of(setup, trial_data.table(point.data), trial_data.task(point.data))
        program, noise, heads = facts[id(setup)]
        program = program, setup.samples(work.tracker.seed)  # the trials of a stack share one table
        # Noise is held once by the trials that share it.
        more: dict[Hashable, int] = {(setup.dealt, work.tracker.seed): noise, work.tracker.number: heads}
        group, held = filling.get(program, ([], {}))
        if not group or len(group) == _STACK_TRIALS or sum((held | more).values()) > _STACK_BYTES:
            group, held = [], {}
            groups.append(group)
            filling[program] = group, held
        group.append(work)
        held.update(more)
    return groups


class _Facts(NamedTuple):
    """Of a point: what trials must agree in to be computed together, and what one of them holds, in bytes."""

    program: Hashable
    noise: int
    heads: int

    @classmethod
    def of(cls, setup: Setup, table: EmbeddingTable, task: Task) -> _Facts:
        point, head, trained = setup.settings, setup.head, setup.trained
        assert trained is not None
        clients = point.partition.clients if point.partition.kind == "dirichlet" else table.n_domains
        program = (
            clients,
            (setup.augmentation.draws_noise, setup.augmentation.rank),  # by which a step is cheap or dear
            head,
            point.augment.pictures,
            trained.recipe,
            setup.training.without_numbers(),
            point.train.method,
            point.run.checkpoint_every,
        )
        params = jax.eval_shape(_first(setup, task), jax.random.key(0))
        size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(params))
        return cls(program, _noise_bytes(setup.augmentation, table, clients), _COPIES * size * clients)


def _first(setup: Setup, task: Task) -> Callable[[jax.Array], Params]:
    """(key) -> what training starts from."""
    with suppress(Unavailable):  # which is said when its turn comes
        trained = setup.of_task(task).trained
        if trained is not None and trained.method.head is not None:
            return trained.method.head.init
    return lambda key: setup.head.init(key, task.dimension, len(task.class_names))


def _noise_bytes(a: Augmentation, table: EmbeddingTable, clients: int) -> int:
    """Of one seed's bank, at most, or of the shapes that take its place."""
    if a.noise is None or a.rule is None:
        return 0
    if a.rank is not None:
        return 4 * table.n_classes * (1 + min(a.rank, table.dimension) * table.dimension)
    sample, rule = 4 * table.dimension, a.rule
    prototypes = table.n_classes * table.n_domains * rule.per_prototype
    if rule.per_sample is None:
        around_own = table.n_classes * rule.target
        total = clients * (around_own + prototypes)
    else:
        around_own = len(table) * rule.per_sample  # if one client held all samples
        total = around_own + clients * prototypes
    one = around_own + prototypes  # what one client draws is never shared
    return min(sample * total, max(sample * one, a.bank_bytes))
