"""Read and write files: whole or not at all, without trust, with checksums and locks; caches, packaged data."""

import hashlib
import json
import math
import os
import re
import secrets
import tomllib
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ggeur.stats.errors import GgeurError, nearest_file
from ggeur.stats.old_names import record_of_before

_BETWEEN = 100  # bytes of headers that may lie between the contents of two members of an archive
_MOST_INFLATED = 1032  # bytes that one deflated byte can give


class CannotWrite(GgeurError):
    """The place is at fault, not the request: a full disk, a folder that is gone or may not be written."""


@contextmanager
def cannot(what: str, error_type: type[GgeurError] = GgeurError) -> Iterator[None]:
    """Within the block an OSError ends the sentence "Cannot `what`: ...", which is raised as `error_type`."""
    try:
        yield
    except OSError as error:
        code = "file-unreadable" if what.startswith("read ") else "file-unwritable"
        raise error_type(f"Cannot {what}: {error.strerror or error}.", code=code) from error


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Write `content` to the file `path`, whole or not at all."""
    with write_atomically(path) as file:
        file.write(content)


@contextmanager
def write_atomically(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a binary file that appears as `path` when the block ends well, and not at all otherwise."""
    path = Path(path)
    temporary: Path | None = None
    try:
        # Not mkstemp, whose 0600 would hide results from a user's colleagues.
        name = path.parent / f".{path.name}.{secrets.token_hex(4)}"
        with cannot(f"write {path}", CannotWrite):
            with name.open("xb") as file:
                temporary = name
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
            temporary = None
    finally:
        if temporary is not None:
            with suppress(OSError):
                os.unlink(temporary)


def read_arrays(
    source: Path | IO[bytes], names: Sequence[str] | None = None, *, of: Path | None = None
) -> dict[str, NDArray[Any]]:
    """Return the named arrays of an .npz (default: all), never unpickled and never larger than the file's bytes.

    `of` names the file where `source` is one that is open already.
    """
    path = of or Path(str(source))
    try:
        with zipfile.ZipFile(source) as archive:
            check_members(archive)
            there = [member.removesuffix(".npy") for member in archive.namelist() if member.endswith(".npy")]
            wanted = there if names is None else [name for name in names if name in there]
            return {name: _read_array(archive, f"{name}.npy", path) for name in wanted}
    except FileNotFoundError as error:
        raise GgeurError(f"There is no file {path}.{nearest_file(Path(path))}", code="file-missing") from error
    except OSError as error:
        raise GgeurError(f"Cannot read {path}: {error.strerror or error}.", code="file-unreadable") from error
    except GgeurError:
        raise
    except Exception as error:  # on damaged bytes zipfile, its codecs and numpy raise a dozen types
        raise GgeurError(
            f"{path} is damaged or not an .npz file ({error}); make it again.", code="file-not-npz"
        ) from error


def check_members(archive: zipfile.ZipFile) -> None:
    """Raise BadZipFile where the directory is damaged, so that an array would pass for one that is not there."""
    members = sorted(archive.infolist(), key=lambda info: info.header_offset)
    ends = [0, *(info.header_offset + len(info.orig_filename.encode()) + info.compress_size for info in members)]
    starts = [*(info.header_offset for info in members), archive.start_dir]
    if any(start - end > _BETWEEN for start, end in zip(starts, ends, strict=True)):
        raise zipfile.BadZipFile("its directory does not list all that it holds")
    for info in members:
        archive.open(info).close()  # which compares the name in the directory with that before the content


def array_shape(path: Path, name: str) -> tuple[int, ...]:
    """Return the shape that an .npz claims for one of its arrays, without reading it; () if it is unreadable."""
    with suppress(Exception), zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as file:
        return tuple(npy_header(file)[0])
    return ()


def npy_header(file: IO[bytes]) -> tuple[Sequence[int], bool, np.dtype[Any]]:
    """Return shape, whether it lies column by column, and type of an array in NumPy's format, by its first bytes."""
    version = npy.read_magic(file)
    return npy.read_array_header_1_0(file) if version == (1, 0) else npy.read_array_header_2_0(file)


def _read_array(archive: zipfile.ZipFile, member: str, path: Path) -> NDArray[Any]:
    info = archive.getinfo(member)
    there = min(info.file_size, _MOST_INFLATED * path.stat().st_size)  # the archive's own word is not enough
    with archive.open(info) as file:
        shape, _, dtype = npy_header(file)
        claimed = math.prod(map(int, shape)) * max(dtype.itemsize, 1)
        if dtype.hasobject or claimed > there:
            raise GgeurError(
                f"The array {member} in {path} is not plain numbers or text, or is cut short.",
                code="file-array-unreadable",
            )
    with archive.open(info) as file:
        array = np.asarray(npy.read_array(file, allow_pickle=False))
        if file.read(1):  # reading to the end also checks the checksum
            raise GgeurError(
                f"The array {member} in {path} is longer than it says; make it again.", code="file-array-length"
            )
    return array


def packaged_toml(room: str, name: str) -> dict[str, Any]:
    """Read the TOML file `name` (a path) of the `room`, as in packaged_toml("paper", "published.toml")."""
    return tomllib.loads((files("ggeur") / room / name).read_text(encoding="utf-8"))


__all__ = ["CannotWrite", "cannot", "lock_file", "read_arrays", "write_atomically", "write_bytes"]


def lock_file(path: Path, taken: str) -> ExitStack:
    """Lock the file `path`, which is made and stays; GgeurError(`taken`) at once where it is locked already.

    It is held until what is returned is closed, or the process ends, however it ends.
    """
    from filelock import FileLock, Timeout

    lock, held = FileLock(path, thread_local=False), ExitStack()  # any thread may close it
    try:
        lock.acquire(blocking=False)
    except Timeout as error:
        raise GgeurError(taken, code="folder-locked") from error
    held.callback(lock.release, force=True)
    return held


def cache_folder() -> Path:
    """Return $GGEUR_CACHE, else ggeur's own folder under the user's cache folder."""
    own = os.environ.get("GGEUR_CACHE")
    return Path(own) if own else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ggeur"


_SEAL = "sha256"
_LINE = re.compile(rb'(.*), "crc": (\d+)\}\n', re.S)


def _digest(tree: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()


def sealed(tree: Mapping[str, Any]) -> bytes:
    """Return `tree` as JSON with a checksum; values that JSON lacks, such as dates, become text."""
    plain = json.loads(json.dumps(tree, default=str))  # as it will be read: keys are text
    return json.dumps({**plain, _SEAL: _digest(plain)}, indent=1).encode()


def check_format(tree: Any, known: int, path: object, key: str = "format") -> None:
    """Raise GgeurError where `tree`, read from `path`, has a higher format number than is `known`."""
    number = tree.get(key) if isinstance(tree, dict) else None
    if isinstance(number, int) and number > known:
        raise GgeurError(
            f"{path} has the {key} {number}, and this version of ggeur reads up to {known}: update ggeur.",
            code="format-newer",
        )


def unsealed(content: bytes, keys: set[str]) -> dict[str, Any]:
    """Return the tree, which has no other keys than `keys`; raise ValueError where it was changed.

    Files of earlier versions without a checksum are accepted.
    """
    tree = json.loads(content)
    if not isinstance(tree, dict):
        raise ValueError("it is not an object")
    seal = tree.pop(_SEAL, None)
    if seal is not None and seal != _digest(tree):
        raise ValueError("its checksum does not match; it was changed or damaged")
    tree = dict(record_of_before(tree))
    if not tree.keys() <= keys:
        raise ValueError(f"it holds {', '.join(sorted(tree.keys() - keys))}, which it should not")
    return tree


def sealed_line(event: Mapping[str, Any]) -> bytes:
    """Return one line of JSON with a checksum."""
    body = json.dumps(event).encode()[:-1]
    return body + f', "crc": {zlib.crc32(body)}}}\n'.encode()


def unsealed_line(line: bytes) -> dict[str, Any]:
    """Return the event; raise ValueError where the line was changed. Earlier versions' lines have no checksum."""
    parts = _LINE.fullmatch(line)
    if parts is not None and zlib.crc32(parts[1]) != int(parts[2]):
        raise ValueError("its checksum does not match")
    event = json.loads(line)
    if not isinstance(event, dict) or not line.endswith(b"\n"):
        raise ValueError("it is not a whole line")
    return dict(record_of_before(event))
