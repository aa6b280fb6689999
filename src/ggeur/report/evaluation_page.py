"""The page of an evaluation: how well a model does on the test samples of its sites, from their counts alone."""

from pathlib import Path
from typing import Any

import numpy as np

from ggeur.models.evaluating import Evaluation, worst
from ggeur.report.template import render_page
from ggeur.stats.storage import write_bytes

_MOST_CLASSES = 40  # of a confusion matrix that is shown

_SCORED = {
    "held out": "The test samples were held out by a public hash.",
    "marked": "The test samples are those that the tables mark.",
    "all": "All samples of the sites were scored: the figures hold if the model was trained on none.",
}


def write_evaluation_page(found: Evaluation, out: Path) -> Path:
    """Write the page of the evaluation to `out`, and return its path."""
    site, lowest = worst(found)
    rows = {**found.sites, "All sites": found.overall} if len(found.sites) > 1 else found.sites
    page = render_page(
        "evaluation.html.j2",
        "Evaluation",
        "evaluate fewer sites at once",
        found=found,
        summary=evaluation_summary(found, site, lowest),
        rows=rows,
        worst_site=site,
        worst_class=lowest,
        classes={found.class_names[c]: own for c, own in found.overall["classes"].items()},
        confusion=_confusion(found),
        percent=percent,
        interval=interval,
        at=f"{100 * found.specificity:g}",
    )
    write_bytes(out, page.encode())
    return out


def percent(metric: Any) -> str:
    """Return a metric in percent: one number, or what it lies between where counts are withheld.

    >>> percent({"low": 0.912, "high": 0.912}), percent({"low": 0.9, "high": 0.95}), percent(None)
    ('91.2', '90.0 to 95.0', 'not known')
    """
    if metric is None:
        return "not known"
    low, high = (metric["low"], metric["high"]) if isinstance(metric, dict) else (metric.low, metric.high)
    first, last = f"{100 * low:.1f}", f"{100 * high:.1f}"
    return first if first == last else f"{first} to {last}"


def interval(metric: Any) -> str:
    """Return the 95 % interval of a metric in percent."""
    if metric is None or metric.interval is None:
        return "–"
    return f"{100 * metric.interval[0]:.1f} to {100 * metric.interval[1]:.1f}"


def evaluation_summary(found: Evaluation, site: str | None, lowest: str | None) -> list[str]:
    """Return what there is to say, the most important first."""
    m = found.overall
    many = f"{len(found.sites)} sites" if len(found.sites) > 1 else "one site"
    said = [f"Accuracy {percent(m['accuracy'])} % ({interval(m['accuracy'])}, 95 %) on {m['samples']:,} test samples."]
    if site is not None:
        said.append(f"Lowest accuracy: {site}, {percent(found.sites[site]['accuracy'])} %.")
    if lowest is not None:
        c = found.class_names.index(lowest)
        said.append(f"Lowest recall: class {lowest}, {percent(m['classes'][c]['recall'])} %.")
    absent = [name for c, name in enumerate(found.class_names) if c not in m["classes"]]
    if absent:
        why = f" or fewer than {found.min_count} at each site" if found.min_count > 1 else ""
        said.append(f"Classes without test samples{why}: {', '.join(absent)}.")
    if found.min_count > 1:
        said.append(
            f"Counts below {found.min_count} stay at {many}; where they are needed a figure is a range. Classes with "
            "fewer test samples at a site are left out there."
        )
    if m["groups"]:
        said.append(f"Intervals are by {m['groups']:,} groups of samples (design effect {m['design']:.1f}).")
    kinds = ", ".join(found.scored)
    return [*said, _SCORED.get(kinds, f"Sites scored samples of different kinds: {kinds}.")]


def _confusion(found: Evaluation) -> list[tuple[str, list[tuple[str, float, bool]]]] | None:
    """Return rows of the confusion matrix: cells as text, their share of the row, and whether they are right."""
    low, high = found.confusion
    held = [c for c in range(len(found.class_names)) if low[c].any() or high[c].any()]
    if len(found.class_names) > _MOST_CLASSES:
        return None
    rows = []
    for c in held:
        middle = (low[c] + high[c]) / 2
        shares = middle / max(middle.sum(), 1)
        text = [f"{a:,}" if a == b else f"{a:,}–{b:,}" for a, b in zip(low[c], high[c], strict=True)]
        rows.append(
            (found.class_names[c], list(zip(text, shares.tolist(), (np.arange(len(low)) == c).tolist(), strict=True)))
        )
    return rows
