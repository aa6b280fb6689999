"""The contributions of sites as a part of a page: one table."""

from statistics import NormalDist

from ggeur.experiment.contributions import Contributions, Estimate
from ggeur.report.template import templates


def contributions_section(found: Contributions, id: str) -> str:
    """Return the part of a page about `found`, as HTML whose `id` no other part of the page has."""
    rows = [
        {
            "site": one.site,
            "accuracy": "-" if one.accuracy is None else f"{one.accuracy.value:.1f} ± {one.accuracy.error:.1f}",
            "to_itself": _points(one.to_itself, len(found.sites)),
            "to_others": _points(one.to_others, len(found.sites)),
        }
        for one in sorted(found.sites, key=lambda one: -(one.to_others.value if one.to_others else 0.0))
    ]
    samples = f"{sum(one.samples for one in found.sites):,}"
    return templates().get_template("contributions.html.j2").render(id=id, found=found, samples=samples, rows=rows)


def _points(e: Estimate | None, tries: int) -> str:
    """With a star where it is not zero at 95 %, allowing for so many `tries` to find one that is not."""
    if e is None:
        return "-"
    star = "*" if abs(e.value) > NormalDist().inv_cdf(1 - 0.025 / tries) * e.error else ""
    return f"{e.value + 0.0:+.1f} ± {e.error:.1f}{star}"
