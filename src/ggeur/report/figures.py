"""The figures: functions from arrays to matplotlib Figures, without any global state."""

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matplotlib import rc_context, rc_params_from_file
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from numpy.typing import NDArray

from ggeur.stats.seeding import generator
from ggeur.stats.storage import packaged_toml, write_atomically
from ggeur.stats.types import Float

if TYPE_CHECKING:
    from ggeur.report.inspection import ClientView, Similarity

STYLE = rc_params_from_file(Path(__file__).with_name("figures.mplstyle"), use_default_template=False)
INK, FAINT = STYLE["text.color"], STYLE["axes.edgecolor"]
# Okabe and Ito's palette: distinct with any kind of colour vision, and each class has a marker of its own as well.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", INK, "#7F7F7F")
_IN_CELL = "#111111"  # not the ink, as the colour of a cell stays the same on a dark page
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
            ax.text(column, row, shown, ha="center", va="center", fontsize=7, color="white" if dark else _IN_CELL)


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
    """A figure with its words; a page shows a `rare` one only when it is asked for."""

    key: str
    figure: Figure
    short: str  # its name in the page's list of contents
    title: str
    caption: str
    rare: bool


def captioned(key: str, figure: Figure, **words: Any) -> CaptionedFigure:
    """The figure with its caption, in which `words` fill the gaps."""
    entry = _CAPTIONS[key]
    title, caption = (entry[part].format(**words) for part in ("title", "caption"))
    return CaptionedFigure(key, figure, entry["short"], title, caption, entry.get("rare", False))


_HEAT = "YlGnBu"
_POINTS = 400  # of a class in one panel


def save_figure(figure: Figure, stem: Path) -> list[Path]:
    """Write a `figure` as `stem`.png and `stem`.svg, each whole or not at all."""
    paths = [stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg")]
    for path in paths:
        metadata = {"Date": None} if path.suffix == ".svg" else {}
        with rc_context(STYLE), write_atomically(path) as file:
            figure.savefig(file, format=path.suffix[1:], dpi=200, metadata=metadata, facecolor="white")
    return paths


def label_distribution(
    panels: Mapping[str, NDArray[np.int64]], class_names: Sequence[str], clients: Sequence[str]
) -> Figure:
    """Draw samples per client and class as heat maps, one per title of `panels`, on one scale (Figures 7 and 9).

    `class_names` stand along their columns and `clients` along their rows.
    """
    n_classes, n_clients = len(class_names), len(clients)
    columns = min(len(panels), 3 if n_classes <= 12 else 2 if n_classes <= 30 else 1)
    narrow = n_classes <= 30  # wider panels stand below each other, and are flat so that all fit a screen
    width, line = (0.34 * max(n_classes, 8), 0.3) if narrow else (10.0, 0.18)
    height = line * max(n_clients, 4) + 0.75
    with rc_context(STYLE):
        figure, axes = grid(len(panels), columns, 1.3 + columns * (width + 0.25), height, 0.6)
        most = max(int(counts.max(initial=1)) for counts in panels.values())
        norm = PowerNorm(0.5, 0, most)
        image: Any = None
        for i, (ax, (title, counts)) in enumerate(zip(axes, panels.items(), strict=True)):
            shown = np.ma.masked_equal(counts, 0)  # a class that a client lacks is white, not merely pale
            image = ax.imshow(shown, cmap=_HEAT, norm=norm, aspect="auto", interpolation="nearest")
            ax.set_title(title)
            if n_classes <= 12 and n_clients <= 12:
                write_cells(ax, image, [[f"{n or ''}" for n in own] for own in counts])
            last = i + columns >= len(panels)
            name_ticks(ax, class_names if last else None, clients if i % columns == 0 else None)
        colourbar(figure, axes, image, "samples (empty: none)")
    return figure


def draw_similarity(pairs: "Sequence[Similarity]", top: int = 5) -> Figure:
    """Geometric similarity of the classes of two domains by `top` eigenvectors, one panel a pair (Figure 6).

    The finding to look for: the diagonal stands out.
    """
    columns = min(len(pairs), 3)
    with rc_context(STYLE):
        figure, axes = grid(len(pairs), columns, 1.6 + 2.9 * columns, 3.0, 0.9)
        most = max(float(pair.values.max()) for pair in pairs)
        image: Any = None
        for ax, pair in zip(axes, pairs, strict=True):
            image = ax.imshow(pair.values, cmap="viridis", vmin=0, vmax=most, interpolation="nearest")
            ax.set_title(f"same class {pair.same:.2f}, others {pair.other:.2f}", fontsize=9)
            named = pair.class_names if len(pair.class_names) <= NAMES else None
            name_ticks(ax, named, named)
            ax.tick_params(labelsize=7)
            ax.set_ylabel(pair.domains[0], fontweight="bold")
            ax.set_xlabel(pair.domains[1], fontweight="bold")
        colourbar(figure, axes, image, f"S of Eq. 3, top {top} eigenvectors")
    return figure


def draw_client_view(view: "ClientView") -> Figure:
    """Draw a client's samples, the same after GGEUR, and those of all clients, in one plane (Figures 1, 3 and 5)."""
    panels = (
        (f"{view.client}: own samples", view.own),
        (f"{view.client}: after GGEUR", view.augmented),
        ("all clients", view.everyone),
    )
    with rc_context(STYLE):
        figure, axes = grid(3, 3, 11.0, 4.1)
        for ax, (title, cloud) in zip(axes, panels, strict=True):
            for c, name in enumerate(view.class_names):
                n = int((cloud.y == c).sum())
                x, y = _thin(cloud.xy[cloud.y == c], _POINTS).T
                look: Any = {"s": 26 if n <= 40 else 9, "marker": MARKERS[c % 8], "color": COLOURS[c % 8]}
                ax.scatter(x, y, alpha=0.55, lw=0, label=f"{name}: {n:,}", **look)
                _outline(ax, view.everyone.xy[view.everyone.y == c], COLOURS[c % 8])
            ax.set_title(title)
            ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), frameon=False, fontsize=8, markerscale=1.2)
            ax.set_xlabel(f"first principal component ({100 * view.shares[0]:.0f} %)", fontsize=8)
        axes[0].set_ylabel(f"second ({100 * view.shares[1]:.0f} %)", fontsize=8)
        box = np.concatenate([cloud.xy for _, cloud in panels])
        low, high = np.quantile(box, [0.002, 0.998], axis=0)
        margin = np.where(high > low, 0.06 * (high - low), 1.0)
        for ax in axes:
            ax.set_xlim(low[0] - margin[0], high[0] + margin[0])
            ax.set_ylim(low[1] - margin[1], high[1] + margin[1])
            ax.tick_params(labelsize=7, length=2)
        figure.suptitle("Ellipses: two standard deviations of each class over all clients", fontsize=8, color=INK)
    return figure


def draw_spectra(eigenvalues: Float, class_names: Sequence[str]) -> Figure:
    """The `eigenvalues` (C, r) of each class, and the share of its variance that the leading ones carry."""
    share = np.cumsum(eigenvalues, axis=1) / np.maximum(eigenvalues.sum(axis=1, keepdims=True), 1e-300)
    rank = np.arange(1, eigenvalues.shape[1] + 1)
    named = len(class_names) <= 10
    with rc_context(STYLE):
        figure, (left, right) = grid(2, 2, 9.5, 3.8)
        for c, name in enumerate(class_names):
            style = {"color": COLOURS[c % 8], "ls": "-" if c < 8 else "--", "lw": 1.2} if named else {
                "color": "#56B4E9", "lw": 0.5, "alpha": 0.6}  # fmt: skip
            positive = eigenvalues[c] > 1e-12 * max(eigenvalues[c, 0], 1e-300)  # beyond the rank is only rounding
            left.plot(rank[positive], eigenvalues[c][positive], label=name if named else None, **style)
            right.plot(rank, 100 * share[c], **style)
        if not named:
            left.plot(rank, np.median(eigenvalues, axis=0), color=INK, lw=1.6, label="median class")
            right.plot(rank, 100 * np.median(share, axis=0), color=INK, lw=1.6)
        vary = bool((eigenvalues > 0).any())  # samples that are all alike have no spectrum
        left.set(yscale="log" if vary else "linear", xscale="log", xlabel="rank", title="eigenvalues")
        right.set(xscale="log", xlabel="rank", title="variance in the leading directions, %", ylim=(0, 102))
        right.axhline(90, color=FAINT, lw=0.8, zorder=0)
        figure.legend(loc="outside right center", frameon=False, fontsize=8)
        for ax in (left, right):
            ax.spines[["top", "right"]].set_visible(False)
    return figure


def _outline(ax: Axes, points: Float, colour: str) -> None:
    """Two standard deviations of the points, as an ellipse."""
    if len(points) > 2:
        values, vectors = np.linalg.eigh(np.cov(points.T))
        axes = 4 * np.sqrt(np.maximum(values, 0))
        angle = float(np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1])))
        ax.add_patch(Ellipse(tuple(points.mean(axis=0)), axes[1], axes[0], angle=angle, fill=False, ec=colour, lw=1.2))


def _thin(points: Float, most: int) -> Float:
    """At most `most` of the `points` (n, 2), drawn at random: more would only cover each other."""
    return points[generator(0, "thin", 0).permutation(len(points))[:most]]
