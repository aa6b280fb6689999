"""Glyphs of the typeset digits, from the fonts that matplotlib brings along."""

from functools import cache

import numpy as np

from ggeur.core.errors import GgeurError
from ggeur.core.types import FloatArray

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
