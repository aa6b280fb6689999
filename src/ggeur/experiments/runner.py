"""Run an experiment: every point of its grid, trials that one compiled program serves stacked in it."""

from __future__ import annotations

import os
import zipfile
from contextlib import nullcontext
from pathlib import Path

from ggeur.data.table import EmbeddingTable
from ggeur.engine.chunks import keep_compiled_programs
from ggeur.experiments.computing import run_stack
from ggeur.experiments.folder import RunFolder, finished_result, run_folder
from ggeur.experiments.grid import Experiment
from ggeur.experiments.result import Result, Trial
from ggeur.experiments.resuming import check_startable
from ggeur.experiments.settings import Settings
from ggeur.experiments.setup import Setup
from ggeur.experiments.stacks import Work, stacks
from ggeur.experiments.start_model import start_fingerprint
from ggeur.experiments.tracker import OnRound, Tracker
from ggeur.experiments.trial_data import TrialData
from ggeur.methods import has_own_head
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
