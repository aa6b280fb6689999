"""The runs and models below a folder, each with its date, its state, its best method and that method's accuracy."""

import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from ggeur.experiments.checkpoint import finished_numbers
from ggeur.experiments.grid import Experiment
from ggeur.experiments.result import Result
from ggeur.models.model import Model
from ggeur.report.folders import is_model
from ggeur.report.tables import row_name
from ggeur.stats.errors import GgeurError
from ggeur.stats.storage import lock_file

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
        experiment = Experiment.load(folder / "config.toml", own=False)
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
    model = Model.load(folder, own=False, numbers=False)
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
