"""Write tables as Parquet, piece by piece: embeddings as lists of a fixed length, names as text."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ggeur.data.samples import Samples
from ggeur.data.table import EmbeddingTable
from ggeur.data.tables.arrow import META
from ggeur.data.tables.files import TableFiles, TablePiece
from ggeur.stats.errors import GgeurError, how_to_install
from ggeur.stats.storage import sealed, write_atomically
from ggeur.stats.validate import check_path


class _About(NamedTuple):
    class_names: Sequence[str]
    domain_names: Sequence[str]
    marked: bool  # whether test samples are marked
    text: Mapping[str, NDArray[Any]]
    meta: Mapping[str, Any]


def check_parquet() -> None:
    """Raise GgeurError where Parquet cannot be written here."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise GgeurError(
            f"Parquet needs an extra that is not installed: {how_to_install('tables')}.", code="extra-missing"
        ) from error


def write_parquet(path: str | os.PathLike[str], table: EmbeddingTable | TableFiles | Samples) -> None:
    """Write `table` to the Parquet file `path`, whole or not at all; one in files is never in memory as a whole.

    Columns: `x`, a list of fixed length, `y` and `domain` as text and, where known, `test`, `id` and `group`.
    """
    check_parquet()
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not isinstance(table, TableFiles) and table.x.dtype == np.uint8:
        raise GgeurError(
            f"Cannot write {path}: pictures are kept as .npz, and embeddings alone as .parquet.",
            code="output-file-suffix",
        )
    if isinstance(table, TableFiles):
        about, pieces = (
            _About(table.class_names, table.domain_names, table.marked, table.text, table.meta),
            table.pieces(),
        )
    elif isinstance(table, Samples):
        about, none = _About((), ("all",), False, {}, table.meta), np.zeros(len(table), np.int64)
        pieces = iter([TablePiece(table.x, none - 1, none, none > 0, table.names, ())])
    else:
        about = _About(table.class_names, table.domain_names, table.test is not None, table.text, table.meta)
        pieces = iter([_whole(table)])
    beside: dict[str, Any] = {"meta": dict(about.meta), "names": {"y": list(about.class_names)}}
    beside["names"]["domain"] = list(about.domain_names)
    if about.text:
        beside["text"] = {name: rows.astype(float).tolist() for name, rows in about.text.items()}
    with write_atomically(check_path("out", path)) as file:
        writer = None
        for piece in pieces:
            columns = _columns(piece, about)
            made = pa.table(columns)
            if writer is None:
                schema = made.schema.with_metadata({META: sealed(beside)})
                names = [name for name in columns if name in ("y", "domain", "group")]
                writer = pq.ParquetWriter(
                    file, schema, compression="none", use_dictionary=names, write_page_checksum=True
                )
            writer.write_table(made.cast(schema), row_group_size=1 << 16)
        if writer is not None:
            writer.close()


def _whole(table: EmbeddingTable) -> TablePiece:
    test = np.zeros(len(table), np.bool_) if table.test is None else table.test
    return TablePiece(table.x, table.y, table.domains, test, table.path, ())


def _columns(piece: TablePiece, about: _About) -> dict[str, Any]:
    import pyarrow as pa

    flat = pa.array(np.ascontiguousarray(piece.x).reshape(-1))
    columns = {"x": pa.FixedSizeListArray.from_arrays(flat, piece.x.shape[1])}
    if (piece.y >= 0).all():
        columns["y"] = _text(piece.y, about.class_names)
    columns["domain"] = _text(piece.domain, about.domain_names)
    columns |= {"test": pa.array(piece.test)} if about.marked else {}
    columns |= {"id": pa.array(piece.id)} if piece.id else {}
    return columns | ({"group": pa.array(piece.group)} if piece.group else {})


def _text(codes: Iterable[int], names: Sequence[str]) -> Any:
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(names, pa.string())).dictionary_decode()
