"""Run an experiment: every point of its grid, trials that one compiled program serves stacked in it."""

from __future__ import annotations

import os
import zipfile
from contextlib import nullcontext
from pathlib import Path

from ggeur.core.errors import GgeurError
from ggeur.core.validate import check_path
from ggeur.data.table import EmbeddingTable
from ggeur.engine.compilation import keep_compiled_programs
from ggeur.experiment.computing import run_stack
from ggeur.experiment.inputs import fingerprints
from ggeur.experiment.setup import Setup
from ggeur.experiment.stacks import Work, stacks
from ggeur.experiment.tracker import OnRound, Tracker
from ggeur.experiment.trial_data import TrialData
from ggeur.runs.folder import RunFolder, finished_result, run_folder
from ggeur.runs.result import Result, Trial
from ggeur.runs.resuming import check_startable
from ggeur.settings.grid import Experiment


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
        trials = _cells(experiment, folder, on_round)
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


def _cells(experiment: Experiment, folder: RunFolder | None, on_round: OnRound | None) -> list[Work]:
    """Every trial, in order: points, and the seeds of each."""
    trials: list[Work] = []
    for point, varied in zip(experiment.points, experiment.varied, strict=True):
        setup = Setup.of(point)
        for seed in experiment.seeds:
            trial = Trial(point.train.method, point.augment.kind, seed, varied)
            trials.append(Work(Tracker(len(trials), trial, point, folder, on_round), setup))
    return trials
