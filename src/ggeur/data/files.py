"""Files are written to a temporary name beside the target and renamed, so that none is ever half there."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from ggeur.core.errors import GgeurError


@contextmanager
def write_atomically(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file that appears as `path` when the block ends well, and not at all otherwise."""
    path = Path(path)
    temporary: str | None = None
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())  # mkstemp's 0600 would hide results from a user's colleagues
        os.replace(temporary, path)
        temporary = None
    except OSError as error:
        raise GgeurError(f"Cannot write {path}: {error.strerror or error}.") from error
    finally:
        if temporary is not None:
            with suppress(OSError):
                os.unlink(temporary)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
