"""Draw the built-in digits: glyphs of fonts or strokes of a pen, their pose, ink and surroundings."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from ggeur.stats.errors import GgeurError
from ggeur.stats.storage import packaged_toml
from ggeur.stats.types import FloatArray

PEN_POINTS = 72  # dots laid along a digit's strokes: dense enough that the thinnest pen leaves no gaps


def pen_points(digits: NDArray[np.int64], rng: np.random.Generator) -> FloatArray:
    """A way of writing each of the `digits`, drawn at random: dots (N, PEN_POINTS, 2) in the unit box."""
    library = _pen_library()
    ways = np.array([len(of_digit) for of_digit in library])
    first = np.concatenate([[0], np.cumsum(ways)[:-1]])
    way = np.floor(rng.random(len(digits)) * ways[digits]).astype(np.int64)
    dots: FloatArray = np.concatenate(library)[first[digits] + way]
    return dots


@cache
def _pen_library() -> tuple[FloatArray, ...]:
    """Per digit its ways of writing, from `pen.toml`, as dots (ways, PEN_POINTS, 2)."""
    pen = packaged_toml("data", "pen.toml")
    return tuple(np.stack([_dots(way) for way in of_digit]) for of_digit in pen["digits"])


def _dots(way: str) -> FloatArray:
    """PEN_POINTS dots spread evenly over the length of all strokes together."""
    strokes = [[point.split(",") for point in stroke.split()] for stroke in way.split("/")]
    curves = [_curve(np.array(stroke, dtype=np.float64) / 100) for stroke in strokes]
    lengths = [np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(c, axis=0), axis=1))]) for c in curves]
    ends = np.cumsum([0.0] + [length[-1] for length in lengths])
    # Laid end to end, strokes share one ruler; a dot belongs to the stroke where its place falls.
    ruler = np.linspace(0.0, ends[-1], PEN_POINTS)
    which = np.clip(np.searchsorted(ends, ruler, side="right") - 1, 0, len(curves) - 1)
    dots = np.empty((PEN_POINTS, 2), dtype=np.float32)
    for s, (curve, length) in enumerate(zip(curves, lengths, strict=True)):
        on = which == s
        for axis in range(2):
            dots[on, axis] = np.interp(ruler[on] - ends[s], length, curve[:, axis])
    return dots


def _curve(knots: NDArray[np.float64], steps: int = 24) -> NDArray[np.float64]:
    """A Catmull-Rom spline through the knots: smooth, and needs no tangents of its own."""
    padded = np.concatenate([2 * knots[:1] - knots[1:2], knots, 2 * knots[-1:] - knots[-2:-1]])
    p0, p1, p2, p3 = (padded[i : len(padded) - 3 + i, None, :] for i in range(4))
    t = np.linspace(0.0, 1.0, steps)[None, :, None]
    curve = 0.5 * (2 * p1 + (p2 - p0) * t + (2 * p0 - 5 * p1 + 4 * p2 - p3) * t**2 + (3 * p1 - p0 - 3 * p2 + p3) * t**3)
    return np.asarray(curve.reshape(-1, 2))


MASK = 64  # side of a glyph's mask
GLYPH_HEIGHT = 44  # of which the digit takes this much, leaving room for a warp to look around it


@cache
def font_masks(fonts: tuple[str, ...]) -> FloatArray:
    """Digits 0 to 9 of each font, (fonts * 10, MASK, MASK), ink 1 on 0, all of one height."""
    from pathlib import Path

    import matplotlib
    from matplotlib.font_manager import FontProperties
    from matplotlib.path import Path as Outline
    from matplotlib.textpath import TextPath
    from scipy import ndimage

    centres = np.arange(MASK) + 0.5
    pixels = np.stack(np.meshgrid(centres, centres), axis=-1).reshape(-1, 2)
    folder = Path(matplotlib.get_data_path(), "fonts", "ttf")
    inside = np.zeros((len(fonts), 10, MASK * MASK), dtype=bool)
    for f, font in enumerate(fonts):
        file = folder / f"{font}.ttf"
        if not file.is_file():
            raise GgeurError(
                f"matplotlib lacks its bundled font {file}; reinstall matplotlib from PyPI.", code="font-missing"
            )
        for digit in range(10):
            outline = TextPath((0, 0), str(digit), size=100, prop=FontProperties(fname=file))
            contours = outline.to_polygons(closed_only=True)
            points = np.concatenate(contours)
            low, high = points.min(axis=0), points.max(axis=0)
            zoom, middle = GLYPH_HEIGHT / (high[1] - low[1]), (low + high) / 2
            for contour in contours:
                # Even-odd: the hole of a 0 is a contour inside a contour. Fonts have y up, images down.
                polygon = Outline((contour - middle) * [zoom, -zoom] + MASK / 2, closed=True)
                inside[f, digit] ^= polygon.contains_points(pixels)
    # A pixel of an image covers about two of a mask: edges are smoothed here, lest they alias there.
    hard = inside.reshape(-1, MASK, MASK).astype(np.float32)
    masks: FloatArray = ndimage.gaussian_filter(hard, (0.0, 0.9, 0.9))
    masks.setflags(write=False)
    return masks


SIDE = 32  # of every image
_LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)


def poses(
    n: int, rng: np.random.Generator, *, turn: float, shear: float, sizes: tuple[float, float], shift: float
) -> tuple[FloatArray, FloatArray]:
    """Random affine poses: matrices (n, 2, 2) from a digit of unit height to pixels, and centres (n, 2).

    `turn` is in radians; `sizes` (heights) and `shift` are in pixels; widths vary by a tenth more.
    """
    angle = rng.uniform(-turn, turn, n)
    slant = rng.uniform(-shear, shear, n)
    height = rng.uniform(*sizes, n)
    width = height * rng.uniform(0.9, 1.1, n)
    cos, sin = np.cos(angle), np.sin(angle)
    rotation = np.stack([np.stack([cos, -sin], -1), np.stack([sin, cos], -1)], -2)
    zero = np.zeros(n)
    stretch = np.stack([np.stack([width, slant * width], -1), np.stack([zero, height], -1)], -2)
    centre = SIDE / 2 + rng.uniform(-shift, shift, (n, 2))
    return (rotation @ stretch).astype(np.float32), centre.astype(np.float32)


def place(masks: FloatArray, which: NDArray[np.int64], matrix: FloatArray, centre: FloatArray) -> FloatArray:
    """Glyph `which[i]` of `masks` (M, MASK, MASK) in pose i, as ink (n, SIDE, SIDE) between 0 and 1."""
    from scipy import ndimage

    at = np.arange(SIDE, dtype=np.float32) + 0.5
    grid = np.stack(np.meshgrid(at, at), axis=-1).reshape(-1, 2)
    seen = (grid - centre[:, None, :]) @ np.linalg.inv(matrix).transpose(0, 2, 1)
    x, y = np.moveaxis(seen * GLYPH_HEIGHT + MASK / 2 - 0.5, -1, 0)
    layer = np.broadcast_to(which[:, None], x.shape)
    ink = ndimage.map_coordinates(masks, np.stack([layer, y, x]), order=1, output=np.float32)
    return np.asarray(ink).reshape(-1, SIDE, SIDE)


def write(dots: FloatArray, radius: FloatArray, *, chunk: int = 200) -> FloatArray:
    """Ink (n, SIDE, SIDE) of a round pen of `radius` (n,) that passed over dots (n, P, 2), all in pixels."""
    at = np.arange(SIDE, dtype=np.float32) + 0.5
    nearest = np.empty((len(dots), SIDE, SIDE), dtype=np.float32)
    for start in range(0, len(dots), chunk):
        part = dots[start : start + chunk]
        across = (at[:, None] - part[:, None, :, 0]) ** 2
        down = (at[:, None] - part[:, None, :, 1]) ** 2
        nearest[start : start + chunk] = (down[:, :, None, :] + across[:, None, :, :]).min(axis=-1)
    return np.asarray(np.clip(radius[:, None, None] - np.sqrt(nearest) + 0.5, 0.0, 1.0), dtype=np.float32)


def wobble(dots: FloatArray, rng: np.random.Generator, amount: float) -> FloatArray:
    """Bend the dots by a few slow random waves: an elastic warp, under which strokes that meet still meet."""
    n, waves = len(dots), 3
    frequency = rng.uniform(-4.0, 4.0, (n, waves, 2))
    phase = rng.uniform(0.0, 2 * np.pi, (n, waves, 1))
    push = rng.normal(0.0, amount, (n, waves, 2))
    wave = np.sin(frequency @ dots.transpose(0, 2, 1) + phase)
    return (dots + wave.transpose(0, 2, 1) @ push).astype(np.float32)


def soft_noise(n: int, rng: np.random.Generator, grain: float) -> FloatArray:
    """Smooth random fields (n, SIDE, SIDE), standardised; `grain` is the size of their blobs in pixels."""
    from scipy import ndimage

    field = ndimage.gaussian_filter(
        rng.standard_normal((n, SIDE, SIDE)).astype(np.float32), (0, grain, grain), mode="wrap"
    )
    field -= field.mean(axis=(1, 2), keepdims=True)
    return np.asarray(field / field.std(axis=(1, 2), keepdims=True), dtype=np.float32)


def gratings(n: int, rng: np.random.Generator) -> FloatArray:
    """Plane waves (n, SIDE, SIDE), standardised, in any direction, 4 to 10 pixels long: a weave."""
    angle, phase = rng.uniform(0.0, 2 * np.pi, (2, n, 1, 1))
    length = rng.uniform(4.0, 10.0, (n, 1, 1))
    y, x = np.mgrid[:SIDE, :SIDE]
    wave = np.sin(2 * np.pi / length * (np.cos(angle) * x + np.sin(angle) * y) + phase)
    return np.asarray(np.sqrt(2.0) * wave, dtype=np.float32)


def blur(pictures: FloatArray, rng: np.random.Generator, *, widest: float) -> FloatArray:
    """Each picture (n, SIDE, SIDE, 3) out of focus by an amount of its own, up to `widest` pixels."""
    from scipy import ndimage

    soft = ndimage.gaussian_filter(pictures, (0, widest, widest, 0))
    share = rng.random((len(pictures), 1, 1, 1), dtype=np.float32)
    return np.asarray(pictures + share * (soft - pictures))


def colour_pairs(n: int, rng: np.random.Generator, *, contrast: tuple[float, float]) -> tuple[FloatArray, FloatArray]:
    """Background and ink colours (n, 3): random hues, their brightness `contrast` apart, either way round."""
    gap = rng.uniform(*contrast, n)
    low = rng.uniform(0.0, 1.0, n) * (1.0 - gap)
    flip = rng.random(n) < 0.5
    brightness = np.where(flip, low, low + gap), np.where(flip, low + gap, low)
    back, ink = (_hue_of(value.astype(np.float32), rng) for value in brightness)
    return back, ink


def patch_colours(back: FloatArray, ink: FloatArray, rng: np.random.Generator) -> FloatArray:
    """A second background colour (n, 3) each, of any brightness that leaves the ink legible on it."""
    on, of = back @ _LUMA, ink @ _LUMA
    nearest, farthest = on + (of - on) / 4, np.where(on > of, 1.0, 0.0)
    brightness = nearest + rng.random(len(back)) * (farthest - nearest)
    return _hue_of(brightness.astype(np.float32), rng)


def _hue_of(brightness: FloatArray, rng: np.random.Generator) -> FloatArray:
    """A random colour of each given brightness: a random tint that adds no luma, shrunk to stay a colour."""
    tint = rng.uniform(-0.5, 0.5, (len(brightness), 3)).astype(np.float32)
    tint -= (tint @ _LUMA)[:, None]
    grey = brightness[:, None]
    room = np.where(tint > 0, 1.0 - grey, grey) / np.maximum(np.abs(tint), 1e-6)
    return np.asarray(grey + tint * np.minimum(room.min(axis=1, keepdims=True), 1.0), dtype=np.float32)


def mix(background: FloatArray, ink: FloatArray, amount: FloatArray) -> FloatArray:
    """Colour `ink` over `background`, broadcast to pictures, by `amount` (n, SIDE, SIDE) in 0..1."""
    return background + amount[..., None] * (ink - background)


def to_bytes(pictures: FloatArray) -> NDArray[np.uint8]:
    """Brightness between 0 and 1 as the bytes of an image, grey pictures as RGB."""
    if pictures.ndim == 3:
        pictures = np.repeat(pictures[..., None], 3, axis=-1)
    return np.rint(np.clip(pictures, 0.0, 1.0) * 255).astype(np.uint8)
