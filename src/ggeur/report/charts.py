"""The charts of a run (convergence, gains, controls) and of a fitted model, as matplotlib Figures."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from ggeur.report.entries import Pair, ReportEntry, Variant
from ggeur.report.figures import FAINT, INK, STYLE, grid, in_lines
from ggeur.report.tables import Number

_STYLE: Any = {**STYLE, "axes.titlesize": 9, "axes.spines.top": False, "axes.spines.right": False}
# One look per variant on the whole page; variants differ by dash and marker as well as by colour.
_LOOKS: dict[str, tuple[str, Any, str]] = {
    Variant.PICTURES: ("#E64B35", (0, (1, 1)), "h"),
    Variant.PLAIN: ("#7f7f7f", "--", "o"),
    Variant.EQUAL_WEIGHTS: ("#CC79A7", ":", "v"),
    Variant.STEPS_MATCHED: ("#56B4E9", ":", "P"),
    Variant.RESAMPLE: ("#E69F00", "-.", "s"),
    Variant.PROTOTYPES: ("#009E73", (0, (5, 1, 1, 1, 1, 1)), "D"),
    Variant.STEP_1: ("#D55E00", (0, (4, 2)), "^"),
    Variant.FULL: ("#0072B2", "-", "X"),
}
_OTHERS = ("#56B4E9", "#F0E442", "#CC79A7", "#D55E00")
_PANELS = 15
_NARROW = 5.7  # inches: fits a phone without scrolling, at a size that can be read


def _look(variant: str, i: int) -> tuple[str, Any, str]:
    return _LOOKS.get(variant, (_OTHERS[i % len(_OTHERS)], "-", "*"))


def _order(variants: Sequence[str]) -> list[str]:
    known: list[str] = [v for v in Variant if v in variants]
    return known + [v for v in dict.fromkeys(variants) if v not in known]


def convergence(entries: Sequence[ReportEntry]) -> Figure | None:
    """AVG of the `entries` after each round, a panel per method and condition (Figure 8); bands are ± over seeds."""
    trained = [e for e in entries if any(len(c.rounds) > 1 for c in e.row.trials)]
    panels = _panels(trained, lambda e: (e.method, e.condition))
    if not panels:
        return None
    variants = _order([e.variant for panel in panels for e in panel])
    with rc_context(_STYLE):
        figure, axes = _grid(len(panels), 2.35)
        for i, (ax, panel) in enumerate(zip(axes, panels, strict=True)):
            for entry in sorted(panel, key=lambda e: variants.index(e.variant)):
                # Where many curves cross, bands of all would cover each other.
                band = len(panel) <= 3 or entry.variant in (Variant.PLAIN, Variant.FULL)
                _curve(ax, entry, variants.index(entry.variant), band)
            ax.set_title(in_lines(panel[0].title))
            ax.set_xlim(left=1)
            ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
            ax.grid(axis="y", color=FAINT, lw=0.4, alpha=0.5)
            ax.set_xlabel("round" if i + 3 >= len(panels) else "")
            ax.set_ylabel("AVG, %" if i % 3 == 0 else "")
        _legend(figure, axes)
    return figure


def _panels(entries: Sequence[ReportEntry], key: Callable[[ReportEntry], Hashable]) -> list[list[ReportEntry]]:
    """Finished entries by what they have in common, where there are two to compare, and no more than fit."""
    groups: dict[Hashable, list[ReportEntry]] = {}
    for entry in entries:
        if entry.avg is not None:
            groups.setdefault(key(entry), []).append(entry)
    return [group for group in groups.values() if len(group) > 1][:_PANELS]


def _curve(ax: Axes, entry: ReportEntry, i: int, band: bool) -> None:
    colour, dash, _ = _look(entry.variant, i)
    curves = [c.rounds for c in entry.row.trials if c.status == "ok" and c.rounds]
    length = min(map(len, curves))
    values: NDArray[np.float64] = np.array([c[:length] for c in curves])
    rounds, mean = np.arange(1, length + 1), values.mean(axis=0)
    width = 2.0 if entry.variant == Variant.FULL else 1.3
    ax.plot(rounds, mean, color=colour, ls=dash, lw=width, label=in_lines(entry.variant))
    if band and len(curves) > 1:
        spread = values.std(axis=0, ddof=1)
        ax.fill_between(rounds, mean - spread, mean + spread, color=colour, alpha=0.18, lw=0)


def controls(entries: Sequence[ReportEntry]) -> Figure | None:
    """Final AVG of one method under every augmentation, with 95 % intervals: what controls leave to the geometry."""
    method = next((e.method for e in entries if e.variant in (Variant.RESAMPLE, Variant.PROTOTYPES)), None)
    panels = _panels([e for e in entries if e.method == method], lambda e: e.condition)
    if not panels:
        return None
    variants = _order([e.variant for panel in panels for e in panel])
    with rc_context(_STYLE):
        figure, axes = _grid(len(panels), 0.7 + 0.27 * len(variants), share_y=True)
        for i, (ax, panel) in enumerate(zip(axes, panels, strict=True)):
            for entry in panel:
                place = len(variants) - 1 - variants.index(entry.variant)
                _dot(ax, entry, place, variants.index(entry.variant))
            ax.set_title(in_lines(panel[0].title))
            ax.set_yticks(range(len(variants)), [in_lines(v) for v in reversed(variants)])
            ax.set_ylim(-0.6, len(variants) - 0.4)
            ax.set_xlabel("AVG, %" if i + 3 >= len(panels) else "")
            ax.xaxis.set_major_locator(MaxNLocator(5))
            ax.grid(axis="both", color=FAINT, lw=0.4, alpha=0.5)
    return figure


def _dot(ax: Axes, entry: ReportEntry, place: float, i: int) -> None:
    colour, _, marker = _look(entry.variant, i)
    number = Number(tuple(c.avg for c in entry.row.trials if c.status == "ok" and c.avg is not None))
    if number.interval is not None:
        ax.plot(number.interval, [place, place], color=colour, lw=2, solid_capstyle="round")
    ax.plot(number.values, [place] * len(number.values), "|", color=colour, ms=5, alpha=0.6)
    ax.plot([float(np.mean(number.values))], [place], marker, color=colour, ms=7)


def gains(pairs: Sequence[Pair], published: Sequence[float | None]) -> Figure | None:
    """GGEUR minus the same method without it in `pairs` by seed, with 95 % intervals, beside the `published` gains.

    The figures stand at the right: one method that gains much would hide what the others gain.
    """
    if not pairs:
        return None
    with rc_context(_STYLE):
        figure, (ax,) = grid(1, 1, _NARROW, 0.3 * len(pairs), 1.1)
        for i, (pair, paper) in enumerate(zip(pairs, published, strict=True)):
            place = len(pairs) - 1 - i
            if pair.difference is not None:
                ax.plot([pair.difference.low, pair.difference.high], [place, place], color="#0072B2", lw=2)
            ax.plot([pair.mean], [place], "X", color="#0072B2", ms=7, label="measured")
            if paper is not None:
                ax.plot([paper], [place], "D", mfc="none", color="#D55E00", ms=7, label="paper")
            ax.text(1.02, place, _figures(pair), transform=ax.get_yaxis_transform(), va="center", fontsize=8)
        ax.set_yticks(range(len(pairs)), [in_lines(pair.other.title) for pair in reversed(pairs)])
        ax.set_ylim(-0.6, len(pairs) - 0.4)
        ax.axvline(0, color=INK, lw=0.8)
        ax.grid(axis="x", color=FAINT, lw=0.4, alpha=0.5)
        ax.set_xlabel("points of AVG that GGEUR adds")
        if any(paper is not None for paper in published):
            _legend(figure, [ax])
    return figure


def _figures(pair: Pair) -> str:
    d = pair.difference
    return f"{pair.mean:+.2f}" + ("" if d is None else f"  [{d.low:+.2f}, {d.high:+.2f}]")


def _grid(n: int, row: float, *, share_y: bool = False) -> tuple[Figure, list[Axes]]:
    """Up to three panels beside each other; a single one is higher."""
    columns = min(n, 3)
    width = {1: _NARROW, 2: 8.0, 3: 9.2}[columns]
    return grid(n, columns, width, 1.3 * row if columns == 1 else row, 0.4, share_y=share_y)


def _legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """One legend above all panels, with each name once."""
    shown: dict[str, Any] = {}
    for ax in axes:
        for handle, text in zip(*ax.get_legend_handles_labels(), strict=True):
            shown.setdefault(text, handle)
    if shown:
        columns = min(len(shown), 4)
        figure.legend(shown.values(), shown.keys(), loc="outside upper center", ncols=columns, frameon=False)
