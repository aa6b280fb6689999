"""Checkpoints: finished trials, one file each, and the newest two states of the stack that is running.

Every file begins with the SHA-256 of the rest. A file that does not match counts as absent, and the state before it is
used. Nothing is pickled: arrays are an .npz, the rest is JSON.
"""

import hashlib
import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from ggeur.engine.simulate import State
from ggeur.experiments.result import Trial, read_trial
from ggeur.stats.custom import one_line
from ggeur.stats.errors import GgeurError
from ggeur.stats.storage import read_arrays, write_atomically
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
