"""The figures of a run's data: who holds what, similarity across domains, one client's view, spectra."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from ggeur.core.errors import GgeurError
from ggeur.data.datasets import MINI_DIGITS
from ggeur.experiment.config import Settings
from ggeur.experiment.federation import partition_rows
from ggeur.experiment.source import load_table
from ggeur.report import figures, inspection
from ggeur.report.charts import plain_text
from ggeur.report.entries import Entry

_CLASSES = 30  # of which spectra are drawn
_BETAS = 6


class Drawn(NamedTuple):
    """A figure with its words; `on_page` if its ink may follow the page."""

    key: str
    title: str
    caption: str
    figure: Figure
    on_page: bool = False


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
    by_partition = {point.partition: point for point in points}
    parts = {_title(point): partition_rows(table, point, seed) for point in list(by_partition.values())[:_BETAS]}
    first = next(iter(parts.values()))
    clients = [plain_text(client) for client in inspection.client_names(table, first)]
    few = {title: inspection.client_counts(table, rows)[:40] for title, rows in parts.items()}
    found = [
        Drawn(
            "labels",
            f"Who holds what: {name}",
            "Training rows of each class at each client (Figures 7 and 9), seed "
            f"{seed}. White means none." + (" The first 40 clients." if len(clients) > 40 else ""),
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
    full = next((p for p in points if p.augment.kind == "ggeur"), points[0])
    augment = full.augment.model_copy(update={"kind": "ggeur"})
    rows = partition_rows(table, full, seed)
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


def _title(point: Settings) -> str:
    p = point.partition
    if p.kind == "domain":
        return "one domain each"
    return f"β = {p.beta:g}" + (f", {p.clients} clients" if p.kind == "dirichlet" and p.clients != 10 else "")
