"""What choosing expected of heads, beside what the test rows say of them."""

from collections.abc import Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from ggeur.report.canvas import COLOURS, FAINT, MARKERS, STYLE, grid, plain_text
from ggeur.report.entries import Entry


def choices(entries: Sequence[Entry]) -> Figure | None:
    """A point for each cell that chose: what it expected, and what it found; on the line the two are one."""
    chosen = [e for e in entries if any(c.expected and c.avg is not None for c in e.row.cells)]
    if not chosen:
        return None
    with rc_context(STYLE):
        figure, (ax,) = grid(1, 1, 4.2, 3.4)
        every: list[float] = []
        for i, entry in enumerate(chosen):
            cells = [c for c in entry.row.cells if c.expected and c.avg is not None]
            x, y = [c.expected[c.taken] for c in cells], [float(c.avg or 0.0) for c in cells]
            look: Any = {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)], "ls": "none", "ms": 5}
            ax.plot(x, y, label=plain_text(entry.condition or entry.method), **look)
            every += [*x, *y]
        ends = [min(every) - 1, max(every) + 1]
        ax.plot(ends, ends, color=FAINT, lw=0.8, zorder=0)
        ax.set(xlabel="expected by what was left out, %", ylabel="AVG on test rows, %", xlim=ends, ylim=ends)
        if len(chosen) > 1:
            ax.legend(fontsize="small")
    return figure
