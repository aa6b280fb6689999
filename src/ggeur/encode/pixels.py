"""The pictures themselves, for networks on images: all squeezed to one size, and otherwise as they are."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggeur.core.errors import GgeurError
from ggeur.core.types import FloatArray
from ggeur.encode.encoder import Encoder, Image

_LEAST, _MOST = 16, 1024


class Pixels(Encoder):
    """`pixels:S`: a picture squeezed to S x S, as (3 S S,) numbers from 0 to 255.

    >>> Pixels("32").encode([np.full((20, 30, 3), 7, np.uint8)])[0, :3].tolist()
    [7.0, 7.0, 7.0]
    """

    weights_hash = "pixels"

    def __init__(self, size: str) -> None:
        if not size.isdecimal() or not _LEAST <= int(size) <= _MOST:
            raise GgeurError(
                f"'pixels:{size}' must say how many pixels a side, {_LEAST} to {_MOST}: pixels:32, say.",
                code="encoder-pixels-size",
            )
        self.side = int(size)
        self.name, self.dimension = f"pixels:{self.side}", 3 * self.side**2
        self.preprocessing = f"squeezed to {self.side} x {self.side}, bilinear"

    def picture(self, image: Image) -> NDArray[np.uint8]:
        """(S, S, 3), by Pillow's bilinear filter; a picture of that size is left alone."""
        from PIL import Image as Pillow

        if image.shape[:2] == (self.side, self.side):
            return image
        resized: Any = Pillow.fromarray(image).resize((self.side, self.side), Pillow.Resampling.BILINEAR)
        return np.asarray(resized)

    def prepare(self, image: Image) -> FloatArray:
        return self.picture(image).reshape(-1).astype(np.float32)

    def forward(self, prepared: FloatArray) -> FloatArray:
        return prepared
