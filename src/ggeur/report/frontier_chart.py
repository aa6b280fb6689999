"""Accuracy against what it costs: every row as a point, and those marked that no other beats."""

from collections.abc import Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, NullFormatter

from ggeur.report.canvas import FAINT, INK, STYLE, grid, plain_text
from ggeur.report.ranking import Candidate, Ranking, frontier

_SOLVED, _TRAINED, _LINE = "#D55E00", "#0072B2", "#009E73"
_COSTS = {"bytes": "bytes that a client sends and receives", "seconds": "seconds of all of it, where it ran"}


def frontier_chart(found: Ranking) -> Figure:
    """AVG against bytes and against seconds; rows of a frontier are numbered, and named below."""
    lines = {cost: frontier(found.rows, cost) for cost in _COSTS}
    named = list({row.name: row for rows in lines.values() for row in rows})
    with rc_context({**STYLE, "axes.spines.top": False, "axes.spines.right": False}):
        figure, axes = grid(2, 1, 5.7, 2.9, 0.3 + 0.2 * len(named))
        for ax, (cost, words) in zip(axes, _COSTS.items(), strict=True):
            _panel(ax, found.rows, lines[cost], cost, named)
            ax.set_xlabel(words)
        handles, texts = axes[0].get_legend_handles_labels()
        figure.legend(handles, texts, loc="outside upper center", ncols=3, frameon=False)
        list_of = "\n".join(f"{i}  {plain_text(name, 60)}" for i, name in enumerate(named, 1))
        figure.supxlabel(list_of, x=0.1, ha="left", fontsize=8.5, color=INK)
    return figure


def _panel(ax: Axes, rows: Sequence[Candidate], best: Sequence[Candidate], cost: str, named: Sequence[str]) -> None:
    for solved, colour, marker, text in ((False, _TRAINED, "o", "rounds"), (True, _SOLVED, "D", "one message")):
        own = [row for row in rows if row.solved == solved]
        if own:
            at = [max(getattr(row, cost), 1e-3) for row in own]
            ax.plot(at, [row.avg for row in own], marker, color=colour, ms=5, alpha=0.75, label=text)
    at, avg = [max(getattr(row, cost), 1e-3) for row in best], [row.avg for row in best]
    ax.step(at, avg, where="post", color=_LINE, lw=1.6, label="frontier", zorder=0)
    ax.plot(at, avg, "o", mfc="none", mec=_LINE, ms=11, mew=1.4)
    for x, y, row in zip(at, avg, best, strict=True):
        at_point: Any = {"textcoords": "offset points", "ha": "center", "fontsize": 8}
        ax.annotate(str(named.index(row.name) + 1), (x, y), (0, 8), **at_point)
    ax.set_xscale("log")
    ax.margins(x=0.06, y=0.14)
    ax.xaxis.set_major_formatter(EngFormatter("B" if cost == "bytes" else "s"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_ylabel("AVG, %")
    ax.grid(axis="both", color=FAINT, lw=0.4, alpha=0.5)
