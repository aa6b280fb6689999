"""`ggeur inspect`: what a table holds, in numbers and figures."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.markup import escape
from rich.table import Table

from ggeur.cli.screen import console, notes
from ggeur.core.errors import GgeurError
from ggeur.data.table import EmbeddingTable
from ggeur.experiment.dealing import partition_rows
from ggeur.report import inspection
from ggeur.settings.schema import Settings, settings


def inspect(
    path: Path, out: Path | None, kind: str | None, clients: int, betas: Sequence[float], client: int | None,
    class_names: Sequence[str], seed: int,
) -> None:  # fmt: skip
    table = EmbeddingTable.load(path)
    if not len(table):
        raise GgeurError(f"{path} holds no rows, so there is nothing to inspect.")
    if kind is None:
        kind = "dirichlet" if table.n_domains == 1 else "label-and-domain"
    points = [_point(kind, clients, beta, seed) for beta in (betas if kind != "domain" else betas[:1])]
    _say_what_it_is(table, path)
    console.print(_counts(table))
    shapes = inspection.spectra(table)
    console.print(_shapes(*shapes))
    pairs = inspection.similarities(table)
    if pairs:
        console.print(_similarity(pairs, inspection.similarities(table, centred=False)))
    if out is not None:
        with notes():
            _draw(table, shapes, pairs, points, out, client, class_names, seed)


def _point(kind: str, clients: int, beta: float, seed: int) -> Settings:
    partition = {"kind": kind} | ({} if kind == "domain" else {"beta": beta})
    partition |= {"clients": clients} if kind == "dirichlet" else {}
    return settings({"data": {"table": "-"}, "partition": partition, "run": {"seeds": [seed]}})


def _say_what_it_is(table: EmbeddingTable, path: Path) -> None:
    test = "split 70/30 by the seed" if table.test is None else f"{int(table.test.sum()):,} of them for testing"
    console.print(
        f"{path}: {len(table):,} rows ({test}), {table.dimension} dimensions, {table.n_classes} classes, "
        f"domains: {', '.join(table.domain_names)}; text embeddings: {'no' if table.text is None else 'yes'}",
        markup=False,
        highlight=False,
    )
    for key, value in table.meta.items():
        console.print(f"  {key}: {value}", markup=False, highlight=False, soft_wrap=True)


def _counts(table: EmbeddingTable) -> Table:
    """Rows of each class in each domain, and below them the domains' sums and the lengths of their embeddings."""
    count, norm = inspection.counts(table), np.linalg.norm(table.x.astype(np.float32), axis=1)
    shown = Table(title="rows of each class", title_justify="left")
    shown.add_column("class")
    for name in table.domain_names:
        shown.add_column(escape(name), justify="right")
    for c, name in enumerate(table.class_names):
        shown.add_row(escape(name), *(f"{n:,}" for n in count[:, c]))
    shown.add_section()
    own = [norm[table.domains == d] for d in range(table.n_domains)]
    shown.add_row("all", *(f"{n:,}" for n in count.sum(axis=1)))
    shown.add_row("norm", *(f"{n.mean():.3g} ± {n.std():.2g}" if len(n) else "-" for n in own))
    return shown


def _shapes(values: NDArray[np.float64], names: Sequence[str]) -> Table:
    total = values.sum(axis=1)
    carried = np.cumsum(values, axis=1) / np.maximum(total, 1e-300)[:, None]
    shown = Table(title="spectrum of each class", title_justify="left")
    for column in ("class", "variance", "largest", "second", "third", "directions with 90 %"):
        shown.add_column(column, justify="left" if column == "class" else "right")
    for c, name in enumerate(names):
        leading = [*values[c, :3], np.nan, np.nan][:3]
        enough = int((carried[c] < 0.9).sum()) + 1
        shown.add_row(escape(name), f"{total[c]:.3g}", *(f"{v:.3g}" for v in leading), str(enough))
    return shown


def _similarity(pairs: Sequence[inspection.Similarity], uncentred: Sequence[inspection.Similarity]) -> Table:
    shown = Table(title="geometric similarity across domains (Eq. 3, top 5)", title_justify="left",
                  caption="In brackets: uncentred moments, Eq. 1 as printed.", caption_justify="left")  # fmt: skip
    for column in ("domains", "same class", "other classes", "excess"):
        shown.add_column(column, justify="left" if column == "domains" else "right", no_wrap=True)
    for pair, raw in zip(pairs, uncentred, strict=True):
        shown.add_row(
            escape(" - ".join(pair.domains)),
            f"{pair.same:.3f} ({raw.same:.3f})",
            f"{pair.other:.3f} ({raw.other:.3f})",
            f"{pair.same - pair.other:+.3f} ({raw.same - raw.other:+.3f})",
        )
    return shown


def _draw(
    table: EmbeddingTable, shapes: tuple[NDArray[np.float64], list[str]], pairs: Sequence[inspection.Similarity],
    points: Sequence[Settings], out: Path, client: int | None, class_names: Sequence[str], seed: int,
) -> None:  # fmt: skip
    from ggeur.report import figures

    split = table.split(seed)
    parts = {_title(point): partition_rows(split, point, seed) for point in points}
    first = next(iter(parts.values()))
    drawn = {
        "label-distribution": figures.label_distribution(
            {title: inspection.client_counts(split, rows) for title, rows in parts.items()},
            table.class_names,
            inspection.client_names(split, first),
        ),
        "client-view": figures.client_view(
            inspection.client_view(split, first, client, points[0].augment, class_names, seed)
        ),
        "spectra": figures.spectra(*shapes),
    }
    if pairs:
        drawn["similarity"] = figures.similarity(pairs)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GgeurError(f"Cannot make the folder {out}: {error.strerror or error}.") from error
    for name, figure in drawn.items():
        figures.save(figure, out / name)
    console.print(f"{', '.join(drawn)} are in {out}, as PNG and SVG", markup=False, highlight=False)


def _title(point: Settings) -> str:
    return "one domain each" if point.partition.kind == "domain" else f"β = {point.partition.beta:g}"
