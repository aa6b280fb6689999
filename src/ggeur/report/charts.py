"""The charts of a run: convergence, gains, controls. Functions from entries to matplotlib Figures."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from ggeur.report.entries import FULL, PLAIN, VARIANTS, Entry, Pair
from ggeur.report.tables import Number

INK, FAINT = "#222222", "#bbbbbb"  # the page replaces the first by its own ink
_STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
# One look per variant on the whole page; told apart by dash and marker as well as by colour.
_LOOKS = {
    PLAIN: ("#7f7f7f", "--", "o"),
    "equal weights": ("#CC79A7", ":", "v"),
    "steps matched": ("#56B4E9", ":", "P"),
    "resample": ("#E69F00", "-.", "s"),
    "prototypes": ("#009E73", (0, (5, 1, 1, 1, 1, 1)), "D"),
    "GGEUR, step 1": ("#D55E00", (0, (4, 2)), "^"),
    FULL: ("#0072B2", "-", "X"),
}
_OTHERS = ("#56B4E9", "#F0E442", "#CC79A7", "#D55E00")
_PANELS = 15
_NARROW = 5.7  # inches: fits a phone without scrolling, at a size that can be read


def plain_text(text: str) -> str:
    """Text that matplotlib takes as it is, not as mathematics."""
    return text.replace("$", r"\$")


def _look(variant: str, i: int) -> tuple[str, Any, str]:
    return _LOOKS.get(variant, (_OTHERS[i % len(_OTHERS)], "-", "*"))


def _order(variants: Sequence[str]) -> list[str]:
    known = [v for v in VARIANTS if v in variants]
    return known + [v for v in dict.fromkeys(variants) if v not in known]


def convergence(entries: Sequence[Entry]) -> Figure | None:
    """AVG after each round, a panel per method and condition (Figure 8); bands are ± over seeds."""
    panels: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        if entry.avg is not None and any(len(c.rounds) > 1 for c in entry.row.cells):
            panels.setdefault((entry.method, entry.condition), []).append(entry)
    panels = dict(list({key: own for key, own in panels.items() if len(own) > 1}.items())[:_PANELS])
    if not panels:
        return None
    variants = _order([e.variant for own in panels.values() for e in own])
    with rc_context(_STYLE):
        figure, axes = _grid(len(panels), 3, 2.35)
        for i, (ax, own) in enumerate(zip(axes, panels.values(), strict=False)):
            for entry in sorted(own, key=lambda e: variants.index(e.variant)):
                # Where many curves cross, bands of all would cover each other.
                band = len(own) <= 3 or entry.variant in (PLAIN, FULL)
                _curve(ax, entry, variants.index(entry.variant), band)
            ax.set_title(plain_text(own[0].title))
            ax.set_xlim(left=1)
            ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
            ax.grid(axis="y", color=FAINT, lw=0.4, alpha=0.5)
            ax.set_xlabel("round" if i + 3 >= len(panels) else "")
            ax.set_ylabel("AVG, %" if i % 3 == 0 else "")
        _legend(figure, axes[: len(panels)])
    return figure


def _curve(ax: Axes, entry: Entry, i: int, band: bool) -> None:
    colour, dash, _ = _look(entry.variant, i)
    curves = [c.rounds for c in entry.row.cells if c.status == "ok" and c.rounds]
    length = min(map(len, curves))
    values: NDArray[np.float64] = np.array([c[:length] for c in curves])
    rounds, mean = np.arange(1, length + 1), values.mean(axis=0)
    width = 2.0 if entry.variant == FULL else 1.3
    ax.plot(rounds, mean, color=colour, ls=dash, lw=width, label=plain_text(entry.variant))
    if band and len(curves) > 1:
        spread = values.std(axis=0, ddof=1)
        ax.fill_between(rounds, mean - spread, mean + spread, color=colour, alpha=0.18, lw=0)


def controls(entries: Sequence[Entry]) -> Figure | None:
    """Final AVG of one method under every augmentation, with 95 % intervals: what controls leave to the geometry."""
    method = next((e.method for e in entries if e.variant in ("resample", "prototypes")), None)
    panels: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.method == method and entry.avg is not None:
            panels.setdefault(entry.condition, []).append(entry)
    panels = dict(list({key: own for key, own in panels.items() if len(own) > 1}.items())[:_PANELS])
    if method is None or not panels:
        return None
    variants = _order([e.variant for own in panels.values() for e in own])
    with rc_context(_STYLE):
        figure, axes = _grid(len(panels), 3, 0.7 + 0.27 * len(variants), share_y=True)
        for i, (ax, own) in enumerate(zip(axes, panels.values(), strict=False)):
            for entry in own:
                place = len(variants) - 1 - variants.index(entry.variant)
                _dot(ax, entry, place, variants.index(entry.variant))
            ax.set_title(plain_text(own[0].title))
            ax.set_yticks(range(len(variants)), [plain_text(v) for v in reversed(variants)])
            ax.set_ylim(-0.6, len(variants) - 0.4)
            ax.set_xlabel("AVG, %" if i + 3 >= len(panels) else "")
            ax.xaxis.set_major_locator(MaxNLocator(5))
            ax.grid(axis="both", color=FAINT, lw=0.4, alpha=0.5)
    return figure


def _dot(ax: Axes, entry: Entry, place: float, i: int) -> None:
    colour, _, marker = _look(entry.variant, i)
    number = Number(tuple(c.avg for c in entry.row.cells if c.status == "ok" and c.avg is not None))
    if number.interval is not None:
        ax.plot(number.interval, [place, place], color=colour, lw=2, solid_capstyle="round")
    ax.plot(number.values, [place] * len(number.values), "|", color=colour, ms=5, alpha=0.6)
    ax.plot([float(np.mean(number.values))], [place], marker, color=colour, ms=7)


def gains(found: Sequence[Pair], printed: Sequence[float | None]) -> Figure | None:
    """GGEUR minus the same method without it, paired by seed, with 95 % intervals, beside the paper's gain.

    The figures stand at the right: one method that gains much would hide what the others gain.
    """
    if not found:
        return None
    with rc_context(_STYLE):
        figure = Figure(figsize=(_NARROW, 1.1 + 0.3 * len(found)), layout="constrained")
        ax = figure.subplots()
        for i, (pair, paper) in enumerate(zip(found, printed, strict=True)):
            place = len(found) - 1 - i
            if pair.difference is not None:
                ax.plot([pair.difference.low, pair.difference.high], [place, place], color="#0072B2", lw=2)
            ax.plot([pair.mean], [place], "X", color="#0072B2", ms=7, label="measured" if i == 0 else None)
            if paper is not None:
                first = all(p is None for p in printed[:i])
                ax.plot([paper], [place], "D", mfc="none", color="#D55E00", ms=7, label="paper" if first else None)
            ax.text(1.02, place, _figures(pair), transform=ax.get_yaxis_transform(), va="center", fontsize=8)
        ax.set_yticks(range(len(found)), [plain_text(pair.other.title) for pair in reversed(found)])
        ax.set_ylim(-0.6, len(found) - 0.4)
        ax.axvline(0, color=INK, lw=0.8)
        ax.grid(axis="x", color=FAINT, lw=0.4, alpha=0.5)
        ax.set_xlabel("points of AVG that GGEUR adds")
        if any(paper is not None for paper in printed):
            _legend(figure, [ax])
    return figure


def _figures(pair: Pair) -> str:
    d = pair.difference
    return f"{pair.mean:+.2f}" + ("" if d is None else f"  [{d.low:+.2f}, {d.high:+.2f}]")


def _grid(n: int, columns: int, height: float, *, share_y: bool = False) -> tuple[Figure, list[Axes]]:
    columns = min(n, columns)
    rows = -(-n // columns)
    width = {1: _NARROW, 2: 8.0}.get(columns, 9.2)
    figure = Figure(figsize=(width, (1.3 if columns == 1 else 1) * height * rows + 0.4), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False, sharey=share_y).flat)
    for ax in axes[n:]:
        ax.set_axis_off()
    return figure, axes


def _legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """One legend above all panels."""
    shown: dict[str, Any] = {}
    for ax in axes:
        for handle, text in zip(*ax.get_legend_handles_labels(), strict=True):
            shown.setdefault(text, handle)
    if shown:
        columns = min(len(shown), 4)
        figure.legend(shown.values(), shown.keys(), loc="outside upper center", ncols=columns, frameon=False)
