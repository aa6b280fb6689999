"""The embeddings an experiment names: a table on disk, or a dataset through an encoder."""

import os
from contextlib import suppress
from functools import lru_cache

from ggeur.core.errors import GgeurError
from ggeur.data.table import EmbeddingTable
from ggeur.experiment.config import Data

DATASETS = ("mini-digits",)


def load_table(data: Data) -> EmbeddingTable:
    """The table of `[data]`; the same object while the file is the same."""
    stamp = None
    if data.table is not None:
        with suppress(OSError, ValueError):  # reading it will tell
            file = os.stat(data.table)
            stamp = (file.st_mtime_ns, file.st_size)
    return _load(data, stamp)


@lru_cache(maxsize=2)
def _load(data: Data, stamp: tuple[int, int] | None) -> EmbeddingTable:
    if data.table is not None:
        return EmbeddingTable.load(data.table)
    if data.dataset not in DATASETS:
        raise GgeurError(f"There is no dataset '{data.dataset}'; there are {', '.join(DATASETS)}.")
    if data.encoder not in (None, "builtin"):
        raise GgeurError(f"There is no encoder '{data.encoder}' yet; there is builtin.")
    return mini_digits()


def mini_digits() -> EmbeddingTable:
    """The built-in digits through the built-in encoder."""
    from ggeur.data import minidigits
    from ggeur.encode.builtin import BuiltinEncoder

    images, encoder = minidigits.images(), BuiltinEncoder()
    return EmbeddingTable(
        x=encoder.encode(images.x),
        y=images.y,
        domain=images.domain,
        class_names=images.class_names,
        domain_names=images.domain_names,
        meta={
            "dataset": "mini-digits",
            "encoder": encoder.name,
            "weights": encoder.weights_hash,
            "preprocessing": encoder.preprocessing,
        },
    )
