"""What all figures share: their style, ink and colours, and panels in a grid."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib import rc_params_from_file
from matplotlib.axes import Axes
from matplotlib.figure import Figure

STYLE = rc_params_from_file(Path(__file__).with_name("figures.mplstyle"), use_default_template=False)
INK, FAINT = STYLE["text.color"], STYLE["axes.edgecolor"]
# Okabe and Ito's palette: told apart with any kind of colour vision, and each class has a marker of its own as well.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")
MARKERS = "o^sDvPX*"
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


def plain_text(text: str) -> str:
    """Text that matplotlib takes as it is, not as mathematics, and cut where it would fill the figure."""
    return (text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…").replace("$", r"\$")


def plain_names(names: Sequence[str]) -> tuple[str, ...]:
    """The same of several `names`, which stay different from each other."""
    plain = [plain_text(name) for name in names]
    return tuple(f"{name} ({i})" if plain.count(name) > 1 else name for i, name in enumerate(plain))
