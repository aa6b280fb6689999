"""A site's folder for one run: its training set, its test samples and its states, which never leave it.

A site's process starts again for every message, so large arrays are .npy files on disk, read as memory maps. States
are kept by round, since only the server knows which of them counted. Damaged files count as lost, and the server sends
lost ones again.
"""

import json
import re
import shutil
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggeur.flower.wire.packing import load_tree, save_tree
from ggeur.stats.errors import GgeurError
from ggeur.stats.storage import write_atomically, write_bytes
from ggeur.stats.types import Tree


class LostFile(Exception):
    """The training set or a tree is missing or damaged."""


class Store:
    """The folder below `root` of trial `trial` of the run `run` at client `client`."""

    def __init__(self, root: Path, run: str, trial: int, client: int) -> None:
        if not re.fullmatch(r"[0-9a-f]{8,64}", run):  # it becomes part of a path
            raise GgeurError(
                "the run's identity is not a number in hexadecimal digits", code="site-run-identity-invalid"
            )
        self.identity = f"{run}-{int(client)}-{int(trial)}"
        self._run = root / run
        self.path = self._run / f"client-{int(client):05d}" / f"trial-{int(trial):05d}"

    def shared(self) -> Path:
        """Return the folder of what all trials of the run share at this client; other users cannot read it."""
        self._run.parent.mkdir(parents=True, exist_ok=True)
        self._run.mkdir(exist_ok=True, mode=0o700)
        self.path.parent.mkdir(exist_ok=True, mode=0o700)
        return self.path.parent

    def put_set(self, fingerprint: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Keep the set of the table with this `fingerprint`; the file written last marks all `arrays` as complete."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.shared()
        self.path.mkdir(mode=0o700)
        for name, array in arrays.items():
            with write_atomically(self.path / f"{name}.npy") as file:
                np.save(file, array, allow_pickle=False)
        facts = {"fingerprint": fingerprint, "checksums": {name: _checksum(a) for name, a in arrays.items()}}
        write_bytes(self.path / "facts.json", json.dumps(facts).encode())

    def has_set(self, fingerprint: str) -> bool:
        """Return whether a set of the table with this `fingerprint` was kept."""
        return bool(self._facts().get("fingerprint") == fingerprint)

    def arrays(self, *names: str) -> list[NDArray[Any]]:
        """Return the set's arrays of these `names`, as memory maps."""
        try:
            found = [np.load(self.path / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in names]
            sound = [_checksum(array) for array in found] == [self._facts()["checksums"][name] for name in names]
        except Exception as error:  # on damaged bytes numpy raises a dozen types
            raise LostFile("set") from error
        if not sound:
            raise LostFile("set")
        return found

    def _facts(self) -> dict[str, Any]:
        try:
            return dict(json.loads((self.path / "facts.json").read_bytes()))
        except (OSError, ValueError, TypeError):
            return {}

    def put_tree(self, name: str, tree: Tree) -> None:
        """Keep `tree` beside the set, under `name`."""
        save_tree(self.path / f"{name}.npz", tree)

    def tree(self, name: str) -> Tree:
        """Return the tree kept under `name`."""
        try:
            return load_tree(self.path / f"{name}.npz")
        except GgeurError as error:
            raise LostFile(name) from error

    def put_state(self, number: int, tree: Tree, counted: int) -> None:
        """Keep the state `tree` after round `number`.

        Older states are removed but that of `counted`, the last round to count, and one before.
        """
        self.put_tree(f"state-{number}", tree)
        known = sorted(int(path.stem.removeprefix("state-")) for path in self.path.glob("state-*.npz"))
        for k in [k for k in known if k < counted][:-1]:
            (self.path / f"state-{k}.npz").unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove all files of the run."""
        shutil.rmtree(self.path, ignore_errors=True)
        (self.path.parent / "table.npz").unlink(missing_ok=True)
        with suppress(OSError):  # other trials or clients may still be there
            self.path.parent.rmdir()
            self._run.rmdir()


def _checksum(array: NDArray[Any]) -> int:
    """Return the CRC of an array's shape, type and bytes."""
    return zlib.crc32(np.ascontiguousarray(array).data, zlib.crc32(f"{array.shape}{array.dtype}".encode()))
