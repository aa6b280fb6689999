"""Several runs in one figure: the curves of a method beside each other, whichever run they are of."""

from collections.abc import Sequence

from ggeur.report import charts
from ggeur.report.captions import CaptionedFigure, captioned
from ggeur.report.entries import Entry
from ggeur.report.run_folder import Run


def together(runs: Sequence[Run]) -> list[CaptionedFigure]:
    """How training went in all `runs` of one's own; nothing of one run, which has the figure itself.

    Of rows that are called alike, those after the first have the names of their runs.
    """
    own = [run for run in runs if run.reading is None and run.table.unit == "percent"]
    if len(own) < 2:
        return []
    found: dict[tuple[str, str, str], Entry] = {}
    for run in own:
        for entry in run.entries:
            alike = (entry.method, entry.condition, entry.variant) in found
            named = entry._replace(variant=run.title) if alike else entry
            found[named.method, named.condition, named.variant] = named
    figure = charts.convergence(list(found.values()))
    return [] if figure is None else [captioned("together", figure)]
