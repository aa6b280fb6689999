"""A site's own folder for one run: its training set, its test rows and its states, which never leave it.

A site's process starts anew for every message, so what is large is on disk; arrays are single .npy files, read as
memory maps. States are kept by round, since only the server knows which of them counted.
"""

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggeur.core.errors import GgeurError
from ggeur.core.types import Tree
from ggeur.data.files import read_arrays, write_atomically
from ggeur.deploy.wire.packing import Arrays, arrays_to_tree, tree_to_arrays

_STATE = re.compile(r"state-(\d+)\.npz")


class Store:
    """The folder of one cell of one run at one client."""

    def __init__(self, root: Path, run: str, cell: int, client: int) -> None:
        if not re.fullmatch(r"[0-9a-f]{8,64}", run):  # it becomes part of a path
            raise GgeurError("the run's identity is not a number in hexadecimal digits")
        self._run = root / run
        self.path = self._run / f"client-{int(client):05d}" / f"cell-{int(cell):05d}"

    def shared(self) -> Path:
        """The folder for what all cells of the run share at this client; of other users nobody may look into it."""
        self._run.parent.mkdir(parents=True, exist_ok=True)
        self._run.mkdir(exist_ok=True, mode=0o700)
        self.path.parent.mkdir(exist_ok=True, mode=0o700)
        return self.path.parent

    def keep(self, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any] | None]) -> None:
        """Write a new set; the facts come last and say that all is there."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.shared()
        self.path.mkdir(mode=0o700)
        for name, array in arrays.items():
            if array is not None:
                with write_atomically(self.path / f"{name}.npy") as file:
                    np.save(file, array, allow_pickle=False)
        with write_atomically(self.path / "facts.json") as file:
            file.write(json.dumps(dict(facts)).encode())

    def facts(self) -> dict[str, Any] | None:
        """What was kept with the set, or None where there is none."""
        try:
            return dict(json.loads((self.path / "facts.json").read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def array(self, name: str) -> NDArray[Any] | None:
        path = self.path / f"{name}.npy"
        return np.load(path, mmap_mode="r", allow_pickle=False) if path.exists() else None

    def put_tree(self, name: str, tree: Tree) -> None:
        arrays, shape = tree_to_arrays(tree, "leaf")
        with write_atomically(self.path / f"{name}.npz") as file:
            np.savez(file, allow_pickle=False, shape=np.array(shape), **arrays)

    def tree(self, name: str) -> Tree | None:
        path = self.path / f"{name}.npz"
        if not path.exists():
            return None
        try:
            arrays: Arrays = read_arrays(path)
            return arrays_to_tree(arrays, str(arrays.pop("shape")), "leaf")
        except (GgeurError, KeyError):  # damaged is as good as lost, and what is lost is sent again
            return None

    def put_state(self, number: int, tree: Tree, counted: int) -> None:
        """Keep the state after round `number`; of older ones that of the round that `counted` last, and one before."""
        self.put_tree(f"state-{number}", tree)
        known = sorted(int(m[1]) for m in map(_STATE.fullmatch, (p.name for p in self.path.iterdir())) if m)
        older = [k for k in known if k < counted]
        for k in older[:-1]:
            (self.path / f"state-{k}.npz").unlink(missing_ok=True)

    def state(self, number: int) -> Tree | None:
        return self.tree(f"state-{number}")

    def clear(self) -> None:
        """The run is over: nothing is left behind."""
        shutil.rmtree(self.path, ignore_errors=True)
        (self.path.parent / "table.npz").unlink(missing_ok=True)
        for folder in (self.path.parent, self._run):
            try:
                folder.rmdir()
            except OSError:  # other cells or clients are still there
                return
