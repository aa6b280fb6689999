"""`ggeur inspect`: describe an embedding table in numbers and figures, or a file of statistics in numbers."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Column, Table

from ggeur.cli.screen import console, notes, say, titled_table
from ggeur.stats.errors import GgeurError

if TYPE_CHECKING:
    from ggeur.data.table import EmbeddingTable
    from ggeur.report.inspection import Similarity
    from ggeur.stats.types import Float


def inspect(
    table: Annotated[Path, typer.Argument(help="Embedding table (.npz) or file of statistics.")],
    out: Annotated[Path | None, typer.Option("--out", help="Folder for the figures; default: numbers only.")] = None,
    partition: Annotated[
        str | None,
        typer.Option(help="Partition: dirichlet, domain or label-and-domain.", show_default="by the domains"),
    ] = None,
    clients: Annotated[int, typer.Option(min=1, help="Clients of a dirichlet partition.")] = 10,
    beta: Annotated[list[float] | None, typer.Option(help="Label skew; repeatable. Default: as in Figure 9.")] = None,
    client: Annotated[
        int | None, typer.Option(min=0, help="Client to show (first beta); default: the largest.")
    ] = None,
    class_: Annotated[list[str] | None, typer.Option("--class", help="Class to show; repeatable.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of split, partition and draws.")] = 0,
) -> None:
    """Show the counts, spectra and figures of a table.

    Also norms, similarity across domains, and, with --out, the paper's figures.
    """
    from ggeur.data.table import EmbeddingTable
    from ggeur.federation.statistics_file import is_statistics_file
    from ggeur.report import inspection
    from ggeur.report.inspection import draw, partitions

    if is_statistics_file(table):
        _show_statistics(table)
        return
    if table.is_dir():
        raise GgeurError(
            f"{table} is a folder, and inspect shows a table (.npz); `ggeur report` is for models and runs.",
            code="table-is-folder",
        )
    held = EmbeddingTable.load(table)
    if not len(held):
        raise GgeurError(f"{table} holds no samples, so there is nothing to inspect.", code="table-empty")
    inspection.check_classes(held, class_ or [])
    points = partitions(held, partition, clients, beta, seed)  # reject wrong values before anything is shown
    _say_what_it_is(held, table)
    console.print(_counts(held))
    values, names = inspection.spectra(held)
    console.print(_shapes(values, names))
    pairs = inspection.similarities(held)
    if pairs:
        console.print(_similarity(pairs, inspection.similarities(held, centred=False)))
    if out is not None:
        with notes():
            drawn = draw(held, (values, names), pairs, points, out, client, class_ or [], seed)
            say(f"{', '.join(drawn)} are in {out}, as PNG and SVG")


def _show_statistics(path: Path) -> None:
    from ggeur.federation.statistics_file import read_statistics_file
    from ggeur.stats.long_jobs import human_bytes

    file = read_statistics_file(path)
    meta, p = file.meta, file.meta.encoder.dimension
    say(
        f"{path}: {file.samples:,} samples of the site '{meta.site}', file number {meta.sequence}; "
        f"{human_bytes(path.stat().st_size)}, and the samples in float64 {human_bytes(8 * p * file.samples)}",
        soft_wrap=True,
    )
    for key, value in meta.plan.to_tree().items():
        if key not in ("classes", "format", "encoder"):
            say(f"  {key}: {value}", soft_wrap=True)
    say(f"  encoder: {meta.encoder.encoder or 'unknown'}, {p} dimensions", soft_wrap=True)
    for key, value in (("weights", meta.encoder.weights), ("preprocessing", meta.encoder.preprocessing)):
        if value:
            say(f"  {key}: {value}", soft_wrap=True)
    domains = [Column(escape(name), justify="right") for name in meta.domains]
    shown, exact = titled_table("samples of each class", "class", *domains), False
    for c, name in enumerate(meta.classes):
        counts = [int(one.count[c]) for one in file.packed.values()]
        marked = [f"{n:,}{'*' if meta.plan.covariance == 'per-class' and 0 < n <= p else ''}" for n in counts]
        exact |= any(text.endswith("*") for text in marked)
        shown.add_row(escape(name), *marked)
    console.print(shown)
    if exact:  # below the table and not its caption, which is as narrow as the table
        say(f"*: no more than {p} samples, whose factor travels: it is these samples up to a rotation.")


def _say_what_it_is(table: "EmbeddingTable", path: Path) -> None:
    test = "split 70/30 by the seed" if table.test is None else f"{int(table.test.sum()):,} of them for testing"
    say(
        f"{path}: {len(table):,} samples ({test}), {table.dimension} dimensions, {table.n_classes} classes, "
        f"domains: {', '.join(table.domain_names)}; text embeddings: {', '.join(table.text) or 'no'}"
    )
    for key, value in table.meta.items():
        say(f"  {key}: {value}", soft_wrap=True)


def _counts(table: "EmbeddingTable") -> Table:
    """Return a table of samples per class and domain, with the domains' totals and embedding norms below."""
    from ggeur.report import inspection

    count = inspection.counts(table)
    domains = [Column(escape(name), justify="right") for name in table.domain_names]
    shown = titled_table("samples of each class", "class", *domains)
    for c, name in enumerate(table.class_names):
        shown.add_row(escape(name), *(f"{n:,}" for n in count[:, c]))
    shown.add_section()
    shown.add_row("all", *(f"{n:,}" for n in count.sum(axis=1)))
    shown.add_row("norm", *("-" if n is None else f"{n[0]:.3g} ± {n[1]:.2g}" for n in inspection.norms(table)))
    return shown


def _shapes(values: "Float", names: Sequence[str]) -> Table:
    from ggeur.report import inspection

    headings = ("variance", "largest", "second", "third", "directions with 90 %")
    shown = titled_table("spectrum of each class", "class", *(Column(h, justify="right") for h in headings))
    for name, spectrum, enough in zip(names, values, inspection.directions(values, 0.9), strict=True):
        leading = [*spectrum[:3], float("nan"), float("nan")][:3]
        shown.add_row(escape(name), f"{spectrum.sum():.3g}", *(f"{v:.3g}" for v in leading), str(enough))
    return shown


def _similarity(pairs: Sequence["Similarity"], uncentred: Sequence["Similarity"]) -> Table:
    shown = titled_table(
        "geometric similarity across domains (Eq. 3, top 5)",
        Column("domains", no_wrap=True),
        *(Column(h, justify="right", no_wrap=True) for h in ("same class", "other classes", "excess")),
        caption="In brackets: uncentred moments, Eq. 1 as printed.",
    )
    for pair, raw in zip(pairs, uncentred, strict=True):
        shown.add_row(
            escape(" - ".join(pair.domains)),
            f"{pair.same:.3f} ({raw.same:.3f})",
            f"{pair.other:.3f} ({raw.other:.3f})",
            f"{pair.same - pair.other:+.3f} ({raw.same - raw.other:+.3f})",
        )
    return shown
