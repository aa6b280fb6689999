"""From an image file's bytes to RGB pixels, whatever is inside; refused with a reason if it cannot be done."""

import io
import json
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggeur.data.image_set import Picture
from ggeur.data.readers import printable
from ggeur.encoders.encoder import Image
from ggeur.stats.errors import GgeurError
from ggeur.stats.types import FloatArray


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


IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_CHOICES = {"resize": ("shorter-side", "squeeze"), "interpolation": ("nearest", "bilinear", "bicubic", "lanczos")}


@dataclass(frozen=True)
class Preprocessing:
    """Resize the shorter side to `size` and crop the centre, or squeeze to a square; then (x / 255 - mean) / std.

    >>> Preprocessing(size=8)(np.zeros((20, 30, 3), np.uint8)).shape
    (3, 8, 8)
    """

    size: int = 224
    resize: str = "shorter-side"
    interpolation: str = "bicubic"
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD

    def __post_init__(self) -> None:
        if not isinstance(self.size, int) or isinstance(self.size, bool) or not 1 <= self.size <= 4096:
            raise GgeurError(
                f"The size is {self.size!r}; it must be a whole number of pixels between 1 and 4096.",
                code="preprocessing-size-invalid",
            )
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise GgeurError(
                    f"{name} is {getattr(self, name)!r}; it must be one of {', '.join(allowed)}.",
                    code="argument-not-choice",
                )
        for name in ("mean", "std"):
            values = getattr(self, name)
            numbers = isinstance(values, list | tuple) and all(isinstance(v, int | float) for v in values)
            if not numbers or len(values) != 3 or not np.isfinite(values).all() or (name == "std" and min(values) <= 0):
                raise GgeurError(
                    f"{name} is {values!r}; it must be three numbers, for red, green and blue.",
                    code="preprocessing-channels-invalid",
                )
            object.__setattr__(self, name, tuple(map(float, values)))

    def __call__(self, image: Image) -> FloatArray:
        """One RGB image as (3, size, size)."""
        from PIL import Image as Pillow

        picture = Pillow.fromarray(image)
        how = Pillow.Resampling[self.interpolation.upper()]
        if self.resize == "squeeze":
            picture = picture.resize((self.size, self.size), how)
        else:
            short = min(picture.size)
            width, height = (round(self.size * side / short) for side in picture.size)
            picture = picture.resize((width, height), how)
            left, top = (width - self.size) // 2, (height - self.size) // 2
            picture = picture.crop((left, top, left + self.size, top + self.size))
        channels = np.asarray(picture).transpose(2, 0, 1)
        # A byte has 256 values: looking each up is several times quicker than arithmetic on every pixel.
        return np.stack([table.take(channel) for table, channel in zip(self._values, channels, strict=True)])

    @cached_property
    def _values(self) -> FloatArray:
        """(3, 256): what each byte of each channel becomes."""
        mean, std = (np.array(v, np.float32)[:, None] for v in (self.mean, self.std))
        return np.asarray((np.arange(256, dtype=np.float32) / np.float32(255) - mean) / std)

    def __str__(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


def side_file(model: Path) -> Path:
    """Return the side file of a model that may hold its preprocessing: PATH.json."""
    return model.with_name(model.name + ".json")


def read_side_file(model: Path) -> dict[str, Any]:
    """The settings in the side file of a model; none where there is no such file."""
    path = side_file(model)
    if not path.is_file():
        return {}
    try:
        values: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise GgeurError(f"{printable(path)} is not valid JSON: {error}.", code="file-not-json") from error
    known = [field.name for field in fields(Preprocessing)]
    if not isinstance(values, dict) or not set(values) <= set(known):
        raise GgeurError(
            f"{printable(path)} must be a JSON object with no keys other than {', '.join(known)}.",
            code="preprocessing-keys-unknown",
        )
    return values
