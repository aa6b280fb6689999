"""SVHN as the benchmark reads it, to explain its column.

Its loader hands Pillow a picture with the colours first, (3, 32, 32), as if it were rows of RGB. Older versions of
Pillow take that for a picture 32 wide and 3 high, whose bytes are the first 288 of the red plane, nine of its rows;
the loader then stretches it to 32 x 32. Newer versions refuse.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ggeur.core.errors import GgeurError
from ggeur.data.image_set import ImageSet, Item, Picture

_SIDE = 32


def garbled(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return what the benchmark makes of a picture (32, 32, 3)."""
    from PIL import Image

    read = np.ascontiguousarray(picture.transpose(2, 0, 1)).ravel()[: 3 * _SIDE * 3].reshape(3, _SIDE, 3)
    return np.asarray(Image.fromarray(read).resize((_SIDE, _SIDE), Image.Resampling.BILINEAR))


def as_benchmark(images: ImageSet) -> ImageSet:
    """Return the same pictures, those of the domain svhn garbled."""
    if "svhn" not in images.domain_names:
        raise GgeurError(
            '[data] svhn = "as-benchmark" is for a dataset with the domain svhn, such as digits.',
            code="settings-svhn-domain",
        )
    theirs = images.domain == images.domain_names.index("svhn")
    items = [
        Item(item.where, partial(_read, item.read)) if one else item
        for item, one in zip(images.items, theirs, strict=True)
    ]
    return replace(images, items=items, meta={**images.meta, "svhn": "as-benchmark"})


def _read(read: Callable[[], Picture]) -> NDArray[np.uint8]:
    picture = read()
    if isinstance(picture, bytes) or picture.shape != (_SIDE, _SIDE, 3):
        raise GgeurError(
            "SVHN as the benchmark reads it needs pixels of 32 x 32 from its own files, not image files.",
            code="dataset-svhn-pixels",
        )
    return garbled(picture)
