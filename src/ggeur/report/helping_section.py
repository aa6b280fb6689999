"""Who helps whom as a part of a page: sentences, then figures, each with its own."""

from ggeur.federation.helping import Helping
from ggeur.federation.helping_words import findings
from ggeur.report import helping_charts as charts
from ggeur.report.captions import CaptionedFigure, captioned
from ggeur.report.template import templates


def helping_section(h: Helping, id: str) -> str:
    """The part of a page about `h`, as HTML whose `id` no other part of the page has."""
    said = findings(h)
    return templates().get_template("helping.html.j2").render(
        id=id,
        head=h.head,
        rows=f"{sum(h.rows):,}",
        every_set=h.shapley is not None,
        sentences=[said.worst, said.alone, *said.left_out],
        figures=helping_figures(h),
    )  # fmt: skip


def helping_figures(h: Helping) -> list[CaptionedFigure]:
    """What every site brings, at which other site, and a map of the sites; nothing where there is only one."""
    if len(h.sites) == 1:
        return []
    said = findings(h)
    return [
        captioned("shares", charts.shares(h), sentence=said.shapley),
        captioned("matrix", charts.matrix(h), sentence=said.matrix),
        captioned("map", charts.site_map(h), sentence=said.map),
    ]
