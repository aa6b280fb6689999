"""Several runs in one figure: the curves of a method beside each other, whichever run they are of."""

from collections.abc import Iterator, Sequence
from itertools import chain, count

from ggeur.report import charts
from ggeur.report.captions import CaptionedFigure, captioned
from ggeur.report.entries import Entry
from ggeur.report.run_folder import Run


def together(runs: Sequence[Run]) -> list[CaptionedFigure]:
    """How training went in all `runs` of one's own; nothing of one run, which has the figure itself.

    Of rows that are called alike, those after the first have the names of their runs, with the folders' that these are
    in where runs are called alike, too, and a number where nothing else tells them apart.
    """
    own = [run for run in runs if run.reading is None and run.table.unit == "percent"]
    if len(own) < 2:
        return []
    found: dict[tuple[str, str, str], Entry] = {}
    for run in own:
        for entry in run.entries:
            named = next(n for n in _names(entry, run) if (n.method, n.condition, n.variant) not in found)
            found[named.method, named.condition, named.variant] = named
    figure = charts.convergence(list(found.values()))
    return [] if figure is None else [captioned("together", figure)]


def _names(entry: Entry, run: Run) -> Iterator[Entry]:
    """What a row may be called, the plainest first."""
    within = f"{run.folder.resolve().parent.name}/{run.title}"
    numbered = (f"{within} ({i})" for i in count(2))
    return chain([entry], (entry._replace(variant=name) for name in chain([run.title, within], numbered)))
