"""The embeddings or pictures an experiment names: a table on disk, or a dataset through an encoder."""

import warnings
from functools import cache

from ggeur.core.errors import GgeurWarning
from ggeur.data.datasets import MINI_DIGITS, load
from ggeur.data.image_table import load_any
from ggeur.data.svhn import as_benchmark
from ggeur.data.table import EmbeddingTable
from ggeur.settings.schema import Data


def load_table(data: Data) -> EmbeddingTable:
    """The table of `[data]`, read or made."""
    if data.table is not None:
        return load_any(data.table)
    assert data.dataset is not None  # [data] has one or the other
    if data.dataset == MINI_DIGITS and data.encoder in (None, "builtin"):
        return mini_digits()
    from ggeur.encode.encoder import DEFAULT, load_encoder
    from ggeur.encode.job import embed

    images = load(data.dataset)
    images = images if data.svhn == "correct" else as_benchmark(images)
    encoder = load_encoder(data.encoder or DEFAULT)
    cached = "" if encoder.name.startswith("pixels:") else ", unless the cache has them"
    warnings.warn(
        f"Embedding the {len(images):,} images of {data.dataset} with {encoder.name}{cached}; "
        "`ggeur embed` makes a table of them and shows how far it is.",
        GgeurWarning,
        stacklevel=3,
    )
    return embed(images, encoder).table


@cache
def mini_digits() -> EmbeddingTable:
    """The built-in digits through the built-in encoder, made once in a process: they are a constant of the package."""
    from ggeur.demo import digits
    from ggeur.encode.builtin import BuiltinEncoder
    from ggeur.encode.encoder import about

    images, encoder = digits.images(), BuiltinEncoder()
    return EmbeddingTable(
        x=encoder.encode(images.x),
        y=images.y,
        domain=images.domain,
        class_names=images.class_names,
        domain_names=images.domain_names,
        meta={"dataset": MINI_DIGITS, **about(encoder)},
    )
