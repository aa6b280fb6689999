"""Samples that a model is to label: embeddings with the names of their pictures, and labels where there are some."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ggeur.data.image_table import load_any
from ggeur.data.table import PARQUET, EmbeddingTable
from ggeur.stats.errors import GgeurError
from ggeur.stats.storage import read_arrays, write_atomically
from ggeur.stats.validate import check_embeddings


@dataclass(frozen=True, eq=False)
class Samples:
    """Embeddings `x` (N, p); `names` of the pictures and `labels` (names of classes): N each, or none.

    `meta` is what a table says of the encoder.
    """

    x: NDArray[Any]
    names: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "x", check_embeddings(self.x))
        if any(some and len(some) != len(self.x) for some in (self.names, self.labels)):
            raise GgeurError(
                f"There are {len(self.x)} samples, and names or labels are not as many.", code="samples-names-mismatch"
            )

    def __len__(self) -> int:
        return len(self.x)

    @classmethod
    def of(cls, table: EmbeddingTable) -> Self:
        """The samples of a `table`, which have labels."""
        return cls(table.x, table.path, tuple(table.class_names[c] for c in table.y), table.meta)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write them to `path` (.npz or .parquet) without labels: a table that can be labelled and not learnt from."""
        if Path(path).suffix in PARQUET:
            from ggeur.data.tables.writing import write_parquet

            write_parquet(path, self)
            return
        meta = np.array(json.dumps(dict(self.meta), sort_keys=True))
        with write_atomically(path) as file:
            np.savez(file, allow_pickle=False, x=self.x, path=np.array(self.names, np.str_), meta=meta)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read the table at `path` (.npz), with labels or without."""
        path = Path(path)
        arrays = read_arrays(path, ("x", "y", "path", "meta"))
        if "x" not in arrays or "y" in arrays:
            return cls.of(load_any(path))  # which also says what is wrong
        try:
            meta = dict(json.loads(str(arrays.get("meta", "{}"))))
            return cls(arrays["x"], tuple(map(str, arrays["path"].ravel())) if "path" in arrays else (), meta=meta)
        except GgeurError as error:
            raise GgeurError(f"{path}: {error}", code=error.code) from error
        except (ValueError, TypeError, RecursionError) as error:
            raise GgeurError(f"{path} is damaged: {error}.", code="file-damaged") from error
