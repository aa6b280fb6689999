"""TableFiles: a table of embeddings in files of any size, checked and read in pieces."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ggeur.data.table import EmbeddingTable
from ggeur.data.tables.arrays import NpzSource
from ggeur.data.tables.columns import ChosenColumns, TableColumns, choose_columns
from ggeur.data.tables.pairing import GivenFiles, sources_of, table_paths
from ggeur.data.tables.source import TEXT, SourceBatch, TableSource
from ggeur.stats.errors import GgeurError
from ggeur.stats.types import Bool, Int

_MOST_CLASSES = 65_536
_ENCODER = ("encoder", "weights", "preprocessing")
_TEST = {
    **dict.fromkeys(("test", "true", "1", "yes"), True),
    **dict.fromkeys(("train", "training", "false", "0", "no"), False),
}


class TablePiece(NamedTuple):
    """Consecutive samples of a table, checked; codes of classes and domains are the table's."""

    x: NDArray[Any]  # (n, p), float16 or float32
    y: Int  # (n,); -1 where the table has no labels
    domain: Int  # (n,)
    test: Bool  # (n,); all False where nothing is marked
    id: tuple[str, ...]  # (n,), or () where no column names the samples
    group: tuple[str, ...]  # (n,), or () where no column groups them


class TableFiles:
    """A table of embeddings in one file or many, read piece by piece; opening it reads everything but the embeddings.

    Parameters
    ----------
    files : a file, several, a pattern such as "part-*.parquet", or arrays with labels, as in "x.npy+labels.csv".
    columns : which columns hold what; default: the only candidate, which is then said.
    labelled : whether there must be labels.

    Attributes
    ----------
    paths : the files. class_names, domain_names : in the order of their codes.
    samples, dimension : (N, p). marked : whether a column marks test samples. meta : what is known of the encoder.
    counts : (domains, classes, 2), of training and test samples. text : embeddings of the class names, by prompt.
    chosen : the columns by their roles.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with open(f"{folder}/leeds.csv", "w") as file:
    ...         _ = file.write("e0,e1,label\\n0.5,1.0,cat\\n1.5,0.0,dog\\n")
    ...     table = TableFiles(f"{folder}/leeds.csv", TableColumns(x="e", y="label")).read()
    >>> table.class_names, table.x.shape
    (('cat', 'dog'), (2, 2))
    """

    def __init__(self, files: GivenFiles, columns: TableColumns | None = None, *, labelled: bool = True) -> None:
        self._columns = columns or TableColumns()
        self.paths = tuple(table_paths(files))
        self._sources = sources_of(self.paths, self._columns.id, labelled=labelled)
        if not self._sources:
            raise GgeurError("There are no files to read a table from.", code="table-files-missing")
        first = self._sources[0]
        self.chosen: ChosenColumns = choose_columns(
            first.fields, self._columns, first.path, first.names, labelled=labelled
        )
        for source in self._sources[1:]:
            if missing := [n for n in (*self.chosen.x, *self.chosen.scalars) if n not in source.fields]:
                raise GgeurError(
                    f"{source.path} has no column '{missing[0]}', which {first.path} has.", code="table-column-missing"
                )
        self.meta = self._meta()
        self.marked = self.chosen.test is not None
        self._scan()
        head = next((batch for source in self._sources for batch in source.batches(self.chosen.x, ())), None)
        if not self.samples or head is None or head.x is None:
            raise GgeurError(f"{self.paths[0]} has no samples.", code="table-empty")
        self.dimension = int(head.x.shape[1]) if head.x.ndim == 2 else 0
        text = _text_of(first.meta)
        self._empty = EmbeddingTable(  # which checks names
            x=np.zeros((0, max(self.dimension, 1)), np.float32),
            y=np.zeros(0, np.int64),
            domain=np.zeros(0, np.int64),
            class_names=self.class_names,
            domain_names=self.domain_names,
            text=text if first.names.get(self.chosen.y or "") == self.class_names else {},
            meta=self.meta,
        )

    def pieces(self) -> Iterator[TablePiece]:
        """Yield all samples in the order of the files; GgeurError where embeddings are not finite or ragged."""
        at, c = 0, self.chosen
        for source in self._sources:
            for batch in source.batches(c.x, c.scalars):
                n = batch.samples
                x = self._checked(batch.x, at, source)
                classes = self._classes.codes(batch, c.y, source) if c.y else np.full(n, -1)
                domains = self._domains.codes(batch, c.domain, source) if c.domain else np.zeros(n, np.int64)
                test = _marks(batch.columns[c.test], c.test, source) if c.test else np.zeros(n, np.bool_)
                names = [
                    tuple(_named(v, col, source) for v in batch.columns[col]) if col else () for col in (c.id, c.group)
                ]
                yield TablePiece(x, classes, domains, test, *names)
                at += n
        if at != self.samples:
            raise GgeurError(f"{self.paths[0]} has changed while it was read.", code="table-changed")

    def read(self) -> EmbeddingTable:
        """Return the whole table, in memory."""
        pieces = list(self.pieces())
        whole = TablePiece(*(_joined([piece[i] for piece in pieces]) for i in range(len(TablePiece._fields))))
        if (whole.y < 0).any():
            raise GgeurError(f"{self.paths[0]} has no labels.", code="table-labels-missing")
        return EmbeddingTable(
            x=whole.x,
            y=whole.y,
            domain=whole.domain,
            test=whole.test if self.marked else None,
            class_names=self.class_names,
            domain_names=self.domain_names,
            text=self._empty.text,
            meta=self.meta,
            path=whole.id,
        )

    @property
    def text(self) -> Mapping[str, NDArray[Any]]:
        """Return the embeddings of the class names, where a file of ggeur has some."""
        return self._empty.text

    def _checked(self, x: NDArray[Any] | None, at: int, source: TableSource) -> NDArray[Any]:
        assert x is not None
        if x.ndim != 2 or x.shape[1] != self.dimension or not self.dimension:
            raise GgeurError(
                f"The embeddings in {source.path} have {x.shape[-1]} dimensions after {self.dimension} in "
                f"{self.paths[0]}: all must have as many, one or more.",
                code="samples-ragged",
            )
        if x.dtype.kind not in "fiu":
            raise GgeurError(f"The embeddings in {source.path} are no numbers.", code="embeddings-type")
        x = x if x.dtype.isnative else x.astype(x.dtype.newbyteorder("="))
        with np.errstate(over="ignore"):  # a float64 beyond float32's range becomes infinite
            x = x if x.dtype in (np.float16, np.float32) else x.astype(np.float32)
        if not _all_finite(x):
            bad = at + int(np.argmin(np.isfinite(x).all(axis=1)))
            raise GgeurError(
                f"The embeddings of {source.path} hold NaN or infinite values, first in sample {bad}; remove or "
                "re-embed it.",
                code="embeddings-not-finite",
            )
        return x

    def _meta(self) -> dict[str, Any]:
        """Return what the files and the user say of the encoder, which must not differ."""
        said: dict[str, Any] = {}
        own = [{k: v for k, v in source.meta.items() if k != TEXT} for source in self._sources]
        for path, meta in [
            *zip((s.path for s in self._sources), own, strict=True),
            ("--encoder-id", self._columns.encoder()),
        ]:
            if differs := [k for k in _ENCODER if k in said and k in meta and said[k] != meta[k]]:
                raise GgeurError(
                    f"The {differs[0]} is '{said[differs[0]]}' in {self.paths[0]} and '{meta[differs[0]]}' in {path}: "
                    "use one encoder for all.",
                    code="encoder-mismatch",
                )
            said = {**meta, **said}
        return said

    def _scan(self) -> None:
        """Find the classes and domains, and count."""
        c, counted, self.samples = self.chosen, Counter[tuple[int, int, int]](), 0
        self._classes, self._domains = _Names(), _Names()
        for source in self._sources:
            for batch in source.batches((), [n for n in (c.y, c.domain, c.test) if n is not None]):
                self.samples += batch.samples
                none = np.zeros(batch.samples, np.int64)
                y = self._classes.found(batch, c.y, source) if c.y else none
                d = self._domains.found(batch, c.domain, source) if c.domain else none
                t = _marks(batch.columns[c.test], c.test, source) if c.test else none
                groups, number = np.unique(2 * (y + (d << 32)) + t, return_counts=True)
                keys = zip(groups >> 33, groups >> 1 & 0xFFFFFFFF, groups & 1, strict=True)
                counted.update({(int(d), int(y), int(t)): int(n) for (d, y, t), n in zip(keys, number, strict=True)})
                self._classes.check(c.y, self.samples, source, most=_MOST_CLASSES)
        where = self._sources[-1]
        self._classes.check(c.y, self.samples, where, most=max(self.samples // 2, 1000))
        self.class_names = self._classes.settle([s.names.get(c.y or "") for s in self._sources], where, c.y)
        self.domain_names = self._domains.settle([s.names.get(c.domain or "") for s in self._sources], where, None)
        self.domain_names = self.domain_names or ("all",)
        self.counts = np.zeros((len(self.domain_names), max(len(self.class_names), 1), 2), np.int64)
        for (early_d, early_y, marked), n in counted.items():
            self.counts[self._domains.order(early_d), self._classes.order(early_y), marked] += n


class _Names:
    """The names in a column, and their codes: first in the order in which they come, then in a settled one."""

    def __init__(self) -> None:
        self._code: dict[tuple[int, Any], int] = {}  # of a value; codes of several files may differ in meaning
        self._names: dict[str, int] = {}
        self._settled: list[int] = []
        self._floats = False

    def found(self, batch: SourceBatch, column: str, source: TableSource) -> Int:
        """Return the codes of the batch's values in the order in which names come."""
        known, key = self._code, id(source.names.get(column))
        for value in set(batch.columns[column]):
            if (key, value) not in known:
                name = _named(value, column, source)
                known[key, value] = self._names.setdefault(name, len(self._names))
        return np.array([known[key, value] for value in batch.columns[column]], np.int64)

    def codes(self, batch: SourceBatch, column: str, source: TableSource) -> Int:
        """Return the settled codes of the batch's values."""
        known, key = self._code, id(source.names.get(column))
        try:
            early = np.array([known[key, value] for value in batch.columns[column]], np.int64)
        except KeyError as error:
            raise GgeurError(f"{source.path} has changed while it was read.", code="table-changed") from error
        return np.asarray(self._settled, np.int64)[early]

    def order(self, code: int) -> int:
        """Return the settled code of a name, given by when it came."""
        return self._settled[code] if self._settled else 0

    def check(self, column: str | None, samples: int, source: TableSource, most: int) -> None:
        """Raise GgeurError where a column has so many values that it holds no labels."""
        if len(self._names) > most:
            raise GgeurError(
                f"The column '{column}' of {source.path} has {len(self._names):,} different labels among {samples:,} "
                "samples, like a number of each: name the column of labels with --y.",
                code="table-classes-too-many",
            )

    def settle(
        self, stated: Sequence[tuple[str, ...] | None], source: TableSource, column: str | None
    ) -> tuple[str, ...]:
        """Fix the order of the names: as all files state it, else sorted, numbers as numbers."""
        found = list(self._names)
        if column is not None:
            _check_whole(found, column, source)
        lists = {one for one in stated if one}
        if len(lists) == 1 and set(found) <= set(next(iter(lists))):
            names = list(next(iter(lists)))
        elif all(_is_whole(name) for name in found):
            names = sorted({*found, *(n for one in lists for n in one)}, key=lambda name: (_whole(name), name))
            if isinstance(source, NpzSource) and found and not lists and _whole(names[0]) >= 0:
                names = list(map(str, range(_whole(names[-1]) + 1)))  # codes, as tables of ggeur without names have
        else:
            names = sorted({*found, *(n for one in lists for n in one)})
        at = {name: i for i, name in enumerate(names)}
        self._settled = [at[name] for name in found]
        return tuple(names)


def _all_finite(x: NDArray[Any]) -> bool:
    """Return whether float16 or float32 numbers are finite, by their bits: several times as fast as by NumPy."""
    half = x.dtype.itemsize == 2
    signed, unsigned = (np.int16, np.uint16) if half else (np.int32, np.uint32)
    least = 0x7C00 if half else 0x7F800000  # infinity; what is not a number lies beyond it
    negative = least + (0x8000 if half else 0x80000000)
    x = np.ascontiguousarray(x)
    return not x.size or bool(x.view(signed).max() < least and x.view(unsigned).max() < negative)


def _named(value: Any, column: str, source: TableSource) -> str:
    """Return a label, domain, id or group as text; GgeurError where it is missing or a fraction."""
    names = source.names.get(column)
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        raise GgeurError(
            f"The column '{column}' of {source.path} lacks values: fill them in, or leave those samples out.",
            code="table-nulls",
        )
    if isinstance(value, float):
        raise GgeurError(
            f"The column '{column}' of {source.path} holds numbers with a decimal point such as {value}, and must "
            "hold names or whole numbers.",
            code="table-column-floats",
        )
    if names is not None and isinstance(value, int):
        if not 0 <= value < len(names):
            raise GgeurError(
                f"The column '{column}' of {source.path} holds {value}, and the file names {len(names)} classes.",
                code="labels-out-of-range",
            )
        return str(names[value])
    if isinstance(value, list | dict | tuple | bytes):
        raise GgeurError(
            f"The column '{column}' of {source.path} holds {type(value).__name__} values, and must hold names or whole "
            "numbers.",
            code="table-column-type",
        )
    return str(value)


def _marks(values: Sequence[Any], column: str, source: TableSource) -> Bool:
    """Return which samples are test samples."""
    known: dict[Any, bool] = {}
    for value in set(values):
        text = str(int(value) if isinstance(value, bool) else value).strip().lower()
        if text not in _TEST:
            raise GgeurError(
                f"The column '{column}' of {source.path} holds {value!r}; to mark test samples it must say train or "
                "test, or be true or false.",
                code="table-test-values",
            )
        known[value] = _TEST[text]
    return np.array([known[value] for value in values], np.bool_)


def _check_whole(names: Sequence[str], column: str, source: TableSource) -> None:
    """Raise GgeurError where text is all numbers, some of them fractions."""
    if names and all(_is_float(name) for name in names) and not all(_is_whole(name) for name in names):
        fraction = next(name for name in names if not _is_whole(name))
        raise GgeurError(
            f"The column '{column}' of {source.path} holds numbers with a decimal point such as {fraction}, and "
            "must hold names or whole numbers.",
            code="table-column-floats",
        )


def _is_whole(name: str) -> bool:
    return name.lstrip("-").isascii() and name.removeprefix("-").isdigit()


def _whole(name: str) -> int:
    return int(name)


def _is_float(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return "_" not in name


def _joined(parts: Sequence[Any]) -> Any:
    if isinstance(parts[0], tuple):
        return tuple(one for part in parts for one in part)
    return np.concatenate(parts)


def _text_of(meta: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Return the embeddings of class names that a Parquet file of ggeur keeps in its metadata."""
    return {str(name): np.asarray(rows, np.float32) for name, rows in dict(meta.get(TEXT, {})).items()}
