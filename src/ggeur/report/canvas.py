"""The common parts of all figures: style, colours, panels in a grid, labels of heat maps, and captions."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib import rc_params_from_file
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ggeur.stats.storage import packaged_toml

STYLE = rc_params_from_file(Path(__file__).with_name("figures.mplstyle"), use_default_template=False)
INK, FAINT = STYLE["text.color"], STYLE["axes.edgecolor"]
# Okabe and Ito's palette: distinct with any kind of colour vision, and each class has a marker of its own as well.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")
MARKERS = "o^sDvPX*"
NAMES = 20  # names that have room along an axis
_LONGEST = 30  # characters of a name


def grid(
    n: int, columns: int, width: float, row: float, margin: float = 0.0, *, share_y: bool = False
) -> tuple[Figure, list[Axes]]:
    """A figure of `n` panels in so many `columns`: its `width`, and the heights of a `row` and the `margin`, in inches.

    `share_y` gives all panels one vertical axis.
    """
    rows = -(-n // columns)
    figure = Figure(figsize=(width, rows * row + margin), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False, sharey=share_y).flat)
    for ax in axes[n:]:
        ax.set_axis_off()
    return figure, axes[:n]


def plain_text(text: str, longest: int = _LONGEST) -> str:
    """Text that matplotlib takes as it is, not as mathematics, and cut where it would fill the figure."""
    return (text if len(text) <= longest else f"{text[: longest - 1]}…").replace("$", r"\$")


def in_lines(text: str, longest: int = _LONGEST) -> str:
    """The same, whole, in as many lines as it takes."""
    return "\n".join(textwrap.wrap(text, longest)).replace("$", r"\$")


def plain_names(names: Sequence[str]) -> tuple[str, ...]:
    """The same of several `names`, which stay different from each other."""
    plain = [plain_text(name) for name in names]
    return tuple(f"{name} ({i})" if plain.count(name) > 1 else name for i, name in enumerate(plain))


def write_cells(ax: Axes, image: Any, texts: Sequence[Sequence[str]]) -> None:
    """The `texts` of a heat map's rows into their cells, dark on light or light on dark."""
    for (row, column), value in np.ndenumerate(image.get_array()):
        if shown := texts[row][column]:
            red, green, blue, _ = image.cmap(image.norm(value))
            dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.55  # the cell's luma
            ax.text(column, row, shown, ha="center", va="center", fontsize=6, color="white" if dark else INK)


def name_ticks(ax: Axes, across: Sequence[str] | None, down: Sequence[str] | None) -> None:
    """Names `across` and `down` a heat map, as far as there is room for them."""
    if across is not None and len(across) <= NAMES:
        ax.set_xticks(range(len(across)), across, fontsize=8)
        if max(map(len, across)) > 2:
            ax.tick_params(axis="x", rotation=60)
            for name in ax.get_xticklabels():
                name.set(ha="right", rotation_mode="anchor")
    elif across is not None:
        ax.set_xlabel("class")
    else:
        ax.set_xticks([])
    if down is not None and len(down) <= NAMES:
        ax.set_yticks(range(len(down)), down, fontsize=8)
    else:
        ax.set_yticks([])
    ax.tick_params(length=0)


def colourbar(figure: Figure, axes: Sequence[Axes], image: Any, label: str) -> None:
    """The scale of the `image` that all `axes` share."""
    bar = figure.colorbar(image, ax=list(axes), shrink=0.8, aspect=25, pad=0.02)
    bar.set_label(label)
    bar.outline.set_visible(False)


_CAPTIONS = packaged_toml("report", "captions.toml")


class CaptionedFigure(NamedTuple):
    """A figure with its words; `on_page` if its ink may follow the page."""

    key: str
    figure: Figure
    short: str  # its name in the page's list of contents
    title: str
    caption: str
    on_page: bool


def captioned(key: str, figure: Figure, **words: Any) -> CaptionedFigure:
    """The figure with its caption, in which `words` fill the gaps."""
    entry = _CAPTIONS[key]
    title, caption = (entry[part].format(**words) for part in ("title", "caption"))
    return CaptionedFigure(key, figure, entry["short"], title, caption, entry.get("on_page", False))
