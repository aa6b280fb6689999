"""The one error that a user's mistake may raise, and the one warning."""

from collections.abc import Iterator
from contextlib import contextmanager


class GgeurError(Exception):
    """Bad input or an impossible request, told in one sentence: what, where, and what to do.

    The command line prints it and exits with code 2; everything else is a defect of ours.
    """


@contextmanager
def cannot(what: str, kind: type[GgeurError] = GgeurError) -> Iterator[None]:
    """Within the block an OSError ends the sentence "Cannot `what`: ...", which is raised as `kind`."""
    try:
        yield
    except OSError as error:
        raise kind(f"Cannot {what}: {error.strerror or error}.") from error


class GgeurWarning(UserWarning):
    """Legal, but probably not what was meant."""
