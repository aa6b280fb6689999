"""Find a table's files: patterns, folders, and the labels that belong to arrays and to slides."""

import glob
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ggeur.data.tables.arrays import NpySource, NpzSource
from ggeur.data.tables.arrow import ParquetSource, SavedDataset, saved_splits
from ggeur.data.tables.csv_files import CsvSource
from ggeur.data.tables.slides import SlideSource
from ggeur.data.tables.source import Kind, SourceBatch, TableSource
from ggeur.stats.errors import GgeurError, GgeurWarning, nearest_file
from ggeur.stats.validate import check_is, check_path

GivenFiles = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
ARRAYS, SLIDES = (".npy",), (".h5", ".hdf5")
TABLES = (".npz", ".parquet", ".pq", ".csv", ".tsv")
_LABELS = (".csv", ".tsv", ".parquet", ".pq")
_SLIDE_COLUMNS = ("slide", "slide_id", "filename", "file", "file_name", "id", "image_id", "name")
_TRAIN, _TEST = ("", "train", "training"), ("test",)


def table_paths(given: GivenFiles) -> list[Path]:
    """Return the files that are meant: one, several, a pattern such as "part-*.parquet", "x.npy+labels.csv", a folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("train.npy", "labels.csv"):
    ...         Path(folder, name).touch()
    ...     [path.name for path in table_paths(f"{folder}/train.npy+labels.csv")]
    ['train.npy', 'labels.csv']
    """
    several: Sequence[Any] = (
        [given] if isinstance(given, str | os.PathLike) else check_is("files", given, Sequence, "paths")
    )
    found: list[Path] = []
    for one in several:
        path = check_path("files", one)
        for part in [path] if path.exists() else _joined_paths(str(path)):
            found += _of_pattern(part) if glob.has_magic(str(part)) and not part.exists() else [part]
    return [file for path in found for file in _of_folder(path)]


def _joined_paths(given: str) -> list[Path]:
    """Return the files of "x.npy+labels.csv"; those after the first may be named as it lies beside them."""
    first, *more = map(Path, given.split("+"))
    return [first, *(p if p.exists() or p.is_absolute() else first.parent / p for p in more)]


def is_table(given: str | os.PathLike[str]) -> bool:
    """Return whether a site at `given` is a table in files, and not a folder of images."""
    path = Path(given)
    if path.is_dir():
        return bool(saved_splits(path)) or bool(_files_in(path))
    return path.suffix.lower() in (*TABLES, *ARRAYS, *SLIDES) or glob_or_joined(path)


def glob_or_joined(given: str | os.PathLike[str]) -> bool:
    """Return whether `given` is a pattern, or several files joined by "+"."""
    return glob.has_magic(str(given)) or "+" in str(given)


def table_name(given: str | os.PathLike[str]) -> str:
    """Return the name of a table: its first file's, without the ending, a pattern's star and what joins them.

    >>> table_name("leeds.parquet"), table_name("leeds-*.npy+labels.csv")
    ('leeds', 'leeds')
    """
    path = Path(given) if Path(given).exists() else _joined_paths(str(given))[0]
    if path.suffix.lower() not in (*TABLES, *ARRAYS, *SLIDES):
        return path.name
    plain = re.split(r"[*?[]", path.with_suffix("").name)[0].rstrip("-_. ")
    return plain or path.parent.name


def _of_pattern(path: Path) -> list[Path]:
    found = sorted((Path(one) for one in glob.glob(str(path))), key=_in_order)
    if not found:
        raise GgeurError(f"No file matches {path}.", code="file-missing")
    return found


def _in_order(path: Path) -> list[Any]:
    """Return a key that sorts part-2 before part-10."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", str(path))]


def _files_in(path: Path) -> list[Path]:
    known = (*TABLES, *ARRAYS, *SLIDES)
    here = [p for p in path.iterdir() if not p.name.startswith(".")]
    return sorted((p for p in here if p.suffix.lower() in known and p.is_file()), key=_in_order)


def _of_folder(path: Path) -> list[Path]:
    if not path.is_dir():
        if not path.exists():
            raise GgeurError(f"There is no file {path}.{nearest_file(path)}", code="file-missing")
        return [path]
    if splits := saved_splits(path):
        if other := [split for split in splits if split not in (*_TRAIN, *_TEST)]:
            raise GgeurError(
                f"The dataset {path} has the split '{other[0]}' beside train and test; name the folders of the splits "
                f"that are meant, such as {splits[other[0]]}.",
                code="table-split-unknown",
            )
        return list(splits.values())
    if not (files := _files_in(path)):
        raise GgeurError(f"The folder {path} holds no table.", code="table-files-missing")
    return files


def sources_of(paths: Sequence[Path], slide: str | None = None, *, labelled: bool = True) -> list[TableSource]:
    """Return what to read the files with, arrays and slides together with the files of their labels."""
    by_kind: dict[str, list[Path]] = {"array": [], "slide": [], "table": [], "dataset": []}
    for path in paths:
        by_kind[_kind_of(path)].append(path)
    arrays, slides, tables, datasets = by_kind.values()
    if arrays and slides:
        raise GgeurError("Arrays (.npy) and slides (.h5) cannot be one table: read them apart.", code="table-mixed")
    if slides:
        labels = _labels_beside(slides, tables, labelled)
        return [_Slides(slides, [_source(path) for path in labels], slide)]
    if not arrays:
        return [*(_source(path) for path in tables), *(_split(path) for path in datasets)]
    read = [NpySource(path) for path in arrays]
    matrices: list[TableSource] = [one for one in read if "vector" in one.fields.values()]
    columns: list[TableSource] = [one for one in read if "vector" not in one.fields.values()]
    if not columns:
        columns = [_source(path) for path in _labels_beside([one.path for one in matrices], tables, labelled)]
    if not columns:
        return matrices
    if len(matrices) == len(columns):
        return [_Paired([x], y) for x, y in zip(matrices, columns, strict=True)]
    if len(columns) > 1:
        raise GgeurError(
            f"There are {len(matrices)} arrays of embeddings and {len(columns)} files of labels: give one for each, or "
            "one for all.",
            code="table-files-mismatch",
        )
    in_order = [one.path for one in matrices]
    if in_order != sorted(in_order, key=_in_order):  # part-10 before part-2, which no label would notice
        raise GgeurError(
            f"The arrays are not in the order of their numbers ({in_order[0].name}, {in_order[1].name}, ...), and one "
            "file has all labels: give them in order, or as a pattern in quotes.",
            code="table-order-unclear",
        )
    return [_Paired(matrices, columns[0])]


def _kind_of(path: Path) -> str:
    suffix = path.suffix.lower()
    if path.is_dir():
        return "dataset"
    if suffix in TABLES:
        return "table"
    if suffix in ARRAYS or suffix in SLIDES:
        return "array" if suffix in ARRAYS else "slide"
    known = ", ".join((*TABLES, *ARRAYS, *SLIDES))
    raise GgeurError(f"{path} is no table: its name must end in one of {known}.", code="table-suffix-unknown")


def _source(path: Path) -> TableSource:
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return NpzSource(path)
    return CsvSource(path) if suffix in (".csv", ".tsv") else ParquetSource(path)


def _split(path: Path) -> TableSource:
    source = SavedDataset(path)
    alone = not (path.parent / "dataset_dict.json").is_file()
    return source if alone else _Marked(source, path.name in _TEST)


def _labels_beside(of: Sequence[Path], given: Sequence[Path], needed: bool) -> list[Path]:
    """Return the files of labels: those given, else those of the same names, else if `needed` the only one there."""
    if given:
        return list(given)
    same = [[p for p in (path.with_suffix(s) for s in _LABELS) if p.is_file()] for path in of]
    if all(len(one) == 1 for one in same):
        return [one[0] for one in same]
    if not needed:
        return []
    there = [p for p in _files_in(of[0].parent) if p.suffix.lower() in _LABELS]
    if len(there) != 1:
        raise GgeurError(
            f"The labels of {of[0]} are not known: give their file too, as in {of[0].name}+labels.csv.",
            code="table-labels-missing",
        )
    warnings.warn(f"The labels of {of[0]} are those of {there[0]}.", GgeurWarning, stacklevel=5)
    return there


class _Marked(TableSource):
    """A split of a saved dataset, whose samples are all test samples, or none."""

    def __init__(self, source: TableSource, test: bool) -> None:
        self._source, self._test = source, test
        self.path, self.meta, self.names = source.path, source.meta, source.names
        self.fields = {**source.fields, "test": "whole"}

    def batches(self, x: Sequence[str], columns: Sequence[str]) -> Iterator[SourceBatch]:
        own = [name for name in columns if name != "test"]
        for batch in self._source.batches(x, own or list(self._source.fields)[:1]):
            yield batch._replace(columns={**batch.columns, "test": [self._test] * batch.samples})


class _Paired(TableSource):
    """Arrays of embeddings one after the other, and one file with the other columns of all of them."""

    def __init__(self, arrays: Sequence[TableSource], labels: TableSource) -> None:
        self._arrays, self._labels = arrays, labels
        self.path, self.meta, self.names = arrays[0].path, labels.meta, labels.names
        scalars = {name: kind for name, kind in labels.fields.items() if kind != "vector"}
        self.fields = {"x": "vector", **{n: k for n, k in scalars.items() if n != "x"}}

    def batches(self, x: Sequence[str], columns: Sequence[str]) -> Iterator[SourceBatch]:
        beside = _Beside(self._labels.batches((), columns or list(self._labels.fields)[:1]))
        for array in self._arrays:
            for batch in array.batches(x, ()):
                values = beside.take(batch.samples)
                if values is None:
                    self._refuse()
                else:
                    yield SourceBatch(batch.x, {name: values[name] for name in columns}, batch.samples)
        if beside.take(1) is not None:
            self._refuse()

    def _refuse(self) -> None:
        raise GgeurError(
            f"{self._labels.path} does not have as many lines as {self.path.name} has embeddings.",
            code="table-lengths-differ",
        )


class _Beside:
    """Columns that are taken as many values at a time as another file has."""

    def __init__(self, batches: Iterable[SourceBatch]) -> None:
        self._batches = iter(batches)
        self._held: dict[str, list[Any]] = {}

    def take(self, n: int) -> dict[str, list[Any]] | None:
        while len(next(iter(self._held.values()), ())) < n:
            batch = next(self._batches, None)
            if batch is None:
                return None
            for name, values in batch.columns.items():
                self._held.setdefault(name, []).extend(values)
        taken = {name: values[:n] for name, values in self._held.items()}
        self._held = {name: values[n:] for name, values in self._held.items()}
        return taken


class _Slides(TableSource):
    """One HDF5 file per slide, and files with a line for each, found by the slide's name."""

    def __init__(self, paths: Sequence[Path], labels: Sequence[TableSource], column: str | None) -> None:
        self.path = paths[0]
        self._slides, self._labels = SlideSource(paths), labels
        self.fields = dict(self._slides.fields)
        if not labels:
            self._column = ""
            return
        there = labels[0].fields
        usual = [name for name in there if name.lower() in _SLIDE_COLUMNS]
        self._column = column or (usual[0] if usual else "")
        if self._column not in there:
            raise GgeurError(
                f"{labels[0].path} has no column '{self._column or 'slide'}' that names the slides; name it with --id.",
                code="table-column-missing",
            )
        scalars: dict[str, Kind] = {name: kind for name, kind in there.items() if kind != "vector"}
        self.fields = {"x": "vector", **scalars}

    def batches(self, x: Sequence[str], columns: Sequence[str]) -> Iterator[SourceBatch]:
        if not self._labels:
            yield from self._slides.batches(x, columns)
            return
        line = self._lines(columns)
        for batch in self._slides.batches(x, ("slide",)):
            slides = batch.columns["slide"]
            if missing := [slide for slide in slides if slide not in line]:
                raise GgeurError(
                    f"{self._labels[0].path} has no line for the slide '{missing[0]}': add it, or leave the slide out.",
                    code="table-slide-unlabelled",
                )
            yield batch._replace(columns={n: [line[slide][i] for slide in slides] for i, n in enumerate(columns)})

    def _lines(self, columns: Sequence[str]) -> dict[str, tuple[Any, ...]]:
        line: dict[str, tuple[Any, ...]] = {}
        for source in self._labels:
            for batch in source.batches((), tuple(dict.fromkeys([self._column, *columns]))):
                values = (
                    zip(*(batch.columns[name] for name in columns), strict=True) if columns else [()] * batch.samples
                )
                for slide, own in zip(batch.columns[self._column], values, strict=True):
                    name = Path(str(slide)).name
                    stem = name.removesuffix(Path(name).suffix) if Path(name).suffix.lower() in _ENDINGS else name
                    if line.setdefault(stem, own) != own:
                        raise GgeurError(
                            f"{source.path} has two lines for the slide '{stem}', which differ.",
                            code="table-slide-repeated",
                        )
        return line


_ENDINGS = (*SLIDES, ".svs", ".tif", ".tiff", ".ndpi", ".mrxs", ".pt")  # which a column of slides may keep
