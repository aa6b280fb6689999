"""From an image file's bytes to RGB pixels, whatever is inside; refused with a reason if it cannot be done."""

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggeur.core.errors import GgeurError
from ggeur.data.image_set import Picture


class Unreadable(GgeurError):
    """A picture that cannot be decoded; the message says why, and the caller where."""


def to_rgb(picture: Picture, *, most: int | None = None, formats: tuple[str, ...] | None = None) -> NDArray[np.uint8]:
    """Return RGB pixels (H, W, 3): turned upright as EXIF says, CMYK converted, grey and 16-bit spread over 0..255.

    A picture of more than `most` pixels is refused, as is one of other `formats`, by Pillow's names.
    """
    if not isinstance(picture, bytes):
        return picture if picture.ndim == 3 else np.repeat(picture[..., None], 3, axis=2)
    if not picture:
        raise Unreadable("the file is empty", code="image-file-empty")
    from PIL import Image, UnidentifiedImageError

    try:
        image: Any = Image.open(io.BytesIO(picture), formats=formats)
        if image.width * image.height > (most or Image.MAX_IMAGE_PIXELS or np.inf):
            raise Unreadable(
                f"it claims {image.width} x {image.height} pixels, more than is safe to open", code="image-too-large"
            )
        image.load()
        return rgb(image)
    except Unreadable:
        raise
    except UnidentifiedImageError as error:
        raise Unreadable("it is not an image of a known format", code="image-format-unknown") from error
    except Exception as error:  # decoders raise a dozen types on damaged bytes
        raise Unreadable(str(error).strip().rstrip(".") or type(error).__name__, code="image-undecodable") from error


def rgb(image: Any) -> NDArray[np.uint8]:
    """The same of an image that Pillow holds open."""
    from PIL import ImageOps

    return np.asarray(_to_eight_bits(ImageOps.exif_transpose(image)).convert("RGB"))


def _to_eight_bits(image: Any) -> Any:
    """Deep greys by their upper byte, where Pillow would cut off everything above 255; transparency on white."""
    from PIL import Image

    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image, np.uint16) >> 8).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise Unreadable(
            "its pixels have 32 bits, of unknown range; convert it to 8 or 16 bits", code="image-depth-unsupported"
        )
    if image.has_transparency_data:
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
    return image
