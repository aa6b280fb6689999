"""The charts of who helps whom: what every site brings, site by site, and a map of the sites."""

from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ggeur.federation.helping import Estimates, Helping
from ggeur.federation.helping_words import clear, signed
from ggeur.report.canvas import (
    COLOURS,
    FAINT,
    INK,
    MARKERS,
    NAMES,
    STYLE,
    colourbar,
    grid,
    name_ticks,
    plain_names,
    write_cells,
)

_STYLE: Any = {**STYLE, "axes.spines.top": False, "axes.spines.right": False}
_BARS = 40
_WRITTEN = 12  # sites up to which the cells of a heat map are written out


def shares(h: Helping) -> Figure:
    """What every site brings: its Shapley value, if there are such, and what all lose on average where it is left out.

    Of more sites than have room those in the middle are left out.
    """
    panels: dict[str, Estimates] = {} if h.shapley is None else {"Shapley value": h.shapley}
    panels["lost without it"] = h.to_all
    first = next(iter(panels.values()))
    order = sorted(range(len(h.sites)), key=lambda i: -_value(first, i))
    order = order if len(order) <= _BARS else order[: _BARS // 2] + order[-_BARS // 2 :]
    names = plain_names(h.sites)
    with rc_context(_STYLE):
        n = len(panels)
        figure, axes = grid(n, n, 5.7 if n == 1 else 8.0, 0.3 * len(order), 1.0, share_y=True)
        for ax, (title, found) in zip(axes, panels.items(), strict=True):
            _bars(ax, found, order)
            ax.set_title(title)
        axes[0].set_yticks(range(len(order)), [names[i] for i in order])
        axes[0].set_ylim(len(order) - 0.4, -0.6)
    return figure


def _bars(ax: Axes, found: Estimates, order: list[int]) -> None:
    for place, i in enumerate(order):
        e = found[i]
        if e is not None:
            ax.barh(place, e.value, 0.6, color="#56B4E9" if e.value >= 0 else "#E69F00")
            ax.plot([e.value - e.error, e.value + e.error], [place, place], color=INK, lw=1)
            ax.text(
                1.02, place, f"{signed(e.value)} ± {e.error:.1f}", transform=ax.get_yaxis_transform(), va="center",
                fontsize=8,
            )  # fmt: skip
    ax.axvline(0, color=INK, lw=0.8)
    ax.xaxis.set_major_locator(MaxNLocator(5))
    ax.grid(axis="x", color=FAINT, lw=0.4, alpha=0.5)
    ax.set_xlabel("points of accuracy, mean over sites")


def matrix(h: Helping) -> Figure:
    """What the site of a row, joining the others, adds at the site of a column.

    What a site adds on its own rows, often far more than others do, would pale them: it may be off the scale.
    """
    n, names = len(h.sites), plain_names(h.sites)
    values = np.array([[np.nan if e is None else e.value for e in own] for own in h.matrix])
    off = np.abs(values[~np.eye(n, dtype=np.bool_)])
    most = float(np.nanmax(off, initial=0.0)) or float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
    marks = [
        ["" if e is None else f"{signed(e.value)}{'*' if clear(e, n * n) else ''}" for e in own] for own in h.matrix
    ]
    size = 0.42 * max(n, 4) if n <= _WRITTEN else 0.22 * min(n, 40)
    with rc_context(STYLE):
        figure, (ax,) = grid(1, 1, size + 3.4, size + 1.6)
        image = ax.imshow(np.ma.masked_invalid(values), cmap="RdBu", vmin=-most, vmax=most, interpolation="nearest")
        if n <= _WRITTEN:
            write_cells(ax, image, marks)
        name_ticks(ax, names, names)
        ax.set_xlabel("... adds at" if n <= NAMES else "site")
        ax.set_ylabel("joining the others, ..." if n <= NAMES else "joining the others, a site ...")
        colourbar(figure, [ax], image, "points of accuracy")
    return figure


def site_map(h: Helping) -> Figure:
    """The sites in the plane that keeps the distances of their statistics best, with names if there is room."""
    place = np.array(h.places)
    named = len(h.sites) <= NAMES
    with rc_context(_STYLE):
        figure, (ax,) = grid(1, 1, 7.0, 3.6 + 0.05 * min(len(h.sites), NAMES))
        for i, name in enumerate(plain_names(h.sites)):
            x, y = place[i]
            look: Any = {"s": 70, "alpha": 0.75, "lw": 0, "color": COLOURS[0]}
            if named:
                colour = COLOURS[i % 8].replace("#000000", INK)  # as black is lost in the dark
                look |= {"color": colour, "marker": MARKERS[(i + i // 8) % 8], "label": name}
            ax.scatter(x, y, **look)
        ax.set_aspect("equal", adjustable="datalim")  # distances are the point of it
        ax.margins(0.15)
        ax.grid(color=FAINT, lw=0.4, alpha=0.5)
        ax.set_xlabel("distance of statistics, in standard deviations within a class")
        if named:
            figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=8)  # where phones show it
    return figure


def _value(found: Estimates, i: int) -> float:
    e = found[i]
    return -np.inf if e is None else e.value
