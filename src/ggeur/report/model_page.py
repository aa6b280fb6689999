"""The page of a model folder: who is in, what was chosen, how well it does, contributions, what may be handed on."""

from pathlib import Path

import numpy as np

from ggeur.federation.contributions import FILE as CONTRIBUTIONS
from ggeur.models.card import calibration_words, sentences
from ggeur.models.site_files import LEDGER, PAGE, RECEIPTS, SUMS
from ggeur.report import charts as model_charts
from ggeur.report.figures import CaptionedFigure, captioned, label_distribution, plain_names
from ggeur.report.folders import FittedFolder, read_model_folder
from ggeur.report.sections import contributions_section
from ggeur.report.template import render_page
from ggeur.stats.storage import write_bytes

_ROWS = 40  # of a heat map
_LEAST = 0.9  # the probability whose coverage is described in words
# What a model folder may hold: the file, what it is, and whether it is part of the model that may be handed on.
_FILES = (
    ("head.npz", "the numbers of the head", True),
    ("model.json", "classes, encoder, method and hyperparameters, test accuracy", True),
    ("card.md", "the same for people to read", True),
    (SUMS, "the statistics of every site; keep it where the sites agreed that it may lie", False),
    (LEDGER, "who is in, with salted hashes of what each sent", False),
    (RECEIPTS, "one for each site that joined or left", False),
    (CONTRIBUTIONS, "contributions: figures of every site on its own", False),
    (PAGE, "this page, with figures of every site on its own", False),
)


def write_model_page(folder: Path, out: Path | None = None, *, own: bool = False) -> Path:
    """Write the page of the model in `folder` to `out`, default its report.html, from what lies there; its path.

    `own` allows a custom method, whose module is imported.
    """
    found, out = read_model_folder(folder, own), out or folder / PAGE
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
    return captioned("candidates", model_charts.candidates(s.expected, s.label), by=words)


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
    return captioned("tested", model_charts.tested(percent[:_ROWS], *names), lowest=lowest, more=more)


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
    return captioned("coverage", model_charts.coverage_chart(curves), at=words)
