"""Checkpoints: finished trials, one file each, and the newest two states of the stack that is running.

Every file begins with the SHA-256 of the rest. A file that does not match counts as absent, and the state before it is
used. Nothing is pickled: arrays are an .npz, the rest is JSON.
"""

import hashlib
import io
import json
import os
import platform
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from ggeur.engine.simulate import State
from ggeur.experiments.grid import Experiment, differences
from ggeur.experiments.result import Trial, read_trial
from ggeur.stats.custom import one_line
from ggeur.stats.errors import GgeurError, GgeurWarning
from ggeur.stats.storage import read_arrays, unsealed_line, write_atomically
from ggeur.stats.types import Tree


class InFlight(NamedTuple):
    """One trial of the stack: its number, its record so far, and the accuracies of its rounds."""

    number: int
    trial: Trial
    history: list[dict[str, float]]


class Snapshot(NamedTuple):
    """A stack after some round: its number, the engine's state, and its trials' records so far."""

    stack: int  # counted over the whole experiment
    round: int
    leaves: list[NDArray[Any]]  # of the engine's state
    trials: list[InFlight]

    def state(self, template: State) -> State:
        """Return the engine's state, with the structure of `template`, the state before round 1."""
        leaves, structure = jax.tree.flatten(_body(template))
        if [np.shape(a) for a in leaves] != [a.shape for a in self.leaves]:
            raise GgeurError(
                "The checkpoint belongs to another experiment: its arrays have other shapes.",
                code="checkpoint-other-experiment",
            )
        return State(self.round, *jax.tree.unflatten(structure, self.leaves))


def _body(state: State) -> tuple[Tree, Tree, Tree]:
    return state.servers, state.clients, state.heads


class Checkpoints:
    """The folder `checkpoint/` of a run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last: int | None = None  # the slot that was written last

    def save(self, stack: int, state: State, trials: Sequence[InFlight]) -> None:
        """Save this state and keep the one before it."""
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(_body(state))]
        about = {
            "stack": stack,
            "round": state.round,
            "trials": [(c.number, asdict(c.trial), c.history) for c in trials],
        }
        payload = io.BytesIO()
        arrays = {f"leaf{i}": leaf for i, leaf in enumerate(leaves)}
        np.savez(payload, allow_pickle=False, about=np.array(json.dumps(about)), **arrays)
        _write(self._path / f"state-{self._slot()}", payload.getvalue())

    def _slot(self) -> int:
        """Return the slot of the older state, so that the newer one stays until this one is complete."""
        if self._last is None:
            held = [_read_snapshot(self._path / f"state-{i}") for i in (0, 1)]
            at = [(-1, -1) if s is None else (s.stack, s.round) for s in held]
            self._last = 0 if at[0] > at[1] else 1
        self._last = 1 - self._last
        return self._last

    def newest(self) -> Snapshot | None:
        """Return the newest undamaged state."""
        found = [_read_snapshot(self._path / f"state-{i}") for i in (0, 1)]
        return max((s for s in found if s is not None), key=lambda s: (s.stack, s.round), default=None)

    def finish_trial(self, number: int, trial: Trial) -> None:
        _write(self._file(number), json.dumps(asdict(trial)).encode())

    def finished_trials(self) -> dict[int, Trial]:
        """Return the finished trials by number."""
        trials = {}
        for number in finished_numbers(self._path):
            path = self._file(number)
            payload = _read(path)
            if payload is not None:
                with _as_damaged(path):
                    trials[number] = read_trial(json.loads(payload))
        return trials

    def _file(self, number: int) -> Path:
        return self._path / f"trial-{number:05d}"


def finished_numbers(folder: Path) -> list[int]:
    """Return the numbers of the trials that have a file in the `folder` of checkpoints."""
    names = [path.name.removeprefix("trial-") for path in folder.glob("trial-*")]
    return sorted(int(name) for name in names if name.isdecimal())


def _write(path: Path, payload: bytes) -> None:
    with write_atomically(path) as file:
        file.write(hashlib.sha256(payload).digest())
        file.write(payload)


def _read(path: Path) -> bytes | None:
    """Return the payload; None for a file that is absent or damaged."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise GgeurError(f"Cannot read {path}: {error.strerror or error}.", code="file-unreadable") from error
    digest, payload = content[:32], content[32:]
    return payload if hashlib.sha256(payload).digest() == digest else None


def _read_snapshot(path: Path) -> Snapshot | None:
    payload = _read(path)
    if payload is None:
        return None
    arrays = read_arrays(io.BytesIO(payload), of=path)
    with _as_damaged(path):
        about = json.loads(str(arrays.pop("about")))
        leaves = [arrays[f"leaf{i}"] for i in range(len(arrays))]
        trials = [
            InFlight(int(number), read_trial(trial), [{str(k): float(v) for k, v in r.items()} for r in history])
            for number, trial, history in about["trials"]
        ]
        return Snapshot(int(about["stack"]), int(about["round"]), leaves, trials)


@contextmanager
def _as_damaged(path: Path) -> Iterator[None]:
    """Raise GgeurError for a file whose checksum matches but whose content is not a checkpoint."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise GgeurError(
            f"{path} is not a checkpoint of ggeur: {one_line(error)}.", code="file-not-checkpoint"
        ) from error


VERSIONS = "versions.json"
_PACKAGES = ("ggeur", "numpy", "scipy", "jax", "optax", "scikit-learn")


def installed_versions() -> dict[str, str]:
    """Return Python's version and those of the packages that numbers depend on."""
    return {"Python": platform.python_version()} | {name: version(name) for name in _PACKAGES}


def read_versions(folder: Path) -> dict[str, str]:
    """Return the versions that a run folder keeps; empty if there are none that can be read."""
    try:
        kept = json.loads((folder / VERSIONS).read_text(encoding="utf-8"))
        return {str(name): str(found) for name, found in kept.items()}
    except (OSError, ValueError, AttributeError):
        return {}


def check_same(path: Path, experiment: Experiment) -> None:
    """Raise unless `path` holds a run of this experiment."""
    if not os.path.exists(path / "config.toml"):
        raise GgeurError(
            f"There is no run in {path} to resume; start one with `ggeur run EXPERIMENT --out {path}`.",
            code="run-missing",
        )
    there = differences(Experiment.load(path / "config.toml", custom=False).tree, experiment.tree)
    if there:
        raise GgeurError(
            f"{path} holds a run of another experiment: {there[0]}; name a new folder with --out.",
            code="run-other-experiment",
        )


def check_resumable(path: Path, *, real: bool) -> None:
    """Raise unless `path` holds a run to resume: on `real` machines, or simulated."""
    if not os.path.exists(path / "config.toml"):
        raise GgeurError(
            f"There is no run in {path} to resume; start one with `ggeur run EXPERIMENT --out {path}`.",
            code="run-missing",
        )
    if os.path.exists(path / "result.json"):
        return
    if real and not os.path.exists(path / "federation.jsonl"):
        raise GgeurError(f"{path} holds a simulation; go on with `ggeur run --resume {path}`.", code="run-simulated")
    if not real and os.path.exists(path / "federation.jsonl"):
        raise GgeurError(
            f"{path} holds a run over real machines; go on with `ggeur federate up --resume {path}`.",
            code="run-over-machines",
        )


def check_startable(path: Path) -> None:
    """Raise unless a run can start in the folder `path`, which need not exist."""
    if os.path.exists(path) and not path.is_dir():
        raise GgeurError(f"{path} is a file; name a new folder with --out.", code="folder-is-file")
    if path.is_dir() and not startable(path):
        raise GgeurError(not_empty(path), code="folder-not-empty")


def startable(path: Path) -> bool:
    """Return whether a folder is empty, or holds only files of a process that ended before its run began."""
    there = {entry.name for entry in path.iterdir()}
    return there <= {".lock", "checkpoint", VERSIONS} and not any((path / "checkpoint").glob("*"))


def not_empty(path: Path) -> str:
    if (path / "config.toml").exists():
        return f"The folder {path} already holds a run; name a new one with --out, or go on with --resume {path}."
    return f"The folder {path} is not empty; name a new one with --out."


def note_other_versions(path: Path) -> None:
    """Warn where the run in `path` was started with other versions of packages that numbers depend on."""
    before, now = read_versions(path), installed_versions()
    other = [f"{name} {was} (now {now[name]})" for name, was in before.items() if now.get(name, was) != was]
    if other:
        words = f"{path} was started with {', '.join(other)}; numbers from here on may differ in the last digits."
        warnings.warn(words, GgeurWarning, stacklevel=3)


def lines_kept(path: Path, finished: Mapping[int, Any], snapshot: Snapshot | None) -> list[bytes]:
    """Return the lines of each round once: all of a finished trial, and of a running one up to its checkpoint."""
    upto = {} if snapshot is None else {trial.number: snapshot.round for trial in snapshot.trials}
    kept: dict[tuple[int, int], bytes] = {}
    lines = path.read_bytes().splitlines(keepends=True)
    for number, line in enumerate(lines, 1):
        try:
            event = unsealed_line(line)
            trial, round_ = int(event["trial"]), int(event["round"])
        except (ValueError, KeyError, TypeError) as error:
            if number == len(lines):
                break  # cut by a crash, to be written again
            raise GgeurError(
                f"{path} is damaged in line {number} ({error}); take it out to go on.", code="file-line-damaged"
            ) from error
        if trial in finished or round_ <= upto.get(trial, -1):
            kept.setdefault((trial, round_), line)
    return list(kept.values())
