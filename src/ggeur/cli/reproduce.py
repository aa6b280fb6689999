"""`ggeur reproduce`: a table of the paper, measured beside what was printed."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table as Screen

from ggeur.cli.lists import EXTRAS
from ggeur.cli.screen import console
from ggeur.core.errors import GgeurError
from ggeur.data.caches import cache_folder
from ggeur.data.datasets import find, root
from ggeur.data.datasets_paper import DATASETS
from ggeur.data.table import EmbeddingTable
from ggeur.encode.encoder import DEFAULT
from ggeur.paper.paper_tables import NAMES, Part, Source, Table, chosen_rows, match
from ggeur.paper.reproduce import prepare
from ggeur.report.tables import Comparison, Number, compare
from ggeur.settings.schema import NOT_YET

_WIDTH = 64  # letters for figures in a narrow terminal, beside which a row's name still fits


def reproduce(
    name: str,
    *,
    data: Path | None,
    tables: Sequence[Path],
    rows: Sequence[str],
    seeds: int,
    rounds: int | None,
    protocol: str,
    encoder: str,
    out: Path | None,
) -> None:
    """Run the rows of a table that can run, print them beside the paper's, and write the report."""
    from ggeur.cli.run import default_folder, followed
    from ggeur.runs.interrupt import stop_on_signals

    table = Table.load(name)
    chosen = chosen_rows(table, rows)
    sources = match(table, tables) if tables else _embedded(table, data, encoder)
    experiment, reading = prepare(table, sources, rows=chosen, seeds=seeds, rounds=rounds, protocol=protocol)
    folder = out or default_folder(name)
    resume = (folder / "config.toml").exists()
    for note in reading.notes:
        console.print(f"[yellow]note:[/] {escape(note)}", highlight=False)
    stop_on_signals()
    result = followed(experiment, folder, resume=resume, go_on=" the same command and --out")
    reading.save(folder)
    measured = compare(result, reading)
    for screen in beside(measured, f"{name}, protocol {protocol}, seeds: {seeds}"):
        console.print(screen)
    _say_what_is_absent(measured)
    from ggeur.report.page import write_report

    page = write_report([folder], folder / "report.html")
    console.print(
        f"The report is {page}; results and trained heads are beside it.", markup=False, highlight=False, soft_wrap=True
    )


def _embedded(table: Table, data: Path | None, encoder: str) -> dict[str, Source]:
    """Each part's embeddings, made now from its pictures where those are at hand."""
    from ggeur.cli.embed import embed

    sources = {}
    for part in table.parts:
        missing = _missing(part, data, encoder)
        if missing:
            sources[part.name] = Source(None, None, missing)
            continue
        path = cache_folder() / "tables" / f"{part.dataset}.{encoder.replace('/', '-').replace(':', '-')}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        embed(part.dataset, encoder, path, data=data, share=None, batch=64, skip_unreadable=False, prompts=[],
              normalize=False)  # fmt: skip
        sources[part.name] = Source(path, EmbeddingTable.load(path))
    if all(source.table is None for source in sources.values()):
        why = " ".join(f"{part}: {source.why}." for part, source in sources.items())
        raise GgeurError(f"{table.name} cannot run here. {why} Or give embeddings with --table FILE.npz.")
    return sources


def _missing(part: Part, data: Path | None, encoder: str = DEFAULT) -> str:
    """What this machine lacks to embed a part; nothing if it can be done."""
    below, wants = root(data), []
    dataset = DATASETS[part.dataset]
    for source in dataset.sources:
        if find(source, below) is None and not (source.hub and find_spec("datasets")):
            domain = f" ({source.domains[0]})" if len(dataset.sources) > 1 else ""
            wants.append(f"{dataset.name}{domain} was not found; get {source.get}")
    extra = "onnx" if encoder.startswith("onnx:") else "hf"
    if encoder != "builtin" and not all(find_spec(module) for module in EXTRAS[extra]):
        wants.append(f"{'CLIP' if encoder == DEFAULT else encoder} needs pip install 'ggeur[{extra}]'")
    return "; ".join(wants)


def list_tables(data: Path | None) -> None:
    """Which tables can run with what is on this machine, and what is missing for the others."""
    screen = Screen("table", "what", "rows", "can it run?")
    screen.columns[0].no_wrap = True
    missing: dict[str, None] = {}
    for name in NAMES:
        table = Table.load(name)
        later = sum(row.needs is not None or row.method in NOT_YET["train", "method"] for row in table.rows)
        states = []
        for part in table.parts:
            lacking = _missing(part, data)
            missing |= dict.fromkeys([f"{part.name}: {lacking}."] if lacking else [])
            states.append(f"{part.name}: {'no, see below' if lacking else _where(part, data)}")
        rows = f"{len(table.rows) - later}" + (f" (and {later} not yet)" if later else "")
        screen.add_row(name, escape(table.title), rows, escape("\n".join(states)))
    console.print(screen)
    any_table = "Any table also runs on embeddings made before, by any encoder: ggeur reproduce TABLE --table FILE.npz."
    for line in (*missing, any_table):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _where(part: Part, data: Path | None) -> str:
    local = all(find(source, root(data)) for source in DATASETS[part.dataset].sources)
    return "yes" if local else "yes, by download from the Hugging Face hub"


def beside(table: Comparison, title: str) -> list[Screen]:
    """Measured above printed: mean and deviation over seeds, then the paper's figure and the difference from it."""
    n = len(table.columns)
    widest = max(7, *(len(word) for heading in table.headings or table.columns for word in heading.split()))
    parts = -(-n // max(1, _WIDTH // (widest + 3)))
    each = -(-n // parts)  # columns, dealt out evenly
    return [_screen(table, range(first, min(first + each, n)), title) for first in range(0, n, each)]


def _screen(table: Comparison, columns: range, title: str) -> Screen:
    screen = Screen(
        box=SIMPLE_HEAD,
        title=title,
        title_justify="left",
        caption=f"In {table.unit}: mean, ± deviation over seeds; below, the paper's figure and our difference from it.",
        caption_justify="left",
    )
    screen.add_column("", max_width=30, overflow="fold")
    for i in columns:
        screen.add_column(escape((table.headings or table.columns)[i]), justify="right", min_width=7, overflow="fold")
    for line in table.lines:
        cells = [_cell(line.numbers[i], line.numbers[i].mean == table.best(i)) for i in columns]
        screen.add_row(escape(line.name), *cells)
    return screen


def _cell(number: Number, best: bool) -> str:
    if number.mean is None:
        lines = ["-"]
    else:
        lines = [f"[bold]{number.mean:.2f}[/]" if best else f"{number.mean:.2f}"]
        lines += [f"± {number.spread:.2f}"] if number.spread is not None else []
    lines += [f"[dim]{number.published:.2f}[/]"] if number.published is not None else []
    lines += [f"[dim]{number.difference:+.2f}[/]"] if number.difference is not None else []
    return "\n".join(lines)


def _say_what_is_absent(table: Comparison) -> None:
    reasons: dict[str, list[str]] = {}
    for line in table.lines:
        if line.why:
            reasons.setdefault(line.why, []).append(line.name)
    for why, names in reasons.items():
        console.print(f"[yellow]not run:[/] {escape('; '.join(names))}: {escape(why)}.", highlight=False)
    unpublished = [line.name for line in table.lines if not line.why and not line.published]
    if unpublished:
        console.print(f"[yellow]not published:[/] {escape('; '.join(unpublished))}.", highlight=False)
