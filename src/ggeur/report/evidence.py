"""The figures of a run with their words: how training went, who holds what, similarity, one client's view, spectra."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ggeur.data.datasets import MINI_DIGITS
from ggeur.data.image_table import ImageTable
from ggeur.experiments.partitions import client_names, load_table, partition_samples
from ggeur.experiments.settings import Settings
from ggeur.paper.reproduction import Reproduction
from ggeur.report import charts, figures, inspection
from ggeur.report.canvas import CaptionedFigure, captioned, plain_names, plain_text
from ggeur.report.entries import ReportEntry, draws_noise, pairs
from ggeur.report.words import published_gain
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


def evidence(entries: Sequence[ReportEntry], seed: int) -> tuple[list[CaptionedFigure], list[str]]:
    """The figures of every table of embeddings that the run of these `entries` used, and what could not be drawn.

    `seed` is that of the split and the partition which are drawn.
    """
    drawn: list[CaptionedFigure] = []
    missing: list[str] = []
    tables = dict.fromkeys(entry.point.data for entry in entries)
    for data in tables:
        points = [entry.point for entry in entries if entry.point.data == data]
        if data.table is None and data.dataset != MINI_DIGITS:
            missing.append(f"Figures of the data are left out: {data.dataset} would have to be embedded again.")
        elif data.table is not None and not Path(data.table).is_file():
            missing.append(f"Figures of the data are left out: {data.table} is no longer there.")
        else:
            try:
                name = Path(data.table).stem if data.table else str(data.dataset)
                of = f", {name}" if len(tables) > 1 else ""
                drawn += [figure._replace(short=figure.short + of) for figure in _of_table(points, seed, name)]
            except GgeurError as error:
                missing.append(f"Some figures of the data are left out. {error}")
    return drawn, missing


def _of_table(points: Sequence[Settings], seed: int, name: str) -> list[CaptionedFigure]:
    table = load_table(points[0].data)
    table = replace(table, class_names=plain_names(table.class_names)).split(seed)
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
