"""`ggeur run`: an experiment file, from start to table."""

import time
from pathlib import Path

from ggeur.cli.show import console, progress, result_table, show_messages
from ggeur.experiment.grid import Experiment
from ggeur.experiment.result import Result
from ggeur.experiment.runner import run as run_experiment


def run(path: Path, out: Path | None, overrides: list[str]) -> None:
    experiment = Experiment.load(path, overrides)
    execute(experiment, out or default_folder(path.stem), title=path.stem)


def execute(experiment: Experiment, out: Path, title: str) -> Result:
    """Run with progress, print the table, and say where everything is."""
    with progress(experiment) as on_round:
        result = run_experiment(experiment, out=out, on_round=on_round)
    console.print()
    console.print(result_table(result, title))
    show_messages(result)
    console.print(f"Results and trained heads are in {out}", highlight=False)
    return result


def default_folder(name: str) -> Path:
    """runs/<name>-<time>, so that no run overwrites another."""
    base = Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    return next(p for p in (base, *(Path(f"{base}-{i}") for i in range(2, 1000))) if not p.exists())
