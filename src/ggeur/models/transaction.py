"""Change a model folder atomically, however the process ends.

New files are written to `.next.part`, which one rename makes `.next`: this commits the change, and files in `.next`
take precedence over those beside it. The files then move to their places. A process that is killed meanwhile leaves a
`.next` that readers understand and that the next change of the folder finishes.
"""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ggeur.stats.errors import GgeurError
from ggeur.stats.storage import CannotWrite, cannot, lock_file, write_bytes

LOCK, NEXT, PART, PLAN = ".lock", ".next", ".next.part", "plan.json"
_TEMPORARY = re.compile(r"\.(.+)\.[0-9a-f]{8}")  # as `write_atomically` names them
_T = TypeVar("_T")


class Command(NamedTuple):
    """The command of a change, and the name of its receipt in the folder."""

    what: str
    site: str = ""
    choose_again: bool = False
    receipt: str = ""

    def is_for(self, what: str, site: str, choose_again: bool) -> bool:
        """Return whether it is that command."""
        return self[:3] == (what, site, choose_again)


def locked(folder: Path) -> ExitStack:
    """Lock a model folder, since two simultaneous changes would overwrite each other."""
    with cannot(f"write {folder}", CannotWrite):
        return lock_file(folder / LOCK, f"Another process is changing the model at {folder}.")


def current(folder: Path, name: str) -> Path:
    """Return where the file `name` of the model in `folder` is now."""
    new = folder / NEXT / name
    return new if new.exists() else folder / name


def settled(folder: Path, names: Sequence[str], read: Callable[[], _T]) -> _T:
    """Return the result of `read` on the files `names`, read again if one was changed or moved meanwhile."""
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
    """Return the committed change whose files have not all moved yet, if any."""
    path = folder / NEXT / PLAN
    if not path.exists():
        return None
    with suppress(OSError, ValueError, TypeError, RecursionError):
        return Command(*json.loads(path.read_bytes()))
    return Command("")  # its existence is what counts


@contextmanager
def staged(folder: Path, command: Callable[[], Command]) -> Iterator[Path]:
    """Yield a folder for new files, which become the model's atomically when the block succeeds."""
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
    """End a change whose files have all moved; remove the plan last, since it names the rest."""
    new = folder / NEXT
    if not new.exists():
        return
    for path in new.iterdir():
        if path.is_dir():
            clear(path)
    (new / PLAN).unlink(missing_ok=True)
    new.rmdir()


def drop(folder: Path, names: Sequence[str]) -> None:
    """Undo a change of an empty folder, whose files are `names`, wherever they are by now."""
    for name in names:
        path = folder / name
        clear(path) if path.is_dir() else path.unlink(missing_ok=True)
    clear(folder / PART)
    if (folder / NEXT).exists():
        os.replace(folder / NEXT, folder / PART)  # at once, so that no half of it is taken for a change
    clear(folder / PART)


def clear(folder: Path) -> None:
    """Remove a folder if it exists."""
    if folder.exists():
        shutil.rmtree(folder)


def temporaries(folder: Path) -> list[tuple[Path, str]]:
    """Return temporary files in `folder` of killed processes, and their final names."""
    if not folder.is_dir():
        return []
    found = [(path, _TEMPORARY.fullmatch(path.name)) for path in sorted(folder.iterdir())]
    return [(path, match[1]) for path, match in found if match]
