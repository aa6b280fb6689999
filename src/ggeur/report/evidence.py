"""The figures of a run with their words: how training went, who holds what, similarity, one client's view, spectra."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from ggeur.core.errors import GgeurError
from ggeur.data.datasets import MINI_DIGITS
from ggeur.experiment.dealing import partition_rows
from ggeur.experiment.source import load_table
from ggeur.paper.reproduction import Reproduction
from ggeur.report import charts, figures, inspection
from ggeur.report.charts import plain_text
from ggeur.report.entries import Entry, pairs
from ggeur.report.words import published_gain
from ggeur.settings.schema import Settings

_CLASSES = 30  # of which spectra are drawn
_SHORT = {
    "gains": "Gains",
    "controls": "Is it the geometry?",
    "convergence": "Convergence",
    "labels": "Labels",
    "similarity": "Similarity",
    "view": "One client",
    "spectra": "Spectra",
}


class Drawn(NamedTuple):
    """A figure with its words; `on_page` if its ink may follow the page."""

    key: str
    title: str
    caption: str
    figure: Figure
    on_page: bool = False

    @property
    def short(self) -> str:
        """Its name in the page's list of contents."""
        return _SHORT[self.key]


def evidence_of_training(entries: Sequence[Entry], reading: Reproduction | None) -> list[Drawn]:
    """What GGEUR adds, what of that the controls have as well, and how training went."""
    found = pairs(entries)
    printed = [None if reading is None else published_gain(pair, reading) for pair in found]
    intervals = ", paired by seed, with 95 % intervals" if any(pair.difference for pair in found) else ", one seed"
    diamonds = " Diamonds are the paper's." if any(gain is not None for gain in printed) else ""
    drawn = (
        (
            "gains",
            "What GGEUR adds",
            f"GGEUR minus the same method without it{intervals}.{diamonds}",
            charts.gains(found, printed),
        ),
        (
            "controls",
            "Is it the geometry?",
            "One method plain, with other weights, with classes resampled, with prototypes, and with GGEUR. Only what "
            "GGEUR has beyond the controls is due to the geometry. Bars are 95 % intervals, ticks are seeds.",
            charts.controls(entries),
        ),
        (
            "convergence",
            "Convergence",
            "Accuracy on test rows after each round, mean over domains (Figure 8). Bands are one standard deviation "
            "over seeds; where many curves cross, only GGEUR and the plain method have theirs.",
            charts.convergence(entries),
        ),
    )
    return [Drawn(key, title, text, figure, True) for key, title, text, figure in drawn if figure is not None]


def evidence(entries: Sequence[Entry], seed: int) -> tuple[list[Drawn], list[str]]:
    """The figures of every table of embeddings that the run used, and what could not be drawn."""
    drawn: list[Drawn] = []
    missing: list[str] = []
    for data in dict.fromkeys(entry.point.data for entry in entries):
        points = [entry.point for entry in entries if entry.point.data == data]
        if data.table is None and data.dataset != MINI_DIGITS:
            missing.append(f"Figures of the data are left out: {data.dataset} would have to be embedded again.")
        elif data.table is not None and not Path(data.table).is_file():
            missing.append(f"Figures of the data are left out: {data.table} is no longer there.")
        else:
            try:
                drawn += _of_table(points, seed, Path(data.table).stem if data.table else str(data.dataset))
            except GgeurError as error:
                missing.append(f"Some figures of the data are left out. {error}")
    return drawn, missing


def _of_table(points: Sequence[Settings], seed: int, name: str) -> list[Drawn]:
    table = load_table(points[0].data)
    table = replace(table, class_names=tuple(map(plain_text, table.class_names))).split(seed)
    parts = {_title(point): partition_rows(table, point.partition, seed) for point in _partitions(points)}
    first = next(iter(parts.values()))
    clients = [plain_text(client) for client in inspection.client_names(table, first)]
    few = {title: inspection.client_counts(table, rows)[:40] for title, rows in parts.items()}
    found = [
        Drawn(
            "labels",
            f"Who holds what: {name}",
            "Training rows of each class at each client (Figures 7 and 9), seed "
            f"{seed}. White means none." + (" The first 40 clients." if len(clients) > 40 else "") + _further(points),
            figures.label_distribution(few, table.class_names, clients[:40]),
        )
    ]
    pairs = inspection.similarities(table)
    if pairs:
        shown = [p._replace(domains=(plain_text(p.domains[0]), plain_text(p.domains[1]))) for p in pairs]
        same, other = (float(np.mean([getattr(p, kind) for p in pairs])) for kind in ("same", "other"))
        found.append(
            Drawn(
                "similarity",
                f"Do classes keep their shape across domains? {name}",
                "Geometric similarity (Eq. 3, five eigenvectors) of each class of one domain to each of another "
                f"(Figure 6). A class and itself: {same:.2f} on average; different classes: {other:.2f}.",
                figures.similarity(shown),
            )
        )
    full = max(points, key=lambda p: (p.augment.build().noise is not None, p.augment.steps or 1))
    augment = full.augment.model_copy(update={"kind": "ggeur"}).build()
    rows = partition_rows(table, full.partition, seed)
    view = inspection.client_view(table, rows, None, augment, [], seed)
    found.append(
        Drawn(
            "view",
            f"What GGEUR makes of one client: {name}",
            "Embeddings in the plane of the first two principal components (Figures 1, 3 and 5): a client's own rows, "
            "the same after GGEUR, and what all clients hold together.",
            figures.client_view(view._replace(client=plain_text(view.client))),
        )
    )
    values, names = inspection.spectra(table)
    chosen = np.unique(np.linspace(0, len(names) - 1, min(len(names), _CLASSES)).astype(int))
    found.append(
        Drawn(
            "spectra",
            f"Spectra of the classes: {name}",
            "Eigenvalues of each class's covariance: how many directions its shape has, and in which units.",
            figures.spectra(values[chosen], [names[i] for i in chosen]),
        )
    )
    return found


def _partitions(points: Sequence[Settings]) -> list[Settings]:
    """Every partition of the run, up to six; of label and domain skew also the others that Figure 9 shows."""
    own = list({point.partition: point for point in points}.values())[: len(inspection.BETAS)]
    if _further(points):
        partition = own[0].partition
        others = [partition.model_copy(update={"beta": beta}) for beta in inspection.BETAS if beta != partition.beta]
        own += [own[0].model_copy(update={"partition": other}) for other in others]
    return own


def _further(points: Sequence[Settings]) -> str:
    """What to say of partitions that are drawn though the run has only one."""
    partitions = {point.partition for point in points}
    if len(partitions) > 1 or points[0].partition.kind != "label-and-domain":
        return ""
    return f" The run has β = {points[0].partition.beta:g}; the others are for comparison."


def _title(point: Settings) -> str:
    p = point.partition
    if p.kind == "domain":
        return "one domain each"
    return f"β = {p.beta:g}" + (f", {p.clients} clients" if p.kind == "dirichlet" and p.clients != 10 else "")
