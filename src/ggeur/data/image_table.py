"""ImageTable: pictures with labels, all of one size, as bytes; what a network on images trains on."""

import os
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ggeur.data.table import EmbeddingTable
from ggeur.stats.errors import GgeurError
from ggeur.stats.storage import array_shape


class ImageTable(EmbeddingTable):
    """Samples `x` are pictures (N, S, S, 3) of bytes, kept flat, (N, 3 S S); all else is as an EmbeddingTable has it.

    So whatever partitions samples, picks them and hands them to a head does the same with both. They stay bytes until
    a step forms its batch.

    >>> t = ImageTable(x=np.zeros((4, 32, 32, 3), np.uint8), y=[0, 1, 0, 1])
    >>> t.pixels, t.dimension, t.pictures.shape, t.split(0).x.dtype
    (32, 3072, (4, 32, 32, 3), dtype('uint8'))
    """

    @staticmethod
    def _checked(x: ArrayLike) -> NDArray[Any]:
        x = np.asarray(x)
        flat = x.ndim == 2 and x.shape[1] == 3 * isqrt(x.shape[1] // 3) ** 2
        square = x.ndim == 4 and x.shape[1] == x.shape[2] and x.shape[3] == 3
        if x.dtype != np.uint8 or not (flat or square):
            raise GgeurError(
                f"The pictures x are {x.dtype} of shape {x.shape}; they must be bytes, (N, S, S, 3).",
                code="table-pixels-invalid",
            )
        return x.reshape(len(x), -1)

    def _stored(self) -> NDArray[Any]:
        return self.pictures

    @property
    def pixels(self) -> int:
        """A side."""
        return isqrt(self.dimension // 3)

    @property
    def pictures(self) -> NDArray[np.uint8]:
        """(N, S, S, 3)."""
        return self.x.reshape(len(self.x), self.pixels, self.pixels, 3)


def load_any(path: str | os.PathLike[str]) -> EmbeddingTable:
    """Load the table at `path`, of embeddings or of pictures."""
    return ImageTable.load(path) if is_image_table(path) else EmbeddingTable.load(path)


def is_image_table(path: str | os.PathLike[str]) -> bool:
    """Return whether the file at `path` says that its samples are pictures."""
    return len(array_shape(Path(path), "x")) == 4
