"""The built-in encoder: gradient orientations at two scales in a grid of cells; no weights, no download.

A frozen encoder is any fixed map from images to vectors; this one is made of Gaussian derivatives, so that
the demo and the tests run anywhere. It is a relative of HOG (Dalal and Triggs, 2005), with smooth orientation
channels in place of bins, and contrast divided out around every pixel in place of overlapping blocks. For
small pictures of shapes it serves well; for photographs use a foundation model.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggeur.encoders.encoder import Encoder, Image
from ggeur.stats.errors import GgeurError
from ggeur.stats.types import FloatArray

SIDE = 32  # images are brought to this size first
_SMALLEST = 8  # pixels; anything smaller shows no shape
_BATCH = 256  # images at a time: bounds memory, changes no number beyond rounding
_VERSION = "ggeur builtin encoder 1"  # to be raised with every change that moves an embedding
_NOISE_FLOOR = 0.01  # local contrast below this is not amplified; images span 0 to 1
_ROOT_FLOOR = 1e-3  # keeps the root's slope finite, lest it magnify rounding where an image is flat


@dataclass(frozen=True)
class _Scale:
    sigma: float  # of the Gaussian whose derivatives are taken, in pixels
    cells: int  # per side
    orientations: int


_SCALES = (_Scale(sigma=0.8, cells=6, orientations=8), _Scale(sigma=2.0, cells=5, orientations=8))


class BuiltinEncoder(Encoder):
    """Images of any size to vectors of `dimension`, in float32.

    A negative or a change of brightness leaves the embedding as it is, a change of contrast nearly so.
    Colour is reduced to grey; images that are not square are squeezed into one.

    >>> pictures = np.random.default_rng(0).integers(0, 256, (5, 40, 28, 3), dtype=np.uint8)
    >>> BuiltinEncoder().encode(pictures).shape
    (5, 488)
    """

    name = "builtin"
    dimension: int = sum(scale.cells**2 * scale.orientations for scale in _SCALES)
    preprocessing = f"grey (Rec. 601), squeezed to {SIDE}x{SIDE} by a triangle filter, 0..1 less its mean"
    weights_hash: str = hashlib.sha256(_VERSION.encode()).hexdigest()

    def prepare(self, image: Image) -> FloatArray:
        """One image as (SIDE, SIDE): grey, squeezed, about its mean."""
        one = np.asarray(image)[None]
        _check(one)
        return _to_grey(one)[0]

    def forward(self, prepared: FloatArray) -> FloatArray:
        return np.concatenate([_channels(prepared, scale) for scale in _SCALES], axis=1)

    def encode(self, images: Sequence[Image] | NDArray[np.uint8]) -> FloatArray:
        """Return embeddings (N, dimension) of bytes, (N, H, W, 3) or (N, H, W), of at least 8 pixels a side."""
        if isinstance(images, Sequence):
            return super().encode(images)
        _check(images)
        embeddings = np.empty((len(images), self.dimension), dtype=np.float32)
        for start in range(0, len(images), _BATCH):
            embeddings[start : start + _BATCH] = self.forward(_to_grey(images[start : start + _BATCH]))
        return embeddings


def _check(images: NDArray[np.uint8]) -> None:
    kind = getattr(images, "dtype", type(images).__name__)
    if kind != np.uint8:
        raise GgeurError(
            f"the builtin encoder takes arrays of bytes, not {kind}; convert pixels to uint8 in 0..255.",
            code="image-array-type",
        )
    if images.ndim not in (3, 4) or (images.ndim == 4 and images.shape[3] != 3):
        raise GgeurError(
            f"the builtin encoder takes images of shape (N, H, W, 3) or (N, H, W), not {images.shape}; "
            "put channels last and give even a single image a leading axis.",
            code="image-array-shape",
        )
    if min(images.shape[1:3]) < _SMALLEST:
        raise GgeurError(
            f"the builtin encoder needs images of at least {_SMALLEST}x{_SMALLEST} pixels, "
            f"not {images.shape[1]}x{images.shape[2]}; give it the originals, before any reduction.",
            code="image-too-small",
        )


def _to_grey(images: NDArray[np.uint8]) -> FloatArray:
    """Grey pictures (n, SIDE, SIDE) that span at most 1, each about its mean: only changes are looked at."""
    grey = images.astype(np.float32) / np.float32(255)
    if grey.ndim == 4:
        grey = grey @ np.array([0.299, 0.587, 0.114], dtype=np.float32)
    samples, columns = _resize(grey.shape[1]), _resize(grey.shape[2])
    small = samples @ grey @ columns.T
    return np.asarray(small - small.mean(axis=(1, 2), keepdims=True))


def _channels(grey: FloatArray, scale: _Scale) -> FloatArray:
    """Return the energy of each orientation in each cell at one scale, (n, cells^2 * orientations)."""
    smooth, slope = _gaussian(scale.sigma)
    across, down = smooth @ grey @ slope.T, slope @ grey @ smooth.T
    strength = np.sqrt(across**2 + down**2)
    # Contrast around a pixel (over a third of the image) is divided out: ink counts, not how dark it is.
    wide, _ = _gaussian(SIDE / 6)
    contrast = np.sqrt(wide @ strength**2 @ wide.T)
    weight = strength / (contrast + np.float32(_NOISE_FLOOR))
    # In the doubled angle a gradient and its opposite agree, so an edge has an orientation and no polarity.
    norm = np.maximum(strength**2, np.float32(1e-12))
    double_cos, double_sin = (across**2 - down**2) / norm, 2 * across * down / norm
    pool = _cells(scale.cells)
    maps = []
    for angle in 2 * np.pi * np.arange(scale.orientations, dtype=np.float32) / scale.orientations:
        tuning = np.maximum(double_cos * np.cos(angle) + double_sin * np.sin(angle), 0)
        maps.append(pool @ (weight * tuning * tuning * tuning) @ pool.T)
    energy = np.stack(maps, axis=-1).reshape(len(grey), -1)
    # The root evens out the spread of faint and strong cells, as Gaussian class shapes would have it.
    floor = np.float32(_ROOT_FLOOR)
    return np.asarray(np.sqrt(energy + floor) - np.sqrt(floor))


# Every linear step is separable: a small matrix, applied to the rows and columns of a whole batch.


def _resize(size: int) -> FloatArray:
    """(SIDE, size): linear interpolation when enlarging, a triangle-weighted average when reducing."""
    ratio = size / SIDE
    centres = (np.arange(SIDE) + 0.5) * ratio - 0.5
    distance = np.abs(centres[:, None] - np.arange(size)) / max(ratio, 1.0)
    return _rows_to_one(np.maximum(1.0 - distance, 0.0))


def _cells(cells: int) -> FloatArray:
    """(cells, SIDE): means over overlapping triangular windows, so that a small shift changes little."""
    width = SIDE / cells
    centres = (np.arange(cells) + 0.5) * width - 0.5
    return _rows_to_one(np.maximum(1.0 - np.abs(centres[:, None] - np.arange(SIDE)) / width, 0.0))


def _gaussian(sigma: float) -> tuple[FloatArray, FloatArray]:
    """(SIDE, SIDE) twice: Gaussian smoothing, and its derivative; the picture's border repeats outwards."""
    reach = int(np.ceil(4 * sigma))
    outer = np.arange(-reach, SIDE + reach)
    offset = outer - np.arange(SIDE)[:, None]
    # Cut off alike on both sides: the slope of a flat picture is then nothing, not a remainder of the tails.
    bell = np.exp(-0.5 * (offset / sigma) ** 2) * (np.abs(offset) <= reach)
    bell /= bell.sum(axis=1, keepdims=True)
    derivative = bell * offset / sigma  # in units of sigma, so that scales answer alike
    repeat = np.eye(SIDE)[np.clip(outer, 0, SIDE - 1)]
    return (bell @ repeat).astype(np.float32), (derivative @ repeat).astype(np.float32)


def _rows_to_one(weights: NDArray[np.float64]) -> FloatArray:
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), dtype=np.float32)


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
