"""A simulated pen: digits as strokes, several ways of writing each."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from ggeur.core.types import FloatArray

# Per digit its ways of writing, strokes divided by "/": points "x,y" in percent of a box, y down. A stroke is
# a smooth curve through its points, so a sharp corner is where one stroke ends and the next begins.
_PEN = (
    (
        "50,0 15,20 10,50 15,80 50,100 85,80 90,50 85,20 50,0",
        "60,0 30,15 15,60 35,100 70,80 85,35 60,0",
    ),
    (
        "50,0 50,100",
        "25,25 40,15 55,0 / 55,0 55,100",
        "30,20 50,0 / 50,0 50,100 / 20,100 80,100",
    ),
    (
        "10,25 25,5 55,0 80,20 70,50 10,100 / 10,100 90,100",
        "10,20 40,0 75,10 75,40 45,75 20,95 10,80 30,75 / 30,75 55,92 95,90",
    ),
    (
        "10,12 45,0 80,15 75,38 40,48 / 40,48 80,60 85,82 50,100 10,88",
        "12,0 82,0 / 82,0 42,42 / 42,42 80,52 85,80 50,100 10,90",
    ),
    (
        "60,0 5,68 / 5,68 95,68 / 65,30 65,100",
        "20,0 12,50 / 12,50 85,50 / 75,5 72,100",
    ),
    (
        "85,0 22,0 / 22,0 15,45 / 15,45 50,36 85,55 82,85 50,100 10,90",
        "90,2 30,4 / 30,4 30,40 / 30,40 70,50 75,80 45,100 12,95",
    ),
    (
        "70,0 30,25 12,65 30,97 70,95 85,70 60,50 15,68",
        "35,0 18,40 15,80 50,100 85,80 70,55 40,55 16,75",
    ),
    (
        "8,0 90,0 / 90,0 55,50 40,100",
        "10,2 88,0 / 88,0 35,100 / 30,50 85,50",
    ),
    (
        "50,47 20,30 25,5 50,0 75,5 80,30 50,47 / 50,47 12,68 20,95 50,100 80,95 88,68 50,47",
        "80,10 50,0 20,15 30,38 70,60 80,85 50,100 20,85 30,60 / 30,60 70,35 80,10",
    ),
    (
        "85,25 60,0 25,5 15,30 40,50 75,42 85,20 / 85,20 80,65 60,100",
        "80,15 50,0 18,20 35,48 70,40 80,15 / 80,15 80,80 50,100 15,88",
    ),
)
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
    return tuple(np.stack([_dots(way) for way in of_digit]) for of_digit in _PEN)


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
