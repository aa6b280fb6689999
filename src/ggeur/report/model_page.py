"""The page of a model folder: who is in, what was chosen, how well it does, contributions, what may be handed on."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ggeur.federation.contributions import FILE as CONTRIBUTIONS
from ggeur.federation.contributions import Contributions, Estimate, load_contributions
from ggeur.federation.ledger import Entry
from ggeur.models.card import calibration_words, sentences
from ggeur.models.joining import Opened
from ggeur.models.model import Model
from ggeur.models.site_files import LEDGER, PAGE, RECEIPTS, STATISTICS, load_statistics, read_receipts
from ggeur.models.solution import Solution
from ggeur.models.transaction import current, pending
from ggeur.report.figures import (
    FAINT,
    INK,
    STYLE,
    CaptionedFigure,
    captioned,
    colourbar,
    grid,
    label_distribution,
    name_ticks,
    plain_names,
    plain_text,
    write_cells,
)
from ggeur.report.template import render_page, templates
from ggeur.stats.errors import GgeurError
from ggeur.stats.old_names import FILES
from ggeur.stats.storage import write_bytes
from ggeur.stats.types import Float, Int

_ROWS = 40  # of a heat map
_LEAST = 0.9  # the probability whose coverage is described in words
# What a model folder may hold: the file, what it is, and whether it is part of the model that may be handed on.
_FILES = (
    ("head.npz", "the numbers of the head", True),
    ("model.json", "classes, encoder, method and hyperparameters, test accuracy", True),
    ("card.md", "the same for people to read", True),
    (STATISTICS, "the statistics of every site; keep it where the sites agreed that it may lie", False),
    (FILES[STATISTICS], "the same, where version 0.2 put them", False),
    (LEDGER, "who is in, with salted hashes of what each sent", False),
    (RECEIPTS, "one for each site that joined or left", False),
    (CONTRIBUTIONS, "contributions: figures of every site on its own", False),
    (PAGE, "this page, with figures of every site on its own", False),
)


class FittedFolder(NamedTuple):
    """A folder as `ggeur fit` wrote it, and the sites that joined and left since."""

    folder: Path
    model: Model
    solution: Solution
    entries: Sequence[Entry]
    counts: Mapping[str, Int]  # samples of every class at each site
    receipts: Sequence[Mapping[str, Any]]
    contributions: Contributions | None

    @property
    def left(self) -> int:
        """The number of sites that took part in the selection and have left."""
        return len(set(self.solution.chosen_by) - {e.name for e in self.entries})

    @property
    def chosen_by_all(self) -> bool:
        """Whether the sites of the selection are those of the model."""
        return set(self.solution.chosen_by) == {e.name for e in self.entries}

    @property
    def percent(self) -> tuple[tuple[str, ...], Float]:
        """Domains, and the percentage of test samples right in each domain and class (D, C); NaN without samples."""
        groups = self.model.metrics.get("groups", {})
        found = np.full((len(groups), len(self.model.class_names)), np.nan)
        for d, own in enumerate(groups.values()):
            for c, name in enumerate(self.model.class_names):
                if name in own:
                    right, samples = own[name]
                    found[d, c] = 100 * right / samples
        return tuple(groups), found


def read_model_folder(folder: Path, custom: bool = False, known: Mapping[str, Int] | None = None) -> FittedFolder:
    """Read the `folder`; `custom` allows a custom method, whose module is imported.

    The samples of every class at each site are read from what the sites sent, unless they are `known`.
    """
    if not current(folder, LEDGER).exists():
        raise GgeurError(
            f"{folder} does not say who is in the model: only a folder that `ggeur fit` wrote has a page, and no copy "
            "of it without the statistics.",
            code="model-without-ledger",
        )
    opened = Opened.at(folder, custom)
    model, entries = opened.model, opened.ledger.entries
    counts = dict(known or {})
    for entry in () if counts else entries:  # one by one, as the statistics of all sites may not fit into memory
        statistics = load_statistics(folder, entry)
        count = np.sum([m.count for m in statistics.messages.values()], axis=0)
        counts[entry.name] = _by_class(statistics.class_names, count, model)
    receipts = read_receipts(folder)
    contributions = None if pending(folder) else load_contributions(folder)  # of the sites before the change
    return FittedFolder(folder, model, opened.solution, entries, counts, receipts, contributions)


def _by_class(names: Sequence[str], count: Any, model: Model) -> Int:
    known = dict(zip(names, count.astype(np.int64).tolist(), strict=True))
    return np.array([known.get(name, 0) for name in model.class_names], np.int64)


def write_model_page(
    folder: Path, out: Path | None = None, *, custom: bool = False, counts: Mapping[str, Int] | None = None
) -> Path:
    """Write the page of the model in `folder` to `out`, default its report.html, from what lies there; its path.

    `custom` allows a custom method, whose module is imported. `counts` are the samples of every class at each site,
    where they are known, so that no site's statistics are read again.
    """
    found, out = read_model_folder(folder, custom, counts), out or folder / PAGE
    page = render_page(
        "model.html.j2",
        f"Model {folder.resolve().name}",
        "the folder has all that it would say",
        f=found,
        summary=_summary(found),
        held=_held(found),
        choice=_choice(found),
        tests=_tests(found),
        trust=_trust(found),
        trusted=" ".join(calibration_words(found.model.calibration)),
        test_samples={d: sum(n for _, n in own.values()) for d, own in found.model.metrics.get("groups", {}).items()},
        contributions=""
        if found.contributions is None
        else contributions_section(found.contributions, "contributions"),
        files=[file for file in _FILES if file[0] == PAGE or (folder / file[0]).exists()],
    )
    write_bytes(out, page.encode())
    return out


def _summary(f: FittedFolder) -> list[str]:
    sites = "one site" if len(f.entries) == 1 else f"{len(f.entries)} sites"
    samples, m = sum(e.samples for e in f.entries), f.model.metrics
    said = [
        f"One head for {len(f.model.class_names)} classes, {f.solution.called}, from the statistics of "
        f"{samples:,} samples at {sites}."
    ]
    if m:
        worst = min(m["domains"], key=m["domains"].get)
        several = f" on average over {len(m['domains'])} domains, fewest in {worst} ({m['domains'][worst]:.2f} %)"
        said.append(
            f"Of {m['test_samples']:,} test samples, left out of the statistics, it gets {m['avg']:.2f} % right"
            f"{several if len(m['domains']) > 1 else f', all of them of {worst}'}."
        )
    else:
        said.append("Nothing says how well it does: no test samples were given when the head was last solved.")
    said.append(f.solution.why or "The method was named and not chosen.")
    privacy = sentences(f.model.privacy) or [
        "No privacy mechanism was used: statistics of small groups reveal samples."
    ]
    return [*said, *privacy]


def _held(f: FittedFolder) -> CaptionedFigure:
    counts = np.stack(list(f.counts.values()))[:_ROWS]
    sites = plain_names(tuple(f.counts)[:_ROWS])
    more = f" The first {_ROWS} sites." if len(f.counts) > _ROWS else ""
    return captioned("held", label_distribution({"": counts}, plain_names(f.model.class_names), sites), more=more)


def _choice(f: FittedFolder) -> CaptionedFigure | None:
    """None where nothing was chosen, or nothing could be ranked."""
    s, words = f.solution, ""
    if not s.expected:
        return None
    if not f.chosen_by_all:
        left = f", {f.left} of which {'has' if f.left == 1 else 'have'} left" if f.left else ""
        words = f" It was chosen by {len(s.chosen_by)} sites as they then were{left}; --choose-again asks those now in."
    return captioned("candidates", candidates(s.expected, s.label), by=words)


def _tests(f: FittedFolder) -> CaptionedFigure | None:
    domains, percent = f.percent
    if not percent.size:
        return None
    by_class: dict[str, tuple[int, int]] = {}  # over all domains, as few samples of one say little
    for own in f.model.metrics["groups"].values():
        for name, (right, samples) in own.items():
            before = by_class.get(name, (0, 0))
            by_class[name] = before[0] + right, before[1] + samples
    name, (right, samples) = min(by_class.items(), key=lambda item: item[1][0] / item[1][1])
    lowest = f"{name}, {right:,} of {samples:,} samples"
    more = f" The first {_ROWS} domains." if len(domains) > _ROWS else ""
    names = plain_names(domains)[:_ROWS], plain_names(f.model.class_names)
    return captioned("tested", tested(percent[:_ROWS], *names), lowest=lowest, more=more)


def _trust(f: FittedFolder) -> CaptionedFigure | None:
    """Draw the accuracy gained by leaving answers out; None where the probabilities are not calibrated."""
    said = f.model.calibration
    kinds = {"test samples": said.get("test"), "training samples left out": said.get("validation")}
    curves = {name: samples["coverage"] for name, samples in kinds.items() if samples}
    if not curves:
        return None
    name, points = next(iter(curves.items()))
    least, answered, right = min(points, key=lambda point: abs(point[0] - _LEAST))
    words = f"{100 * least:g} %, {answered:.1f} % of {name} get an answer, and {right:.1f} % of these are right"
    return captioned("coverage", coverage_chart(curves), at=words)


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


_STYLE: Any = {**STYLE, "axes.spines.top": False, "axes.spines.right": False}
_TOLD = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99)  # thresholds that are written beside a curve
_WRITTEN = 12  # names along a side up to which the numbers of a heat map are written out


def candidates(expected: Mapping[str, float], taken: str) -> Figure:
    """How far each candidate was ahead of the one `taken`, or behind it, on synthetic samples.

    Their levels say nothing, so that only differences of what was `expected` are shown.
    """
    base = expected.get(taken, max(expected.values()))
    with rc_context(_STYLE):
        figure, (ax,) = grid(1, 1, 5.7, 0.27 * len(expected), 1.1)
        for place, (label, value) in enumerate(expected.items()):
            ax.barh(place, value - base, 0.6, color="#56B4E9" if value >= base else "#E69F00")
            is_taken = label == taken
            if is_taken:
                ax.plot([0], [place], "o", color=INK, ms=6, label="taken")
            shown, weight = "taken" if is_taken else f"{value - base:+.2f}", "bold" if is_taken else "normal"
            ax.text(1.03, place, shown, transform=ax.get_yaxis_transform(), va="center", fontsize=8, weight=weight)
        ax.set_yticks(range(len(expected)), [plain_text(label, 40) for label in expected])
        ax.set_ylim(len(expected) - 0.4, -0.6)
        ax.margins(x=0.1)
        ax.axvline(0, color=INK, lw=0.8)
        ax.xaxis.set_major_locator(MaxNLocator(5))
        ax.grid(axis="x", color=FAINT, lw=0.4, alpha=0.5)
        ax.set_xlabel(
            "points against what was taken, on synthetic samples" if taken in expected else "points below the best"
        )
    return figure


def tested(percent: Float, domains: Sequence[str], classes: Sequence[str]) -> Figure:
    """Draw the `percent` (D, C) of test samples right in each domain and class; NaN where there are none."""
    n_domains, n_classes = percent.shape
    width = 0.34 * max(n_classes, 8) if n_classes <= 30 else 10.0
    least = min(10 * np.floor(np.nanmin(percent) / 10), 90.0)  # from there, or what differs would look the same
    with rc_context(STYLE):
        figure, (ax,) = grid(1, 1, 1.9 + width, 0.3 * max(n_domains, 4) + 0.75, 0.6)
        shown = np.ma.masked_invalid(percent)
        image = ax.imshow(shown, cmap="YlGnBu", vmin=least, vmax=100, aspect="auto", interpolation="nearest")
        if max(percent.shape) <= _WRITTEN:
            write_cells(ax, image, [["" if np.isnan(v) else f"{v:.0f}" for v in own] for own in percent])
        name_ticks(ax, classes, domains)
        colourbar(figure, [ax], image, "% right (empty: no samples)")
    return figure


def coverage_chart(curves: Mapping[str, Sequence[Sequence[float]]]) -> Figure:
    """Percent right of the answers that are given, against percent given: one curve per kind of samples.

    A point is [threshold, percent answered, percent right]; a few thresholds are written beside theirs.
    """
    with rc_context(_STYLE):
        figure, (ax,) = grid(1, 1, 5.7, 2.6)
        for (name, points), colour, style in zip(curves.items(), ("#0072B2", "#D55E00"), ("-", "--"), strict=False):
            threshold, answered, right = np.array(points).T
            ax.plot(answered, right, style, color=colour, marker="o", ms=3, label=name)
            for t, x, y in zip(threshold, answered, right, strict=True):
                if t in _TOLD and style == "-":
                    ax.annotate(f"{100 * t:g} %", (x, y), (-5, -8), textcoords="offset points", fontsize=7, ha="right")
        ax.set_xlabel('% answered; the rest is "I do not know"')
        ax.set_ylabel("% of these right")
        ax.margins(y=0.15)
        ax.grid(color=FAINT, lw=0.4, alpha=0.5)
        ax.legend(frameon=False, loc="lower left")
    return figure
