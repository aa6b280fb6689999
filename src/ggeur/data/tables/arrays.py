"""Read `.npy` and `.npz`: arrays with one entry per sample, read on from the file and never all at once."""

import json
import math
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ggeur.data.table import FIRST_TEXT
from ggeur.data.tables.source import TEXT, Kind, SourceBatch, TableSource, batch_samples, reading
from ggeur.stats.errors import GgeurError
from ggeur.stats.storage import check_members, npy_header, read_arrays

_NPY, _NPZ = "a .npy file", "an .npz file"
_MOST_INFLATED = 1032  # bytes that one deflated byte can give
_CODES = {"y": "class_names", "domain": "domain_names"}  # of ggeur's own tables


class _Stream:
    """An array that is read from its start, some entries of its first axis at a time."""

    def __init__(self, file: IO[bytes], bytes_there: int) -> None:
        shape, by_columns, self.dtype = npy_header(file)
        self.shape = tuple(map(int, shape))
        if self.dtype.hasobject:
            raise GgeurError("it holds Python objects, which are not read", code="file-array-unreadable")
        if math.prod(self.shape) * max(self.dtype.itemsize, 1) > bytes_there:
            raise ValueError("it claims more numbers than it holds")
        self._file, self._left = file, self.shape[0] if self.shape else 0
        self._whole: NDArray[Any] | None = None
        if by_columns and len(self.shape) > 1:  # column by column in the file: only whole
            content = np.frombuffer(file.read(math.prod(self.shape) * self.dtype.itemsize), self.dtype)
            self._whole = content.reshape(self.shape, order="F")

    def take(self, n: int) -> NDArray[Any]:
        """Return the next `n` entries, fewer at the end."""
        n = min(n, self._left)
        if self._whole is not None:
            at = self.shape[0] - self._left
            self._left -= n
            return self._whole[at : at + n].copy()
        size = n * math.prod(self.shape[1:]) * self.dtype.itemsize
        content = bytearray(size)  # read straight into the array
        view, got = memoryview(content), 0
        while got < size and (more := self._file.readinto(view[got:])):  # type: ignore[attr-defined]
            got += more
        if got < size:
            raise ValueError("it is cut short")
        self._left -= n
        if not self._left and self._file.read(1):  # reading to the end also checks a checksum
            raise ValueError("it is longer than it says")
        return np.frombuffer(content, self.dtype).reshape(n, *self.shape[1:])


class NpySource(TableSource):
    """One `.npy` file: embeddings (n, p), or one column (n,), which has the file's name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with reading(path, _NPY), path.open("rb") as file:
            stream = _Stream(file, path.stat().st_size)
            if len(stream.shape) not in (1, 2):
                raise ValueError(f"its shape is {stream.shape}")
            self._name = "x" if len(stream.shape) == 2 else path.stem
            self.fields = {self._name: _kind(stream)}

    def batches(self, x: Sequence[str], columns: Sequence[str]) -> Iterator[SourceBatch]:
        """Yield batches of entries."""
        with reading(self.path, _NPY), self.path.open("rb") as file:
            stream = _Stream(file, self.path.stat().st_size)
            width = math.prod(stream.shape[1:])
            step = batch_samples(width, stream.dtype.itemsize)
            for at in range(0, stream.shape[0], step):
                if x or columns:
                    values = stream.take(step)
                    yield SourceBatch(values if x else None, {name: values.tolist() for name in columns}, len(values))
                else:
                    yield SourceBatch(None, {}, min(step, stream.shape[0] - at))


class NpzSource(TableSource):
    """One `.npz` file, of ggeur or of others: a matrix (n, p), and arrays (n,)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with reading(path, _NPZ):
            with zipfile.ZipFile(path) as archive:
                check_members(archive)
                shapes = {}
                for member in archive.namelist():
                    if member.endswith(".npy"):
                        with archive.open(member) as file:
                            shapes[member.removesuffix(".npy")] = npy_header(file)
            lengths = [shape[0] for shape, _, _ in shapes.values() if len(shape) == 2]
            samples = max(lengths, default=0)
            self._arrays = {k: s for k, (s, _, _) in shapes.items() if len(s) in (1, 2) and s[0] == samples}
            beside = [k for k in ("class_names", "domain_names", "meta", "text", "text_names") if k in shapes]
            for name in beside:
                self._arrays.pop(name, None)
            more = read_arrays(path, beside)
            self.names = {c: tuple(map(str, more[n].tolist())) for c, n in _CODES.items() if n in more and more[n].size}
            self.meta = dict(json.loads(str(more["meta"]))) if "meta" in more else {}
            if "text" in more:
                sets = more.get("text_names", np.array([FIRST_TEXT])).ravel().tolist()
                self.meta = {
                    **self.meta,
                    TEXT: dict(zip(sets, more["text"].reshape(len(sets), -1, more["text"].shape[-1]), strict=True)),
                }
            self.fields = {k: _kind_of(shapes[k][2], len(s)) for k, s in self._arrays.items()}

    def batches(self, x: Sequence[str], columns: Sequence[str]) -> Iterator[SourceBatch]:
        """Yield batches of entries of all arrays side by side."""
        with reading(self.path, _NPZ), zipfile.ZipFile(self.path) as archive, ExitStack() as held:
            there = _MOST_INFLATED * self.path.stat().st_size
            streams = {}
            for name in dict.fromkeys([*x, *columns]):
                info = archive.getinfo(f"{name}.npy")
                streams[name] = _Stream(held.enter_context(archive.open(info)), min(info.file_size, there))
            samples = next(iter(self._arrays.values()))[0]
            width = max((math.prod(s.shape[1:]) * s.dtype.itemsize for s in streams.values()), default=1)
            step = batch_samples(width, 1)
            for at in range(0, samples, step):
                taken = {name: stream.take(step) for name, stream in streams.items()}
                n = min(step, samples - at)
                yield SourceBatch(taken[x[0]] if x else None, {name: taken[name].tolist() for name in columns}, n)


def _kind(stream: _Stream) -> Kind:
    return _kind_of(stream.dtype, len(stream.shape))


def _kind_of(dtype: np.dtype[Any], axes: int) -> Kind:
    if axes == 2:
        return "vector" if dtype.kind in "fiu" else "name"
    return "whole" if dtype.kind in "biu" else "number" if dtype.kind == "f" else "name"
