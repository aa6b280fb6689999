"""`ggeur run`: run an experiment file, or resume it."""

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ggeur.cli.options import ExperimentFile, JsonLines, Out, Overrides, Quiet, Resume
from ggeur.cli.screen import progress, say, show_result
from ggeur.stats.errors import GgeurError

if TYPE_CHECKING:
    from ggeur.experiments.grid import Experiment
    from ggeur.experiments.result import Result


def run(
    experiment: ExperimentFile = None,
    out: Out = None,
    resume: Resume = None,
    set_: Overrides = None,
    quiet: Quiet = False,
    json_lines: JsonLines = False,
) -> None:
    """Run an experiment file: a grid of settings and seeds."""
    asked, folder = experiment_and_folder(experiment, out, resume, set_)
    title = experiment.stem if experiment is not None and resume is None else folder.name
    execute(asked, folder, title=title, resume=resume is not None)


def experiment_and_folder(
    path: Path | None, out: Path | None, resume: Path | None, overrides: list[str] | None, *, real: bool = False
) -> tuple["Experiment", Path]:
    """Return the experiment that a command line names, and its run folder.

    `path` is the experiment file, `out` a new run folder, `resume` an earlier one, and `overrides` replace values. The
    run is on `real` machines, or simulated.
    """
    from ggeur.experiments.checkpoint import check_resumable
    from ggeur.experiments.grid import Experiment

    if resume is not None and out is not None:
        raise GgeurError(
            "--out names a new run folder and --resume an old one; give one of them.", code="option-conflict-resume"
        )
    if resume is not None:
        check_resumable(resume, real=real)
        finished = (resume / "result.json").exists()  # then no custom code is needed
        return Experiment.load(path or resume / "config.toml", overrides or [], custom=not finished), resume
    if path is None:
        raise GgeurError(
            "Name an experiment file to run, or a run folder to resume with --resume.", code="experiment-not-named"
        )
    return Experiment.load(path, overrides or []), out or default_folder(path.stem)


def execute(experiment: "Experiment", out: Path, title: str, *, resume: bool = False) -> "Result":
    """Run an `experiment` into the folder `out` with progress, and print the table under its `title`.

    `resume` continues in a folder of an earlier process.
    """
    result = run_with_progress(experiment, out, resume=resume, go_on=": ggeur run --resume")
    show_result(result, title)
    say(f"Results and trained heads are in {out}")
    return result


def run_with_progress(experiment: "Experiment", out: Path, *, resume: bool, go_on: str) -> "Result":
    """Run an `experiment` into the folder `out` with progress, or continue there with `resume`.

    A user who stops it is told to "go on with" the folder, after the words `go_on`.
    """
    from ggeur.experiments.folder import finished_result
    from ggeur.experiments.runner import check_ready
    from ggeur.experiments.runner import run as run_experiment
    from ggeur.report.tracking import check_tracking, tracked

    if resume and (done := finished_result(out, experiment)) is not None:
        return done
    check_ready(experiment, None if resume else out)
    check_tracking(experiment)
    try:
        with progress(experiment, out) as shown, tracked(experiment, out, shown) as on_round:
            return run_experiment(experiment, out=out, resume=resume, on_round=on_round)
    except KeyboardInterrupt as stopped:
        if (out / "config.toml").exists():
            say(f"Stopped. Go on with{go_on} {shlex.quote(str(out))}")
        else:
            say("Stopped before the first round was kept; there is nothing to go on from.")
        raise typer.Exit(130) from stopped


def default_folder(name: str) -> Path:
    """Return runs/<name>-<time>, so that no run overwrites another."""
    base = Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    return next(p for p in (base, *(Path(f"{base}-{i}") for i in range(2, 1000))) if not p.exists())
