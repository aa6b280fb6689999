"""A simulated pen: digits as strokes, several ways of writing each."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from ggeur.core.packaged import packaged_toml
from ggeur.core.types import FloatArray

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
    pen = packaged_toml("demo", "pen.toml")
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
