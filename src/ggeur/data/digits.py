"""The built-in data set: ten digits in four domains, made from installed packages alone.

It stands in for the four-domain digits federation (MNIST, USPS, SVHN, SYN) where nothing may be downloaded:
in the demo, the tests, a first look. It is **not a benchmark**: three of its domains are drawn by this
module, so accuracies on it say nothing about those data sets and compare with no published number.

- `handwritten`: the 1,797 scans of scikit-learn's `load_digits`, in their order, enlarged from 8x8; real.
- `typeset`: serif and typewriter fonts bundled with matplotlib, dark on light paper, tilted and noisy.
- `clutter`: sans-serif fonts in colour on blurred, patchy colours, neighbouring digits in view, as in SVHN.
- `texture`: a simulated pen's strokes, which invert the coloured texture they lie on; in the place of SYN.

No two domains share a scan, a font or a pen, so no test sample of one is a training sample of another.
Within `typeset`, `clutter` and `texture`, training and test samples share the fonts and the ways of writing.

>>> digits = images()
>>> digits.x.shape, digits.x.dtype
((7197, 32, 32, 3), dtype('uint8'))
>>> dict(zip(digits.domain_names, np.bincount(digits.domain).tolist()))
{'handwritten': 1797, 'typeset': 1800, 'clutter': 1800, 'texture': 1800}
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ggeur.data import digits_drawing as render
from ggeur.data.digits_drawing import font_masks, pen_points
from ggeur.stats.seeding import generator
from ggeur.stats.storage import packaged_toml
from ggeur.stats.types import FloatArray

PER_CLASS = 180  # in each made-up domain: about as many as the handwritten one has

_FONTS = packaged_toml("data", "fonts.toml")
TYPESET_FONTS, CLUTTER_FONTS = tuple(_FONTS["typeset"]), tuple(_FONTS["clutter"])

_Domain = tuple[NDArray[np.uint8], NDArray[np.int64]]  # images and their labels


@dataclass(frozen=True)
class MiniDigits:
    """Images with their labels: `x` (N, 32, 32, 3) bytes, and per image its class `y` and its `domain`."""

    x: NDArray[np.uint8]
    y: NDArray[np.int64]
    domain: NDArray[np.int64]
    class_names: tuple[str, ...]
    domain_names: tuple[str, ...]


def images(seed: int = 0) -> MiniDigits:
    """All four domains, one after the other; the same `seed` gives the same bytes.

    The seed draws the three made-up domains; the handwritten one is always the same.
    """
    domains = {
        "handwritten": _handwritten(),
        "typeset": _typeset(generator(seed, "minidigits", "typeset")),
        "clutter": _clutter(generator(seed, "minidigits", "clutter")),
        "texture": _texture(generator(seed, "minidigits", "texture")),
    }
    return MiniDigits(
        x=np.concatenate([x for x, _ in domains.values()]),
        y=np.concatenate([y for _, y in domains.values()]),
        domain=np.repeat(np.arange(len(domains)), [len(y) for _, y in domains.values()]),
        class_names=tuple(str(digit) for digit in range(10)),
        domain_names=tuple(domains),
    )


def _handwritten() -> _Domain:
    from scipy import ndimage
    from sklearn.datasets import load_digits

    scans = load_digits()
    # A cubic spline is linear and separable, so enlarging the unit pixels of a line enlarges any image.
    spread = ndimage.zoom(np.eye(8), (render.SIDE / 8, 1), order=3, mode="grid-constant", grid_mode=True)
    large = spread @ (scans.images / 16.0) @ spread.T
    return render.to_bytes(large.astype(np.float32)), scans.target.astype(np.int64)


def _typeset(rng: np.random.Generator) -> _Domain:
    y = _labels(rng)
    matrix, centre = render.poses(len(y), rng, turn=0.25, shear=0.3, sizes=(17.0, 25.0), shift=3.0)
    ink = _print(TYPESET_FONTS, y, rng, matrix, centre)
    paper = rng.uniform(0.75, 1.0, (len(y), 1, 1))
    black = rng.uniform(0.0, 0.35, (len(y), 1, 1))
    grain = 0.06 * rng.standard_normal(ink.shape)
    return render.to_bytes((paper + ink * (black - paper) + grain).astype(np.float32)), y


def _clutter(rng: np.random.Generator) -> _Domain:
    y = _labels(rng)
    n = len(y)
    matrix, centre = render.poses(n, rng, turn=0.3, shear=0.3, sizes=(17.0, 26.0), shift=3.0)
    ink = _print(CLUTTER_FONTS, y, rng, matrix, centre)
    for side in (-1.0, 1.0):
        # A neighbour has the digit's pose and stands beside it along its line of writing; some are missing.
        step = matrix[:, :, 0] * rng.uniform(0.7, 0.95, (n, 1)).astype(np.float32)
        step[rng.random(n) < 0.2] = 10 * render.SIDE
        neighbour = _print(CLUTTER_FONTS, rng.integers(10, size=n), rng, matrix, centre + side * step)
        ink = np.maximum(ink, neighbour)
    back, front = render.colour_pairs(n, rng, contrast=(0.25, 0.6))
    patch = render.patch_colours(back, front, rng)
    patches = np.clip(0.5 + 0.5 * render.soft_noise(n, rng, grain=3.0), 0.0, 1.0)
    wall = render.mix(back[:, None, None], patch[:, None, None], patches)
    scene = render.blur(render.mix(wall, front[:, None, None], ink), rng, widest=2.0)
    return render.to_bytes(scene + 0.05 * rng.standard_normal(scene.shape, dtype=np.float32)), y


def _texture(rng: np.random.Generator) -> _Domain:
    y = _labels(rng)
    n = len(y)
    matrix, centre = render.poses(n, rng, turn=0.3, shear=0.3, sizes=(18.0, 25.0), shift=2.5)
    unit = render.wobble(pen_points(y, rng), rng, amount=0.05)
    slim = np.array([0.75, 1.0], dtype=np.float32)  # a written digit is narrower than its box is high
    dots = ((unit - 0.5) * slim) @ matrix.transpose(0, 2, 1) + centre[:, None]
    ink = render.write(dots.astype(np.float32), rng.uniform(0.9, 2.0, n).astype(np.float32))
    share = rng.random((n, 1, 1), dtype=np.float32)
    weave = share * render.gratings(n, rng) + (1 - share) * render.soft_noise(n, rng, grain=1.2)
    # The texture runs on under the ink, inverted: a stroke is a change of level, never a flat patch.
    ground = np.clip(0.28 + 0.18 * weave, 0.0, 1.0)
    level = ground + ink * (1.0 - 2 * ground)
    back, front = render.colour_pairs(n, rng, contrast=(0.35, 0.8))
    return render.to_bytes(render.mix(back[:, None, None], front[:, None, None], level.astype(np.float32))), y


def _labels(rng: np.random.Generator) -> NDArray[np.int64]:
    return rng.permutation(np.repeat(np.arange(10), PER_CLASS))


def _print(
    fonts: tuple[str, ...],
    digits: NDArray[np.int64],
    rng: np.random.Generator,
    matrix: FloatArray,
    centre: FloatArray,
) -> FloatArray:
    """Ink of each digit in a font of its own, drawn at random, in the given pose."""
    font = rng.integers(len(fonts), size=len(digits))
    return render.place(font_masks(fonts), font * 10 + digits, matrix, centre)
