"""Files for the rooms above `core`: its safe reading and writing, and locks."""

from contextlib import ExitStack
from pathlib import Path

from ggeur.core.errors import GgeurError
from ggeur.core.storage import CannotWrite, cannot, read_arrays, write_atomically, write_bytes

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
