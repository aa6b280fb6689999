"""The figures of a run with their words: how training went, who holds what, similarity, one client's view, spectra."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ggeur.data.datasets import MINI_DIGITS
from ggeur.data.image_table import ImageTable
from ggeur.data.table import EmbeddingTable
from ggeur.experiments.partitions import client_names, load_table, partition_samples
from ggeur.experiments.result import what_seeds_vary
from ggeur.experiments.settings import Settings
from ggeur.federation.evaluation import LAST_ROUNDS
from ggeur.paper.paper_tables import published_tables
from ggeur.paper.reproduction import Reproduction
from ggeur.report import charts, figures, inspection
from ggeur.report.entries import Pair, ReportEntry, draws_noise, pairs
from ggeur.report.figures import CaptionedFigure, captioned, plain_names, plain_text
from ggeur.report.tables import Comparison
from ggeur.stats.errors import GgeurError

_CLASSES = 30  # classes of which spectra are drawn
_CLIENTS = 40  # clients whose samples are counted


def evidence_of_training(entries: Sequence[ReportEntry], reading: Reproduction | None) -> list[CaptionedFigure]:
    """Return the figures of what GGEUR adds, what the controls have of that, and how training went.

    `entries` are the rows of a run and `reading` is how to read it as a table of the paper, if it is one.
    """
    with_plain = pairs(entries)
    published = [None if reading is None else published_gain(pair, reading) for pair in with_plain]
    intervals = ", paired by seed, with 95 % intervals" if any(pair.difference for pair in with_plain) else ", one seed"
    diamonds = " Diamonds are the paper's." if any(gain is not None for gain in published) else ""
    drawn = {
        "gains": charts.gains(with_plain, published),
        "controls": charts.controls(entries),
        "convergence": charts.convergence(entries),
    }
    words = {"intervals": intervals, "diamonds": diamonds}
    return [captioned(key, figure, **words) for key, figure in drawn.items() if figure is not None]


class ReportedData(NamedTuple):
    """One table or dataset of a run, if it is still there."""

    name: str
    points: list[Settings]  # that used it
    table: EmbeddingTable | ImageTable | None  # split as the first seed had it
    missing: str = ""  # why there is no table


def reported_data(entries: Sequence[ReportEntry], seed: int) -> list[ReportedData]:
    """Return the data of the run of these `entries`, each split by `seed`."""
    found = []
    for data in dict.fromkeys(entry.point.data for entry in entries):
        points = [entry.point for entry in entries if entry.point.data == data]
        name = Path(data.table).stem if data.table else str(data.dataset)
        table, missing = None, ""
        if data.table is None and data.dataset != MINI_DIGITS:
            missing = f"Figures of the data are left out: {data.dataset} would have to be embedded again."
        elif data.table is not None and not Path(data.table).is_file():
            missing = f"Figures of the data are left out: {data.table} is no longer there."
        else:
            try:
                table = load_table(data)
                table = replace(table, class_names=plain_names(table.class_names)).split(seed)
            except GgeurError as error:
                missing = f"Figures of the data are left out. {error}"
        found.append(ReportedData(name, points, table, missing))
    return found


def evidence(data: Sequence[ReportedData], seed: int) -> tuple[list[CaptionedFigure], list[str]]:
    """Return the figures of every table of embeddings of a run, and a sentence for all that could not be drawn."""
    drawn: list[CaptionedFigure] = []
    missing = [one.missing for one in data if one.missing]
    for name, points, table, _ in data:
        if table is not None:
            of = f", {name}" if len(data) > 1 else ""
            try:
                drawn += [f._replace(short=f.short + of) for f in _of_table(table, points, seed, name)]
            except GgeurError as error:
                missing.append(f"Some figures of the data are left out. {error}")
    return drawn, missing


def _of_table(
    table: EmbeddingTable | ImageTable, points: Sequence[Settings], seed: int, name: str
) -> list[CaptionedFigure]:
    parts = {_title(point): partition_samples(table, point.partition, seed) for point in _partitions(points)}
    first = next(iter(parts.values()))
    clients = [plain_text(client) for client in client_names(table, first)]
    few = {title: inspection.client_counts(table, rows)[:_CLIENTS] for title, rows in parts.items()}
    labels = captioned(
        "labels",
        figures.label_distribution(few, table.class_names, clients[:_CLIENTS]),
        table=name,
        seed=seed,
        clients=f" The first {_CLIENTS} clients." if len(clients) > _CLIENTS else "",
        comparison=_further(points),
    )
    if isinstance(table, ImageTable):  # their samples have no geometry to speak of, and thousands of dimensions
        return [labels]
    similarity = []
    if found := inspection.similarities(table):
        shown = [p._replace(domains=(plain_text(p.domains[0]), plain_text(p.domains[1]))) for p in found]
        same, other = (float(np.mean([getattr(p, kind) for p in found])) for kind in ("same", "other"))
        similarity = [captioned("similarity", figures.draw_similarity(shown), table=name, same=same, other=other)]
    full = max(points, key=lambda p: (draws_noise(p), p.augment.steps or 1))
    augment = full.augment.model_copy(update={"kind": "ggeur", "parameters": {}}).build()
    rows = partition_samples(table, full.partition, seed)
    view = inspection.client_view(table, rows, None, augment, [], seed)
    view = view._replace(client=plain_text(view.client))
    values, names = inspection.spectra(table)
    chosen = np.unique(np.linspace(0, len(names) - 1, min(len(names), _CLASSES)).astype(int))
    spectra = figures.draw_spectra(values[chosen], [names[i] for i in chosen])
    return [
        labels,
        *similarity,
        captioned("view", figures.draw_client_view(view), table=name),
        captioned("spectra", spectra, table=name),
    ]


def _partitions(points: Sequence[Settings]) -> list[Settings]:
    """Every partition of the run, up to six; of label and domain skew also the others that Figure 9 shows."""
    own = list({point.partition: point for point in points}.values())[: len(inspection.BETAS)]
    if _further(points):
        partition = own[0].partition
        others = [partition.model_copy(update={"beta": beta}) for beta in inspection.BETAS if beta != partition.beta]
        own += [own[0].model_copy(update={"partition": other}) for other in others]
    return own


def _further(points: Sequence[Settings]) -> str:
    """Return what to say of partitions that are drawn though the run has only one."""
    partitions = {point.partition for point in points}
    if len(partitions) > 1 or points[0].partition.kind != "label-and-domain":
        return ""
    return f" The run has β = {points[0].partition.beta:g}; the others are for comparison."


def _title(point: Settings) -> str:
    p = point.partition
    if p.kind == "domain":
        return "one domain each"
    return f"β = {p.beta:g}" + (f", {p.clients} clients" if p.kind == "dirichlet" and p.clients != 10 else "")


def summary(all_entries: Sequence[ReportEntry], table: Comparison, reading: Reproduction | None) -> list[str]:
    """The findings, most important first; every figure is computed from the result.

    `all_entries` are its rows, `table` is the same as people read it, and `reading` says what of the paper it is.
    """
    if table.unit == "seconds":
        return _times(table)
    plain = pairs(all_entries)
    varied = what_seeds_vary([c for e in all_entries for c in e.row.trials])
    finished = any(entry.avg is not None for entry in all_entries)
    found = [] if finished else ["Nothing finished, so there is nothing to compare."]
    found += [*_gains(plain), *_paper(plain, reading), *_speed(plain)]
    rounds = max((len(c.rounds) for e in all_entries for c in e.row.trials), default=0)
    if 1 < rounds <= LAST_ROUNDS:
        found.append(
            f"With {rounds} rounds, the mean of the last {LAST_ROUNDS} holds the first as well, which favours what "
            "starts fast; the curves say more."
        )
    found += [varied] if varied else []
    missing = [line.name for line in table.lines if line.why]
    if missing:
        found.append(f"{len(missing)} of {len(table.lines)} rows did not run; the table says why for each.")
    return found


def _gains(found: Sequence[Pair]) -> list[str]:
    """GGEUR against the same method without it."""
    if not found:
        return []
    if len(found) == 1:
        doubt = "" if found[0].side or found[0].difference is None else ", which these seeds cannot tell from zero"
        return [f"GGEUR changes {found[0].other.title} by {found[0].text}{doubt}."]
    up = [p for p in found if p.mean > 0]
    most, least = max(found, key=lambda p: p.mean), min(found, key=lambda p: p.mean)
    verdict = "in every comparison" if len(up) == len(found) else f"in {len(up)} of {len(found)} comparisons"
    text = (
        f"GGEUR is above the same method without it {verdict}: from {least.text} ({least.other.title}) to "
        f"{most.text} ({most.other.title})."
    )
    if all(p.difference is None for p in found):
        return [text]
    above, below = (sum(p.side == side for p in found) for side in (1, -1))
    rest = "; the rest these seeds cannot tell from zero" if above + below < len(found) else ""
    where = f"above zero in {above} of {len(found)} and below it in {below}"
    return [f"{text} Paired by seed, the 95 % interval is {where}{rest}."]


def _paper(found: Sequence[Pair], reading: Reproduction | None) -> list[str]:
    """Our gain beside the paper's, on average over the pairs for which it prints both."""
    if reading is None or reading.table not in published_tables():
        return []
    both = [(pair.mean, gain) for pair in found if (gain := published_gain(pair, reading)) is not None]
    if not both:
        return ["The paper prints no GGEUR figure for this table, so its gain cannot be compared."] if found else []
    ours, theirs = (sum(values) / len(both) for values in zip(*both, strict=True))
    over = f"on average over {len(both)} comparisons" if len(both) > 1 else "in the one comparison"
    strange = [f"{column.value} for {column.label}" for column in reading.columns if column.replaced]
    caveat = f" (with {', '.join(strange)})" if strange else ""
    return [f"The paper's gain {over} that it prints is {theirs:+.2f} points; ours is {ours:+.2f}{caveat}."]


def published_gain(pair: Pair, reading: Reproduction) -> float | None:
    """Return the gain of GGEUR in the paper for this `pair`, if the table of `reading` prints both figures."""
    paper = published_tables().get(reading.table)
    arm = next((a for a in reading.arms if a.arm == pair.full.row.settings.get("arm")), None)
    if paper is None or arm is None:
        return None
    for column in reading.columns:
        fits = column.kind == "avg" or (
            column.kind == "value" and pair.full.row.settings.get(str(column.key)) == column.value
        )
        if column.part == arm.part and fits:
            full, plain = (paper.value(e.published, column.label) for e in (pair.full, pair.other))
            return None if full is None or plain is None else full - plain
    return None


def _speed(found: Sequence[Pair]) -> list[str]:
    """Section 4.5 of the paper: how soon training is there, and what its rounds hold."""
    numbers = ("rounds_to_95", "local_steps")
    both = [[entry.mean(name) for name in numbers for entry in (p.full, p.other)] for p in found]
    whole = [tuple(v for v in values if v is not None) for values in both if all(v for v in values)]
    if not whole:
        return []
    fast, slow, many, few = (sum(values) / len(whole) for values in zip(*whole, strict=True))
    over = f" on average over {len(whole)} comparisons" if len(whole) > 1 else ""
    return [
        f"To 95 % of its final accuracy GGEUR takes {fast:.1f} rounds and the same method without it {slow:.1f}{over}; "
        f"but a client's round holds {many / few:.1f} times the local steps."
    ]


def _times(table: Comparison) -> list[str]:
    lines = [line for line in table.lines if any(n.mean for n in line.numbers)]
    if len(lines) < 2:
        return ["Not both rows ran, so there is nothing to compare."]
    first, second = lines[:2]
    ratios = [
        f"{name} {b.mean / a.mean:.1f} times"
        for name, a, b in zip(table.columns, first.numbers, second.numbers, strict=True)
        if a.mean and b.mean
    ]
    return [f"A round takes, {second.name.lower()} against {first.name.lower()}: {', '.join(ratios)}."]
