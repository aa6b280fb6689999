"""`ggeur reproduce`: run a table of the paper and compare it with the published numbers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Column
from rich.table import Table as Screen

from ggeur.cli.embed import embed
from ggeur.cli.options import CLIP, Data, JsonLines, Overrides, Quiet, Seeds
from ggeur.cli.run import default_folder, run_with_progress
from ggeur.cli.screen import console, mark, say, titled_table
from ggeur.stats.errors import GgeurError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ggeur.experiments.grid import Experiment
    from ggeur.paper.paper_tables import PartEmbeddings, Table
    from ggeur.paper.reproduction import ChosenNumbers, Reproduction
    from ggeur.report.tables import Comparison, Number

_WIDTH = 64  # characters for numbers in a narrow terminal, beside a row's name


def reproduce(
    table: Annotated[
        str | None,
        typer.Argument(help="table1 to table7, table10, table11 or standin7.", show_default=False),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the tables that can run here.")] = False,
    tables: Annotated[
        list[Path] | None,
        typer.Option("--table", help="Embedding table (.npz); repeatable. Default: embed."),
    ] = None,
    data: Data = None,
    rows: Annotated[list[str] | None, typer.Option(help="Rows to run, as in 'FedAvg*'; repeatable.")] = None,
    seeds: Seeds = 3,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds; default: the paper's.", show_default=False)] = None,
    protocol: Annotated[
        str,
        typer.Option(help="paper, released (its scripts), sound (ours) or tuned."),
    ] = "paper",
    only_changed: Annotated[
        bool, typer.Option("--only-changed", help="Protocol tuned: run only rows that tuning changed.")
    ] = False,
    set_: Overrides = None,
    encoder: Annotated[str, typer.Option(help="Encoder to embed the dataset with.")] = CLIP,
    out: Annotated[Path | None, typer.Option("--out", help="Run folder; an unfinished one is resumed.")] = None,
    pixels: Annotated[int | None, typer.Option(min=16, help="Image rows: pixels per side.")] = None,
    network: Annotated[str | None, typer.Option(help="Image rows: simplecnn, resnet10, resnet18, resnet34.")] = None,
    quiet: Quiet = False,
    json_lines: JsonLines = False,
) -> None:
    """Reproduce a table of the paper.

    Prints measured beside published numbers and writes a report.
    """
    if list_ or table is None:
        return _list(data)
    if only_changed and protocol != "tuned":
        raise GgeurError(
            f"--only-changed is for --protocol tuned; {protocol} tunes no hyperparameters.",
            code="option-conflict-protocol",
        )
    from ggeur.data.image_table import is_image_table
    from ggeur.paper.paper_tables import Table, match_tables, names_images, part_embeddings, select_rows
    from ggeur.paper.reproduce import estimated_seconds, prepare_table
    from ggeur.report.entries import entries
    from ggeur.report.ranking import ranking, recommendation
    from ggeur.report.tables import compare
    from ggeur.stats.long_jobs import human_seconds

    paper = Table.load(table)
    chosen = select_rows(paper, rows or [])
    imaged = names_images(rows or []) and protocol != "tuned"  # which does not cover them

    def made(encoder: str) -> dict[str, "PartEmbeddings"]:
        return part_embeddings(paper, data, encoder, lambda dataset, path: embed(dataset, path, encoder, data))

    if tables:
        sources = match_tables(paper, [path for path in tables if not is_image_table(path)])
        pictures = match_tables(paper, [path for path in tables if is_image_table(path)])
    else:
        sources = made(encoder) if any(not row.images for row in chosen) else {}
        side = pixels or next((part.images["pixels"] for part in paper.parts if part.images), 32)
        pictures = made(f"pixels:{side}") if imaged else {}
    folder = out or default_folder(table)
    asked: Any = {"rows": chosen, "seeds": seeds, "rounds": rounds, "changes": set_ or []}
    if protocol == "tuned":
        experiment, reading = _tuned(paper, sources, folder, asked, only_changed)
    else:
        on_images: Any = {"pictures": pictures if imaged else None, "network": network}
        experiment, reading = prepare_table(paper, sources, protocol=protocol, **asked, **on_images)
    if seconds := estimated_seconds(experiment):
        mark("note", f"The rows on images will take about {human_seconds(seconds)} on this machine.")
    for note in reading.notes:
        mark("note", note)
    resume = (folder / "config.toml").exists()
    result = run_with_progress(experiment, folder, resume=resume, go_on=" the same command and --out")
    reading.save(folder)
    measured = compare(result, reading)
    for screen in comparison_screens(measured, f"{table}, protocol {protocol}, seeds: {seeds}"):
        console.print(screen)
    _say_what_is_absent(measured)
    if measured.unit == "percent" and (ranked := ranking(entries(result, experiment, reading), reading)) is not None:
        say(" ".join(recommendation(ranked)))
    from ggeur.report.page import write_report

    page = write_report([folder], folder / "report.html")
    say(f"The report is {page}; results and trained heads are beside it.", soft_wrap=True)


def _tuned(
    table: "Table",
    sources: "Mapping[str, PartEmbeddings]",
    folder: Path,
    asked: "Mapping[str, Any]",
    only_changed: bool,
) -> "tuple[Experiment, Reproduction]":
    """Return the experiment of a `table` with tuned hyperparameters; their search runs first, beside `folder`."""
    from ggeur.paper.tuning import UNCHANGED, choose_hyperparameters, prepare_choice, prepare_tuned

    before = folder.with_name(f"{folder.name}.choosing")
    taken: dict[str, Mapping[str, float]] = {}
    told: list[ChosenNumbers] = []
    if (choosing := prepare_choice(table, sources, asked["rows"], asked["rounds"], asked["changes"])) is not None:
        n = len(choosing.experiment.points)
        say(f"Tuning the hyperparameters of {len(choosing.candidates)} rows: {n} candidates, on a validation split")
        begun = (before / "config.toml").exists()
        found = run_with_progress(
            choosing.experiment, before, resume=begun, go_on=f" the same command and --out {folder}; so far:"
        )
        taken, told = choose_hyperparameters(choosing, found)
    for row in told:
        part = f"{row.part}: " if len(table.parts) > 1 else ""
        gain = f", {row.expected - row.expected_printed:+.1f} on the validation split"
        mark("chosen", f"{part}{row.row}: {row.numbers}{'' if row.numbers == UNCHANGED else gain}")
    return prepare_tuned(table, sources, taken, told, only_changed=only_changed, **asked)


def _list(data: Path | None) -> None:
    """Print which tables can run on this machine, and what is missing for the others."""
    from ggeur.paper.paper_tables import NAMES, STAND_INS, Table, part_states, runnable_rows

    screen = Screen(Column("table", no_wrap=True), "what", "rows", "can it run?")
    missing: dict[str, None] = {}
    words = {True: "yes", False: "yes, by download from the Hugging Face hub"}
    for table in map(Table.load, (*NAMES, *STAND_INS)):
        parts, now = part_states(table, data), runnable_rows(table)
        missing |= dict.fromkeys(f"{p.part}: {p.missing}." for p in parts if p.missing)
        states = [f"{p.part}: {'no, see below' if p.missing else words[p.local]}" for p in parts]
        rows = f"{now}" + (f" (and {len(table.rows) - now} on images)" if now < len(table.rows) else "")
        screen.add_row(table.name, escape(table.title), rows, escape("\n".join(states)))
    console.print(screen)
    any_table = "Any table also runs on embeddings made before, by any encoder: ggeur reproduce TABLE --table FILE.npz."
    for line in (*missing, any_table):
        say(line, soft_wrap=True)


def comparison_screens(table: "Comparison", title: str) -> list[Screen]:
    """Return a `table` in parts as wide as a terminal, each under the `title`: measured above published.

    Mean and deviation over seeds come first, then the paper's figure and the difference from it.
    """
    n = len(table.columns)
    widest = max(7, *(len(word) for heading in table.headings or table.columns for word in heading.split()))
    parts = -(-n // max(1, _WIDTH // (widest + 3)))
    each = -(-n // parts)  # columns per part, evenly
    return [_screen(table, range(first, min(first + each, n)), title) for first in range(0, n, each)]


def _screen(table: "Comparison", columns: range, title: str) -> Screen:
    caption = f"In {table.unit}: mean, ± deviation over seeds"
    caption += "; below, the paper's figure and our difference from it." if table.published else "."
    screen = titled_table(title, Column("", max_width=30, overflow="fold"), caption=caption, box=SIMPLE_HEAD)
    for i in columns:
        screen.add_column(escape((table.headings or table.columns)[i]), justify="right", min_width=7, overflow="fold")
    for line in table.lines:
        texts = [_text(line.numbers[i], table.leads(line, i)) for i in columns]
        screen.add_row(escape(line.name), *texts)
    return screen


def _text(number: "Number", best: bool) -> str:
    if number.mean is None:
        lines = ["-"]
    else:
        lines = [f"[bold]{number.mean:.2f}[/]" if best else f"{number.mean:.2f}"]
        lines += [f"± {number.spread:.2f}"] if number.spread is not None else []
    lines += [f"[dim]{number.published:.2f}[/]"] if number.published is not None else []
    lines += [f"[dim]{number.difference:+.2f}[/]"] if number.difference is not None else []
    return "\n".join(lines)


def _say_what_is_absent(table: "Comparison") -> None:
    reasons: dict[str, list[str]] = {}
    for line in table.lines:
        if line.why:
            reasons.setdefault(line.why, []).append(line.name)
    for why, names in reasons.items():
        mark("not run", f"{'; '.join(names)}: {why}.")
    unpublished = [line.name for line in table.lines if not line.why and not line.published]
    if unpublished:
        said = "; ".join(unpublished) if table.published else "none of these rows has a figure in the paper"
        mark("not published", f"{said}.")
