"""A change of a model folder that is there whole or not at all, however the process that makes it ends.

New files are written to `.next.part`, which one rename makes `.next`: from then on the change is made, and what lies
in `.next` counts before what lies beside it. The files then move to their places; whoever is killed on the way leaves
a `.next` that readers understand and that the next one to change the folder clears.
"""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ggeur.core.errors import GgeurError
from ggeur.data.files import CannotWrite, cannot, lock_file, write_bytes

LOCK, NEXT, PART, PLAN = ".lock", ".next", ".next.part", "plan.json"
_TEMPORARY = re.compile(r"\.(.+)\.[0-9a-f]{8}")  # as `write_atomically` names them
_T = TypeVar("_T")


class Command(NamedTuple):
    """What a change was asked for by, and the receipt of it, which lies in the folder."""

    what: str
    site: str = ""
    choose_again: bool = False
    receipt: str = ""

    def is_for(self, what: str, site: str, choose_again: bool) -> bool:
        """Whether it is that command."""
        return self[:3] == (what, site, choose_again)


def locked(folder: Path) -> ExitStack:
    """Two that change a model at once would each lose what the other did."""
    with cannot(f"write {folder}", CannotWrite):
        return lock_file(folder / LOCK, f"Another process is changing the model at {folder}.")


def current(folder: Path, name: str) -> Path:
    """Where the file `name` of the model in `folder` lies now."""
    new = folder / NEXT / name
    return new if new.exists() else folder / name


def settled(folder: Path, names: Sequence[str], read: Callable[[], _T]) -> _T:
    """What `read` gives of the files `names`, read again where one was changed or moved meanwhile."""
    for _ in range(9):
        before = _stamp(folder, names)
        try:
            found = read()
        except (GgeurError, OSError):
            if before == _stamp(folder, names):
                raise
        else:
            if before == _stamp(folder, names):
                return found
    return read()


def _stamp(folder: Path, names: Sequence[str]) -> list[Any]:
    stamps: list[Any] = []
    for path in (current(folder, name) for name in names):
        try:
            about = path.stat()
            stamps.append((path, about.st_ino, about.st_mtime_ns, about.st_size))
        except OSError:
            stamps.append(None)
    return stamps


def pending(folder: Path) -> Command | None:
    """The change that was made and whose files are still on their way, if any."""
    path = folder / NEXT / PLAN
    if not path.exists():
        return None
    with suppress(OSError, ValueError, TypeError, RecursionError):
        return Command(*json.loads(path.read_bytes()))
    return Command("")  # that it lies there is what counts


@contextmanager
def staged(folder: Path, command: Callable[[], Command]) -> Iterator[Path]:
    """A folder for new files, which become the model's, all at once, when the block ends well."""
    part = folder / PART
    clear(part)
    part.mkdir(parents=True)
    try:
        yield part
        write_bytes(part / PLAN, json.dumps(command()).encode())
        os.replace(part, folder / NEXT)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def land(folder: Path) -> None:
    """Move the files of a change to their places."""
    new = folder / NEXT
    for path in sorted(p for p in new.rglob("*") if p.is_file() and p != new / PLAN):
        to = folder / path.relative_to(new)
        to.parent.mkdir(parents=True, exist_ok=True)
        os.replace(path, to)


def close(folder: Path) -> None:
    """End a change whose files have all landed; the plan goes last, since without it nobody would know of the rest."""
    new = folder / NEXT
    if not new.exists():
        return
    for path in new.iterdir():
        if path.is_dir():
            clear(path)
    (new / PLAN).unlink(missing_ok=True)
    new.rmdir()


def drop(folder: Path, names: Sequence[str]) -> None:
    """Undo a change that began in an empty folder, whose files are those of `names`, wherever they are by now."""
    for name in names:
        path = folder / name
        clear(path) if path.is_dir() else path.unlink(missing_ok=True)
    clear(folder / PART)
    if (folder / NEXT).exists():
        os.replace(folder / NEXT, folder / PART)  # at once, so that no half of it is taken for a change
    clear(folder / PART)


def clear(folder: Path) -> None:
    """Remove a folder of ours, whether it is there or not."""
    if folder.exists():
        shutil.rmtree(folder)


def temporaries(folder: Path) -> list[tuple[Path, str]]:
    """Files that were being written to `folder` by processes that were killed, and what they were to be called."""
    if not folder.is_dir():
        return []
    found = [(path, _TEMPORARY.fullmatch(path.name)) for path in sorted(folder.iterdir())]
    return [(path, match[1]) for path, match in found if match]
