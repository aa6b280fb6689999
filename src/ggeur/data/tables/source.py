"""The interface of a file with a table: its columns by name, and their values in batches, in the file's order."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from numpy.typing import NDArray

from ggeur.stats.custom import one_line
from ggeur.stats.errors import GgeurError, how_to_install, nearest_file

Kind = Literal["vector", "number", "whole", "name"]  # embeddings; fractions; whole numbers and booleans; all else
BATCH_BYTES = 1 << 26  # of the embeddings of a batch
MOST_SAMPLES = 65_536  # of a batch
TEXT = "ggeur_text"  # the key of a meta under which the embeddings of class names come


class SourceBatch(NamedTuple):
    """Consecutive samples: embeddings `x` (n, p) or None where none were asked for, and other columns by name."""

    x: NDArray[Any] | None
    columns: Mapping[str, Sequence[Any]]  # None stands for what is missing
    samples: int


class TableSource:
    """A file, or several that belong together, with one value of each column for every sample."""

    path: Path
    fields: Mapping[str, Kind]  # in the order of the file
    meta: Mapping[str, Any] = MappingProxyType({})  # what ggeur wrote of the encoder, and the embeddings of class names
    names: Mapping[str, tuple[str, ...]] = MappingProxyType({})  # of columns of codes: the name of each code

    def batches(self, x: Sequence[str], columns: Sequence[str]) -> Iterator[SourceBatch]:
        """Yield the samples in order: embeddings from the columns `x`, one or numbered ones, and other `columns`."""
        raise NotImplementedError


def batch_samples(dimension: int, itemsize: int = 4) -> int:
    """Return how many samples of that dimension a batch has.

    >>> batch_samples(512), batch_samples(1)
    (32768, 65536)
    """
    return min(max(BATCH_BYTES // max(dimension * itemsize, 1), 256), MOST_SAMPLES)


@contextmanager
def reading(path: Path, form: str) -> Iterator[None]:
    """Raise a GgeurError about `path` where the block meets a file that is not whole, or not of that `form`."""
    try:
        yield
    except GgeurError:
        raise
    except FileNotFoundError as error:
        raise GgeurError(f"There is no file {path}.{nearest_file(path)}", code="file-missing") from error
    except PermissionError as error:
        raise GgeurError(f"Cannot read {path}: {error.strerror}.", code="file-unreadable") from error
    except ImportError as error:
        raise GgeurError(
            f"{path} needs an extra that is not installed: {how_to_install('tables')}.", code="extra-missing"
        ) from error
    except Exception as error:  # on damaged bytes every library raises a dozen types
        why = f" ({one_line(error)})" if str(error) else ""
        raise GgeurError(
            f"{path} is damaged, cut short or not {form}{why}; write it again.", code="file-damaged"
        ) from error
