"""Several runs in one figure: the curves of a method beside each other, whichever run they are of."""

from collections import Counter
from collections.abc import Sequence

from ggeur.report import charts
from ggeur.report.captions import CaptionedFigure, captioned
from ggeur.report.run_folder import Run


def together(runs: Sequence[Run]) -> list[CaptionedFigure]:
    """How training went in all `runs` of one's own; nothing of one run, which has the figure itself.

    Rows that are called alike are told apart by the names of their runs.
    """
    own = [
        (run.title, entry)
        for run in runs
        if run.reading is None and run.table.unit == "percent"
        for entry in run.entries
    ]
    if len({title for title, _ in own}) < 2:
        return []
    alike = Counter((entry.method, entry.condition, entry.variant) for _, entry in own)
    named = [
        entry if alike[entry.method, entry.condition, entry.variant] == 1 else entry._replace(variant=title)
        for title, entry in own
    ]
    figure = charts.convergence(named)
    return [] if figure is None else [captioned("together", figure)]
