"""Read CSV: a table with one line per sample, embeddings in numbered columns or as lists in one."""

import csv
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggeur.data.tables.source import Kind, SourceBatch, TableSource, batch_samples, reading
from ggeur.stats.errors import GgeurError

_CSV = "a CSV file"
_LIST = "[]() \t"


class CsvSource(TableSource):
    """One CSV file, with the names of its columns in the first line; comma, semicolon or tab between values."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with reading(path, _CSV):
            if path.stat().st_size == 0:
                raise GgeurError(f"{path} is empty.", code="table-empty")
            with path.open("rb") as file:
                start = file.read(1 << 16).split(b"\n", maxsplit=1)[0].decode("utf-8-sig")
                file.seek(-1, 2)
                self._ends = file.read(1) in b"\r\n"
            self._separator = max(",;\t", key=start.count)
            first, second = next(self._lines(), None), next(islice(self._lines(), 1, 2), None)
        if first is None or not any(first):
            raise GgeurError(f"{path} has no names of columns in its first line.", code="table-columns-missing")
        self._columns = [name.strip() for name in first]
        twice = [name for name in self._columns if self._columns.count(name) > 1] if len(first) < 10_000 else []
        if twice:
            raise GgeurError(f"Two columns of {path} are called '{twice[0]}'.", code="table-columns-repeated")
        if all(_is_number(name) for name in self._columns) and not _is_numbered(self._columns):
            raise GgeurError(
                f"The first line of {path} holds numbers; it must name the columns.", code="table-columns-missing"
            )
        self.fields = dict(zip(self._columns, map(_kind, second or [""] * len(first)), strict=False))

    def batches(self, x: Sequence[str], columns: Sequence[str]) -> Iterator[SourceBatch]:
        """Yield batches of lines; values are text, and what is empty is None."""
        if not self._ends:
            raise GgeurError(
                f"The last line of {self.path} has no end, as if the file were cut short: write it again, or end it.",
                code="table-cut-short",
            )
        place = {name: i for i, name in enumerate(self._columns)}
        at, own = [place[name] for name in x], [place[name] for name in columns]
        with reading(self.path, _CSV):
            lines, number = islice(self._lines(), 1, None), 2
            while some := list(islice(lines, batch_samples(len(self._columns), 16))):
                if set(map(len, some)) != {len(self._columns)}:
                    for i, line in enumerate(some):
                        if len(line) == len(self._columns):
                            continue
                        raise GgeurError(
                            f"Line {number + i} of {self.path} has {len(line)} values, and there are "
                            f"{len(self._columns)} columns.",
                            code="table-line-length",
                        )
                vectors = self._vectors(some, at, number) if at else None
                yield SourceBatch(
                    vectors,
                    {name: [v[i] or None for v in some] for name, i in zip(columns, own, strict=True)},
                    len(some),
                )
                number += len(some)

    def _lines(self) -> Iterator[list[str]]:
        csv.field_size_limit(1 << 24)
        with self.path.open(newline="", encoding="utf-8-sig") as file:
            yield from filter(None, csv.reader(file, delimiter=self._separator, strict=True))

    def _vectors(self, lines: Sequence[Sequence[str]], at: Sequence[int], number: int) -> NDArray[Any]:
        try:
            if len(at) > 1:
                return np.array([[line[i] for i in at] for line in lines], np.float32)
            cells = [line[at[0]].strip(_LIST).replace(",", " ").split() for line in lines]
            if len({len(cell) for cell in cells}) > 1:
                lengths = sorted({len(cell) for cell in cells})
                raise GgeurError(
                    f"The embeddings in the column '{self._columns[at[0]]}' of {self.path} differ in length: "
                    f"{lengths[0]} and {lengths[-1]}.",
                    code="samples-ragged",
                )
            return np.array(cells, np.float32)
        except ValueError as error:
            raise GgeurError(
                f"Between lines {number} and {number + len(lines) - 1} of {self.path} an embedding is no number: "
                f"{error}.",
                code="embeddings-type",
            ) from error


def _kind(value: str) -> Kind:
    if value.lstrip().startswith("["):
        return "vector"
    if not _is_number(value):
        return "name"
    return "whole" if value.strip().lstrip("+-").isdecimal() else "number"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def _is_numbered(names: Sequence[str]) -> bool:
    return [name for name in names if name.isdecimal()] in (
        list(map(str, range(len(names)))),
        list(map(str, range(1, len(names) + 1))),
    )
