"""A run folder and a model folder as a report reads them."""

import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from ggeur.experiments.checkpoint import finished_numbers
from ggeur.experiments.grid import Experiment
from ggeur.experiments.result import Result
from ggeur.experiments.table_contributions import contributions_of_point
from ggeur.federation.contributions import save_contributions
from ggeur.methods import kind_of
from ggeur.methods.algorithm import ClosedForm, Selection
from ggeur.models.model import Model
from ggeur.models.transaction import current
from ggeur.paper.reproduction import Reproduction
from ggeur.report.entries import ReportEntry, entries
from ggeur.report.tables import Comparison, compare, row_name
from ggeur.stats.errors import GgeurError
from ggeur.stats.storage import lock_file


class ReportedRun(NamedTuple):
    """The contents of a run folder: its result and settings, and the table and entries that people read."""

    folder: Path
    title: str
    result: Result
    experiment: Experiment
    reading: Reproduction | None
    table: Comparison
    entries: list[ReportEntry]


def read_run(folder: Path) -> ReportedRun:
    """The `folder`'s result and settings; a run that has not finished gives an error that says so."""
    result = Result.load(folder)
    experiment = Experiment.load(folder / "config.toml", custom=False)
    reading = Reproduction.load(folder)
    title = folder.resolve().name
    if reading is not None:
        title = f"{reading.table.replace('table', 'Table ')}: {reading.title}"
        title += f" (protocol {reading.protocol})" if reading.protocol != "paper" else ""
    table = compare(result, reading)
    return ReportedRun(folder, title, result, experiment, reading, table, entries(result, experiment, reading))


def find_contributions(run: ReportedRun) -> Path:
    """Compute the contributions of sites to the best one-shot classifier of a `run`, and keep them in its folder."""
    solved = [e for e in run.entries if e.avg is not None and kind_of(e.point.train.method) in (ClosedForm, Selection)]
    if not solved:
        raise GgeurError(
            f"{run.folder} has no finished one-shot classifier, and contributions are computed for one of those alone.",
            code="contributions-not-one-shot",
        )
    best = max(solved, key=lambda e: e.avg or 0.0)
    return save_contributions(contributions_of_point(best.point, run.experiment.seeds[0], best.name), run.folder)


def is_model(folder: Path) -> bool:
    """Return whether the folder holds a model, and not a run with several."""
    return current(folder, "model.json").is_file() and not (folder / "result.json").exists()


_DEEPEST = 4  # folders below the one that is listed
_METRICS = "metrics.jsonl"


class ListedFolder(NamedTuple):
    """A run or a model: where it is, when it last changed, how far it is, and its best method."""

    name: str
    kind: str  # "run" or "model"
    date: datetime
    state: str
    method: str = ""
    accuracy: float | None = None  # percent, AVG over domains


def list_runs(folder: Path) -> list[ListedFolder]:
    """Return the runs and models in `folder` and below, the newest first."""
    if not folder.is_dir():
        raise GgeurError(f"There is no folder {folder}.", code="folder-missing")
    return sorted((_listed(one, folder) for one in _folders(folder, _DEEPEST)), key=lambda one: one.date, reverse=True)


def _folders(folder: Path, deepest: int) -> Iterator[Path]:
    """Yield the run and model folders in `folder`; nothing inside one of them is looked at."""
    if _is_run(folder) or is_model(folder):
        yield folder
        return
    if deepest:
        with os.scandir(folder) as entries:
            below = [Path(e.path) for e in entries if e.is_dir(follow_symlinks=False) and not e.name.startswith(".")]
        for one in below:
            yield from _folders(one, deepest - 1)


def _is_run(folder: Path) -> bool:
    return (folder / "config.toml").is_file() and (folder / _METRICS).is_file()


def _listed(folder: Path, root: Path) -> ListedFolder:
    name = folder.resolve().name if folder == root else str(folder.relative_to(root))
    try:
        return _run(folder, name) if _is_run(folder) else _model(folder, name)
    except GgeurError as error:  # one damaged folder must not hide the others
        return ListedFolder(name, "run" if _is_run(folder) else "model", _date(folder), f"unreadable: {error.code}")


def _run(folder: Path, name: str) -> ListedFolder:
    if not (folder / "result.json").exists():
        experiment = Experiment.load(folder / "config.toml", custom=False)
        trials = len(experiment.points) * len(experiment.seeds)
        done = len(finished_numbers(folder / "checkpoint"))
        state = f"{'running' if _locked(folder) else 'stopped'}, {done} of {trials} trials"
        return ListedFolder(name, "run", _date(folder / _METRICS), state)
    rows = [row for row in Result.load(folder).rows() if row.avg is not None]
    date = _date(folder / "result.json")
    if not rows:
        return ListedFolder(name, "run", date, "finished, no trial succeeded")
    best = max(rows, key=lambda row: row.avg or 0.0)
    return ListedFolder(name, "run", date, "finished", row_name(best), best.avg)


def _model(folder: Path, name: str) -> ListedFolder:
    model = Model.load(folder, custom=False, numbers=False)
    method = str(model.algorithm.get("label") or model.algorithm.get("method") or model.head)
    return ListedFolder(name, "model", _date(folder / "model.json"), "fitted", method, model.metrics.get("avg"))


def _locked(folder: Path) -> bool:
    """Return whether a process is at work in the folder of a run."""
    try:
        lock_file(folder / ".lock", "").close()
    except GgeurError:
        return True
    except OSError:  # another user's folder: whoever works there cannot be seen
        return False
    return False


def _date(path: Path) -> datetime:
    return datetime.fromtimestamp(path.stat().st_mtime).astimezone()
