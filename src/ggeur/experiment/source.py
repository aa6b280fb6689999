"""The embeddings an experiment names: a table on disk, or a dataset through an encoder."""

from functools import lru_cache

from ggeur.core.errors import GgeurError
from ggeur.data.table import EmbeddingTable
from ggeur.experiment.config import Data

DATASETS = ("mini-digits",)


@lru_cache(maxsize=2)
def load_table(data: Data) -> EmbeddingTable:
    """The table of `[data]`."""
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
