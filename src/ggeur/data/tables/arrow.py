"""Read Parquet files and saved Hugging Face datasets, which both hold Arrow columns, batch by batch."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggeur.data.tables.source import TEXT, Kind, SourceBatch, TableSource, batch_samples, reading
from ggeur.stats.errors import GgeurError
from ggeur.stats.storage import unsealed

META = b"ggeur"  # the key of a Parquet file's metadata under which ggeur writes its own, as JSON with a checksum
_PARQUET, _DATASET = "a Parquet file", "a saved dataset"


class ParquetSource(TableSource):
    """One Parquet file: a list column of embeddings, or numbered columns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with reading(path, _PARQUET):
            import pyarrow.parquet as pq

            with pq.ParquetFile(path) as file:
                schema = file.schema_arrow
            said = schema.metadata or {}
            ours = unsealed(said[META], {"meta", "names", "text"}) if META in said else {}
            self.meta = {**ours.get("meta", {}), **({TEXT: ours["text"]} if "text" in ours else {})}
            self.fields = _fields(schema)
            hub = json.loads(said.get(b"huggingface", b"{}")).get("info", {}).get("features", {})
            self.names = _class_labels(hub) | {column: tuple(names) for column, names in ours.get("names", {}).items()}

    def batches(self, x: Sequence[str], columns: Sequence[str]) -> Iterator[SourceBatch]:
        """Yield batches, each of one row group's samples at most."""
        with reading(self.path, _PARQUET):
            import pyarrow.parquet as pq

            # Buffered, so that a row group of any size is not held whole.
            file = pq.ParquetFile(self.path, buffer_size=1 << 20, pre_buffer=False, page_checksum_verification=True)
            with file:
                size = batch_samples(_width(file, x), 2)
                wanted = list(dict.fromkeys([*x, *columns]))
                if not wanted:
                    yield SourceBatch(None, {}, file.metadata.num_rows)
                    return
                seen = 0
                for batch in file.iter_batches(size, columns=wanted):
                    seen += batch.num_rows
                    yield _batch(batch, x, columns, self.path)
                if seen != file.metadata.num_rows:
                    raise ValueError(f"{seen} of {file.metadata.num_rows} samples are there")


class SavedDataset(TableSource):
    """One split of a dataset as `Dataset.save_to_disk` of Hugging Face writes it: a folder of Arrow files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with reading(path, _DATASET):
            import pyarrow as pa

            state = json.loads((path / "state.json").read_text(encoding="utf-8"))
            self._files = [path / Path(str(one["filename"])).name for one in state["_data_files"]]
            about = json.loads((path / "dataset_info.json").read_text(encoding="utf-8"))
            with pa.OSFile(str(self._files[0])) as file, pa.ipc.open_stream(file) as stream:
                self.fields = _fields(stream.schema)
            self.names = _class_labels(about.get("features") or {})

    def batches(self, x: Sequence[str], columns: Sequence[str]) -> Iterator[SourceBatch]:
        """Yield batches as the files have them."""
        for path in self._files:
            with reading(path, _DATASET):
                import pyarrow as pa

                with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
                    for batch in stream:
                        yield _batch(batch, x, columns, path)
                    file.seek(max(file.size() - 8, 0))
                    if file.read(8) != b"\xff\xff\xff\xff\0\0\0\0":  # the end of a stream
                        raise ValueError("its end is missing")


def saved_splits(path: Path) -> dict[str, Path]:
    """Return the folders of a saved dataset by split; one without splits has "". Nothing where `path` is none."""
    if (path / "state.json").is_file():
        return {"": path}
    if not (path / "dataset_dict.json").is_file():
        return {}
    with reading(path, _DATASET):
        splits = json.loads((path / "dataset_dict.json").read_text(encoding="utf-8"))["splits"]
        return {str(split): path / Path(str(split)).name for split in splits}


def _fields(schema: Any) -> dict[str, Kind]:
    return {name: _kind(schema.field(i).type) for i, name in enumerate(schema.names)}


def _kind(of: Any) -> Kind:
    from pyarrow import types as t

    of = of.storage_type if hasattr(of, "storage_type") else of
    if t.is_list(of) or t.is_large_list(of) or t.is_fixed_size_list(of):
        return "vector" if t.is_floating(of.value_type) or t.is_integer(of.value_type) else "name"
    if t.is_integer(of) or t.is_boolean(of):
        return "whole"
    return "number" if t.is_floating(of) or t.is_decimal(of) else "name"


def _class_labels(features: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the names of classes that a dataset's features state."""
    labels = {k: f for k, f in features.items() if isinstance(f, Mapping) and f.get("_type") == "ClassLabel"}
    return {column: tuple(map(str, feature["names"])) for column, feature in labels.items() if feature.get("names")}


def _width(file: Any, x: Sequence[str]) -> int:
    """Return about how many numbers the embedding of a sample has.

    Nothing is asked about a column: on damaged metadata, pyarrow 26 ends the process.
    """
    rows = file.metadata.row_group(0).num_rows if x and file.metadata.num_row_groups else 0
    return max(file.metadata.row_group(0).total_byte_size // (2 * rows), 1) if rows > 0 else 1


def _batch(batch: Any, x: Sequence[str], columns: Sequence[str], path: Path) -> SourceBatch:
    batch.validate(full=True)  # lengths and offsets of a damaged file may point anywhere
    vectors = None
    if len(x) == 1:
        vectors = _vectors(batch.column(x[0]), x[0], path)
    elif x:
        vectors = np.stack([_numbers(batch.column(name), name, path) for name in x], axis=1)
    return SourceBatch(vectors, {name: _values(batch.column(name)) for name in columns}, batch.num_rows)


def _plain(column: Any) -> Any:
    column = getattr(column, "storage", column)
    return column.dictionary_decode() if hasattr(column, "dictionary_decode") else column


def _values(column: Any) -> Sequence[Any]:
    from pyarrow import types as t

    column = _plain(column)
    plain = t.is_integer(column.type) or t.is_floating(column.type)
    values: Sequence[Any] = column.to_pylist() if column.null_count or not plain else column.to_numpy().tolist()
    return values


def _numbers(column: Any, name: str, path: Path) -> NDArray[Any]:
    if column.null_count:
        raise GgeurError(f"The column '{name}' of {path} lacks numbers: leave those samples out.", code="table-nulls")
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _vectors(column: Any, name: str, path: Path) -> NDArray[Any]:
    """Return (n, p) of a list column; GgeurError where lists are missing or differ in length."""
    import pyarrow.compute as pc

    column = _plain(column)
    values = column.flatten()
    if column.null_count or values.null_count:
        raise GgeurError(
            f"The column '{name}' of {path} lacks embeddings: leave those samples out.", code="table-nulls"
        )
    lengths = pc.unique(pc.list_value_length(column)).to_pylist()
    if len(lengths) > 1:
        raise GgeurError(
            f"The embeddings in the column '{name}' of {path} differ in length: {min(lengths)} and {max(lengths)}.",
            code="samples-ragged",
        )
    return np.asarray(values.to_numpy(zero_copy_only=False)).reshape(len(column), lengths[0] if lengths else 0)
