"""The charts of a fitted model: how candidates ranked, and where its test samples are right."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ggeur.core.types import Float
from ggeur.report.canvas import FAINT, INK, STYLE, colourbar, grid, name_ticks, plain_text, write_cells

_STYLE: Any = {**STYLE, "axes.spines.top": False, "axes.spines.right": False}
_TOLD = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99)  # thresholds that are written beside a curve
_WRITTEN = 12  # names along a side up to which the numbers of a heat map are written out


def candidates(expected: Mapping[str, float], taken: str) -> Figure:
    """How far each candidate was ahead of the one `taken`, or behind it, on synthetic samples.

    Their levels say nothing, so that only differences of what was `expected` are shown.
    """
    base = expected.get(taken, max(expected.values()))
    with rc_context(_STYLE):
        figure, (ax,) = grid(1, 1, 5.7, 0.27 * len(expected), 1.1)
        for place, (label, value) in enumerate(expected.items()):
            ax.barh(place, value - base, 0.6, color="#56B4E9" if value >= base else "#E69F00")
            is_taken = label == taken
            if is_taken:
                ax.plot([0], [place], "o", color=INK, ms=6, label="taken")
            shown, weight = "taken" if is_taken else f"{value - base:+.2f}", "bold" if is_taken else "normal"
            ax.text(1.03, place, shown, transform=ax.get_yaxis_transform(), va="center", fontsize=8, weight=weight)
        ax.set_yticks(range(len(expected)), [plain_text(label, 40) for label in expected])
        ax.set_ylim(len(expected) - 0.4, -0.6)
        ax.margins(x=0.1)
        ax.axvline(0, color=INK, lw=0.8)
        ax.xaxis.set_major_locator(MaxNLocator(5))
        ax.grid(axis="x", color=FAINT, lw=0.4, alpha=0.5)
        ax.set_xlabel(
            "points against what was taken, on synthetic samples" if taken in expected else "points below the best"
        )
    return figure


def tested(percent: Float, domains: Sequence[str], classes: Sequence[str]) -> Figure:
    """Draw the `percent` (D, C) of test samples right in each domain and class; NaN where there are none."""
    n_domains, n_classes = percent.shape
    width = 0.34 * max(n_classes, 8) if n_classes <= 30 else 10.0
    least = min(10 * np.floor(np.nanmin(percent) / 10), 90.0)  # from there, or what differs would look the same
    with rc_context(STYLE):
        figure, (ax,) = grid(1, 1, 1.9 + width, 0.3 * max(n_domains, 4) + 0.75, 0.6)
        shown = np.ma.masked_invalid(percent)
        image = ax.imshow(shown, cmap="YlGnBu", vmin=least, vmax=100, aspect="auto", interpolation="nearest")
        if max(percent.shape) <= _WRITTEN:
            write_cells(ax, image, [["" if np.isnan(v) else f"{v:.0f}" for v in own] for own in percent])
        name_ticks(ax, classes, domains)
        colourbar(figure, [ax], image, "% right (white: no samples)")
    return figure


def coverage_chart(curves: Mapping[str, Sequence[Sequence[float]]]) -> Figure:
    """Percent right of the answers that are given, against percent given: one curve per kind of samples.

    A point is [threshold, percent answered, percent right]; a few thresholds are written beside theirs.
    """
    with rc_context(_STYLE):
        figure, (ax,) = grid(1, 1, 5.7, 2.6)
        for (name, points), colour, style in zip(curves.items(), ("#0072B2", "#D55E00"), ("-", "--"), strict=False):
            threshold, answered, right = np.array(points).T
            ax.plot(answered, right, style, color=colour, marker="o", ms=3, label=name)
            for t, x, y in zip(threshold, answered, right, strict=True):
                if t in _TOLD and style == "-":
                    ax.annotate(f"{100 * t:g} %", (x, y), (-5, -8), textcoords="offset points", fontsize=7, ha="right")
        ax.set_xlabel('% answered; the rest is "I do not know"')
        ax.set_ylabel("% of these right")
        ax.margins(y=0.15)
        ax.grid(color=FAINT, lw=0.4, alpha=0.5)
        ax.legend(frameon=False, loc="lower left")
    return figure
