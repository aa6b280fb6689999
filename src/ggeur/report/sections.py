"""Sections of a page: the findings of an audit, the contributions of sites, and what `auto` selected."""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib import rc_context
from matplotlib.figure import Figure

from ggeur.experiments.audit import ORDER, PARTIES, Audit, Finding, Found, Party
from ggeur.report.entries import ReportEntry
from ggeur.report.figures import INK, STYLE, captioned, grid
from ggeur.report.template import templates

_WHO: dict[Party, str] = {
    "server": "The server, from every site's own message",
    "other client": "Another client, from what it is sent to train",
    "total": "Whoever holds the total, or one of two sites that hold a class and the total",
    "model": "Who has the model alone",
}
_SIZES = ((1, 1), (2, 2), (3, 9), (10, 99), (100, 10**9))
_COLOURS: dict[Found, str] = {
    "exact samples": "#D55E00",
    "span": "#E69F00",
    "membership": "#F0E442",
    "nothing found": "#56B4E9",
    "not sent": "#DDDDDD",
}


def audit_words(found: Audit) -> list[str]:
    """Return a sentence for each party, and one for all."""
    samples = sum(f.samples for f in found.of("server"))
    said = [f"{who}: {_sentence(found.of(party))}" for party, who in _WHO.items()]
    if any(f.found == "span" for f in found.findings):
        said.append(
            "A class with no more samples than dimensions spans a plane that its second moment shows: whoever holds a "
            "sample sees whether it lies there, so a threshold alone does not hide who took part."
        )
    return [*said, f"In all {found.exact:,} of {samples:,} samples can be recovered exactly by somebody."]


def audit_section(found: Audit, id: str) -> str:
    """The part of a page about it, as HTML whose `id` no other part of the page has."""
    figure = captioned("audit", audit_chart(found), kind=found.kind or "no")
    return templates().get_template("audit.html.j2").render(id=id, sentences=audit_words(found), figure=figure)


def audit_chart(found: Audit) -> Figure:
    """Draw, for each party, groups by their number of samples, and what is found out of how many."""
    sizes = [s for s in _SIZES if any(s[0] <= f.samples <= s[1] for f in found.findings)]
    with rc_context(STYLE):
        figure, axes = grid(len(PARTIES), 2, 7.6, 2.2, 0.9)
        for ax, party in zip(axes, PARTIES, strict=True):
            bottom = [0] * len(sizes)
            for what in reversed(ORDER):
                many = [
                    sum(f.found == what and low <= f.samples <= high for f in found.of(party)) for low, high in sizes
                ]
                ax.bar(range(len(sizes)), many, bottom=bottom, color=_COLOURS[what], label=what, edgecolor=INK, lw=0.3)
                bottom = [a + b for a, b in zip(bottom, many, strict=True)]
            ax.set_xticks(range(len(sizes)), [_named(*size) for size in sizes])
            ax.set(title=party, ylabel="groups", xlabel="samples of a class at a client")
        handles, names = axes[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=len(names), fontsize="small")
    return figure


def _named(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}+" if high == 10**9 else f"{low}-{high}"


def _sentence(findings: list[Finding]) -> str:
    by = {
        name: [f for f in findings if f.found == name] for name in ("exact samples", "span", "membership", "not sent")
    }
    parts = []
    if by["exact samples"]:
        samples = sum(f.recovered for f in findings)
        parts.append(f"recovers {samples:,} {'sample' if samples == 1 else 'samples'}, in {len(by['exact samples']):,}")
    if by["span"]:
        parts.append(f"tells without error who is among the samples of {len(by['span']):,}")
    if by["membership"]:
        best = max(f.auc or 0 for f in by["membership"])
        parts.append(f"guesses it better than a coin in {len(by['membership']):,} (AUC up to {best:.2f})")
    if by["not sent"]:
        parts.append(f"is sent nothing of {len(by['not sent']):,}")
    rest = [f.auc for f in findings if f.found == "nothing found" and f.auc is not None]
    if rest:
        parts.append(f"is sure of none of {len(rest):,} by itself (mean AUC {sum(rest) / len(rest):.2f})")
    return f"of {len(findings):,} groups {', '.join(parts) or 'finds nothing'}."


_OTHERS = 3  # candidates that are named beside the selected one


class SeedSelection(NamedTuple):
    """The candidate that one seed selected; its accuracy in percent."""

    name: str  # of the method and its setting
    seed: int
    taken: str
    test: float | None
    others: tuple[str, ...]  # the best of the other candidates, by their ranking


def selected(entries: Sequence[ReportEntry]) -> list[SeedSelection]:
    """Return what every seed of `entries` selected from statistics; empty where nothing was selected so."""
    return [
        SeedSelection(
            entry.full_name,
            trial.seed,
            trial.taken,
            trial.avg,
            tuple(sorted((k for k in trial.expected if k != trial.taken), key=lambda k: -trial.expected[k])[:_OTHERS]),
        )
        for entry in entries
        for trial in entry.row.trials
        if trial.expected
    ]
