"""The part of a page that ranks the rows: how sure that is, what each costs, how soon it is there."""

from collections.abc import Sequence
from typing import NamedTuple

from ggeur.report.captions import captioned
from ggeur.report.entries import Entry, Variant
from ggeur.report.frontier_chart import frontier_chart
from ggeur.report.ranking import Candidate, Ranking
from ggeur.report.reach import Reach, reach
from ggeur.report.template import templates


class RankedRow(NamedTuple):
    """A row of the table of ranks."""

    rank: int
    row: Candidate
    interval: tuple[int, int]
    reached: Reach | None


def ranks_section(found: Ranking, entries: Sequence[Entry], id: str) -> str:
    """It as HTML whose `id` no other part of the page has."""
    target, words = _target(found, entries)
    rows = [
        RankedRow(i + 1, row, found.interval(i), None if target is None else reach(row.cells, target))
        for i, row in enumerate(found.rows)
    ]
    told = {"found": found, "rows": rows, "target": target, "target_words": words}
    figure = captioned("frontier", frontier_chart(found))
    return templates().get_template("ranks.html.j2").render(id=id, figure=figure, **told)


def _target(found: Ranking, entries: Sequence[Entry]) -> tuple[float | None, str]:
    """An accuracy for rows to reach, and what it is; none where federations differ."""
    if found.federations > 1:
        return None, ""
    plain = [e.avg for e in entries if e.method == "fedavg" and e.variant == Variant.PLAIN and e.avg is not None]
    if plain:
        return 0.99 * min(plain), "99 % of where plain FedAvg ends"
    return 0.99 * found.rows[0].avg, "99 % of where the best row ends"
