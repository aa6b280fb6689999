"""The run folder: the experiment, the metrics of every round, the result, the models, and checkpoints."""

import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from ggeur.engine.simulate import State
from ggeur.experiments.checkpoint import (
    VERSIONS,
    Checkpoints,
    InFlight,
    Snapshot,
    check_same,
    check_startable,
    installed_versions,
    lines_kept,
    note_other_versions,
)
from ggeur.experiments.grid import Experiment
from ggeur.experiments.result import Result, Trial
from ggeur.models.card import model_card
from ggeur.models.model import Model
from ggeur.models.site_files import CARD
from ggeur.stats.errors import GgeurError, GgeurWarning
from ggeur.stats.long_jobs import uninterrupted
from ggeur.stats.old_names import FILES
from ggeur.stats.storage import CannotWrite, lock_file, sealed_line, write_bytes

_NAMES = ("config.toml", VERSIONS, "inputs.json", "metrics.jsonl", ".lock", "checkpoint")


class RunFolder:
    """The folder of one run, used by one process at a time; made new, or opened again to resume."""

    def __init__(self, path: str | os.PathLike[str], experiment: Experiment, *, resume: bool = False) -> None:
        self.path = Path(path)
        self._made = not os.path.exists(self.path)
        self._resumed = resume
        self._started = False  # whether this process has written to the folder
        self._checkpoints = Checkpoints(self.path / "checkpoint")
        try:
            self._open(experiment)
            self.finished = self._finished_trials()
            self.snapshot = self._checkpoints.newest()
            self._metrics = self._open_metrics()
        except (GgeurError, OSError) as error:
            self._clear()
            if isinstance(error, GgeurError):
                raise
            raise GgeurError(
                f"Cannot write the run folder {self.path}: {error.strerror or error}.", code="run-folder-unwritable"
            ) from error

    def _open(self, experiment: Experiment) -> None:
        if self._resumed:
            check_same(self.path, experiment)
            note_other_versions(self.path)
        else:
            check_startable(self.path)
            self.path.mkdir(parents=True, exist_ok=True)
        self._lock = lock_file(self.path / ".lock", f"Another process is running in {self.path}.")
        if not self._resumed:
            self._started = True
            (self.path / "checkpoint").mkdir(exist_ok=True)
            write_bytes(self.path / VERSIONS, json.dumps(installed_versions(), indent=1).encode())
            write_bytes(self.path / "config.toml", experiment.to_toml().encode())

    def check_inputs(self, prints: Mapping[str, str]) -> None:
        """Note the fingerprints of what the run reads; on resuming, refuse what has changed since they were noted."""
        path = self.path / "inputs.json"
        if self._resumed and (path.exists() or self.finished or self.snapshot is not None):
            try:
                known = dict(json.loads(path.read_text(encoding="utf-8")))
            except (OSError, ValueError, TypeError) as error:
                raise GgeurError(
                    f"{path} is gone or damaged ({error}), so it is not known whether the tables are those the run was "
                    "started with; start a new run.",
                    code="run-inputs-unreadable",
                ) from error
            changed = [name for name, was in known.items() if prints.get(name) != was]
            if changed:
                raise GgeurError(
                    f"{changed[0]} has changed since {self.path} was started, or is gone; "
                    "start a new run, or bring back what was there.",
                    code="run-inputs-changed",
                )
        write_bytes(path, json.dumps(dict(prints), indent=1).encode())

    def record(self, event: Mapping[str, Any]) -> None:
        """Append one line to `metrics.jsonl`."""
        self._kept(lambda: (self._metrics.write(sealed_line(event)), self._metrics.flush()))

    def checkpoint(self, stack: int, state: State, trials: Sequence[InFlight]) -> None:
        """Save the stack's state after a round; signals wait until it is written."""
        with uninterrupted():
            self._kept(lambda: os.fsync(self._metrics.fileno()))
            self._checkpoints.save(stack, state, trials)

    def _kept(self, write: Callable[[], object]) -> None:
        try:
            write()
        except OSError as error:
            raise CannotWrite(
                f"Cannot write to {self.path}: {error.strerror or error}.", code="run-folder-unwritable"
            ) from error

    def snapshot_of(self, stack: int, trials: Sequence[int], todo: Sequence[int]) -> Snapshot | None:
        """Return where an earlier process stopped in this stack, if it did; a snapshot of other stacks is dropped."""
        found = self.snapshot
        if found is None:
            return None
        held = {trial.number for trial in found.trials}
        if found.stack == stack and set(todo) <= held <= set(trials):
            return found
        if held & set(trials):
            self._metrics.close()
            self.snapshot, self.finished = None, self._finished_trials()
            self._metrics = self._open_metrics()
        return None

    def finish_trial(self, number: int, trial: Trial, model: Model | None) -> None:
        """Save the trial, and its `model` if it has one, with a card below `model/`."""
        with uninterrupted():
            if model is not None:
                model.save(self._model(number))
                write_bytes(self._model(number) / CARD, model_card(model).encode())
            self._checkpoints.finish_trial(number, trial)

    @property
    def real(self) -> bool:
        """Return whether the run is on real machines, whose journal is then in the folder."""
        return (self.path / "federation.jsonl").exists()

    def finish(self, result: Result) -> None:
        """Write the result and remove the checkpoints."""
        with uninterrupted():
            self._metrics.close()
            write_bytes(self.path / "result.json", result.to_json().encode())
            shutil.rmtree(self.path / "checkpoint", ignore_errors=True)
            self._lock.close()

    def statistics(self, number: int) -> Path:
        """Return the folder of sites' statistics for the unfinished trial `number`; only its user can read it."""
        before = self.path / "checkpoint" / f"{FILES['statistics']}-{number:05d}"
        path = before if before.is_dir() else self.path / "checkpoint" / f"statistics-{number:05d}"
        path.mkdir(mode=0o700, exist_ok=True)
        return path

    def abandon(self) -> bool:
        """Remove the folder after an error or an interruption unless it can be resumed; return whether it can."""
        with suppress(OSError):
            self._metrics.close()
        self._lock.close()
        newest, trials = self._checkpoints.newest(), self._checkpoints.finished_trials()
        kept = newest is not None or trials or any(self.path.glob("checkpoint/statistics-*/*"))
        if self._resumed or self.finished or kept:
            return True
        self._clear()
        return False

    def _clear(self) -> None:
        """Remove what this process made, and nothing else."""
        if not self._started:
            return
        with suppress(OSError):
            for name in _NAMES:
                whole = self.path / name
                if whole.is_dir():
                    shutil.rmtree(whole)
                else:
                    whole.unlink(missing_ok=True)
            if self._made:
                self.path.rmdir()

    def _finished_trials(self) -> dict[int, Trial]:
        """Return the finished trials that still have their heads."""
        trials = self._checkpoints.finished_trials()
        gone = [n for n, trial in trials.items() if trial.recall and not (self._model(n) / "head.npz").exists()]
        if gone:
            which = ", ".join(map(str, gone))
            warnings.warn(
                f"In {self.path} the heads of finished trials are gone (numbers {which}); they are computed again.",
                GgeurWarning,
                stacklevel=3,
            )
        return {number: trial for number, trial in trials.items() if number not in gone}

    def _model(self, number: int) -> Path:
        return self.path / "model" / f"trial-{number:03d}"

    def _open_metrics(self) -> IO[bytes]:
        """Open the metrics to append, after the lines of an earlier process that its checkpoints cover."""
        path = self.path / "metrics.jsonl"
        if self._resumed and path.exists():
            kept = lines_kept(path, self.finished, self.snapshot)
            write_bytes(path, b"".join(kept))
        return path.open("ab")


@contextmanager
def run_folder(path: str | os.PathLike[str], experiment: Experiment, *, resume: bool) -> Iterator[RunFolder]:
    """Yield a run folder to the block, which `finish`es it; if the block fails, only a resumable folder is left."""
    folder = RunFolder(path, experiment, resume=resume)
    try:
        yield folder
    except CannotWrite as error:
        if folder.abandon():
            raise CannotWrite(
                f"{error} Repair that, then resume with `ggeur run --resume {folder.path}`.", code="run-not-finished"
            ) from error
        raise
    except BaseException:
        folder.abandon()
        raise


def finished_result(path: str | os.PathLike[str], experiment: Experiment) -> Result | None:
    """Return the result of a run that is finished; None if it can be resumed."""
    if not os.path.exists(Path(path) / "result.json"):
        return None
    check_same(Path(path), experiment)
    shutil.rmtree(
        Path(path) / "checkpoint", ignore_errors=True
    )  # an earlier process may have ended while removing them
    return Result.load(path)
