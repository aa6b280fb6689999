"""Checks before a run starts or resumes, its versions, and the metrics kept from an earlier process."""

import json
import os
import platform
import warnings
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ggeur.experiments.checkpoint import Snapshot
from ggeur.experiments.grid import Experiment, differences
from ggeur.stats.errors import GgeurError, GgeurWarning
from ggeur.stats.storage import unsealed_line

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
    there = differences(Experiment.load(path / "config.toml", own=False).tree, experiment.tree)
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
