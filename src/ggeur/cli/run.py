"""`ggeur run`: an experiment file, from start to table, or from where it stopped."""

import shlex
import time
from pathlib import Path

import typer

from ggeur.cli.show import console, progress, result_table, show_messages
from ggeur.core.errors import GgeurError
from ggeur.experiment.runner import run as run_experiment
from ggeur.runs.result import Result
from ggeur.settings.grid import Experiment


def run(path: Path | None, out: Path | None, resume: Path | None, overrides: list[str]) -> None:
    if resume is not None:
        if out is not None:
            raise GgeurError("--out names a new run folder and --resume an old one; give one of them.")
        experiment = Experiment.load(path or resume / "config.toml", overrides)
        execute(experiment, resume, title=resume.name, resume=True)
    elif path is not None:
        execute(Experiment.load(path, overrides), out or default_folder(path.stem), title=path.stem)
    else:
        raise GgeurError("Name an experiment file to run, or a run folder to go on in with --resume.")


def execute(experiment: Experiment, out: Path, title: str, *, resume: bool = False) -> Result:
    """Run with progress, print the table, and say where everything is."""
    result = followed(experiment, out, resume=resume, go_on=": ggeur run --resume")
    console.print()
    console.print(result_table(result, title))
    show_messages(result)
    console.print(f"Results and trained heads are in {out}", markup=False, highlight=False)
    return result


def followed(experiment: Experiment, out: Path, *, resume: bool, go_on: str) -> Result:
    """Run with progress; a user who stops it is told how to "go on with" the folder."""
    try:
        with progress(experiment, out) as on_round:
            return run_experiment(experiment, out=out, resume=resume, on_round=on_round)
    except KeyboardInterrupt as stopped:
        if (out / "config.toml").exists():
            words = f"Stopped. Go on with{go_on} {shlex.quote(str(out))}"
        else:
            words = "Stopped before the first round was kept; there is nothing to go on from."
        console.print(words, markup=False, highlight=False)
        raise typer.Exit(130) from stopped


def default_folder(name: str) -> Path:
    """runs/<name>-<time>, so that no run overwrites another."""
    base = Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    return next(p for p in (base, *(Path(f"{base}-{i}") for i in range(2, 1000))) if not p.exists())
