"""The terminal: one console, our warnings as notes on it, the bar of a run and its table."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from ggeur.core.errors import GgeurWarning

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

    from ggeur.experiment.tracker import OnRound
    from ggeur.runs.result import Result, Row
    from ggeur.settings.grid import Experiment

console = Console(emoji=False)  # ":b:" in a name is no picture


def say(text: str, *, soft_wrap: bool = False) -> None:
    """Print a sentence as it is; with `soft_wrap` a path in it can be copied whole."""
    console.print(text, markup=False, highlight=False, soft_wrap=soft_wrap)


def mark(word: str, text: str, *, soft_wrap: bool = False) -> None:
    """Print a sentence after a coloured word: note, skipped, not run."""
    console.print(f"[yellow]{word}:[/] {escape(text)}", highlight=False, soft_wrap=soft_wrap)


@contextmanager
def notes() -> Iterator[None]:
    """Within the block each of our warnings is printed once, as a note; those of libraries are not."""
    shown: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *rest: Any) -> None:
        if issubclass(category, GgeurWarning) and str(message) not in shown:
            shown.add(str(message))
            mark("note", str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", GgeurWarning)
        warnings.showwarning = show  # type: ignore[assignment]
        yield


def titled_table(title: str, *columns: Column | str, caption: str | None = None, **options: Any) -> Table:
    """A table with these `columns` under its `title` and over its `caption`; `options` are rich's."""
    return Table(*columns, title=title, title_justify="left", caption=caption, caption_justify="left", **options)


def progress_bar(*columns: "ProgressColumn") -> "Progress":
    """A bar with what is going on and how far it is, then `columns` of its own, then the time left."""
    from rich import progress as bars

    first = (bars.TextColumn("{task.description}", markup=False), bars.BarColumn(), bars.MofNCompleteColumn())
    last = (bars.TextColumn("left"), bars.TimeRemainingColumn())
    return bars.Progress(*first, *columns, *last, console=console)


@contextmanager
def progress(experiment: "Experiment", folder: Path) -> Iterator["OnRound"]:
    """A bar over all rounds of all cells, with the time left and the newest accuracy; our warnings appear above it.

    Cells that the run folder has finished before count as done.
    """
    from rich import progress as bars

    from ggeur.methods import kind_of
    from ggeur.methods.algorithm import Given, Solved
    from ggeur.report.tables import label
    from ggeur.runs.checkpoint import finished_numbers

    once = [kind_of(p.train.method) in (Solved, Given) for p in experiment.points]
    each = [1 if solved else p.train.rounds for p, solved in zip(experiment.points, once, strict=True)]
    rounds = [number for number in each for _ in experiment.seeds]
    done = {cell: rounds[cell] for cell in finished_numbers(folder / "checkpoint") if cell < len(rounds)}
    names = [label(v) or p.train.method for p, v in zip(experiment.points, experiment.varied, strict=True)]
    with progress_bar(bars.TextColumn("rounds"), bars.TimeElapsedColumn()) as bar, notes():
        task = bar.add_task("preparing", total=sum(rounds), completed=sum(done.values()))

        def on_round(event: dict[str, Any]) -> None:
            done[event["cell"]] = max(event["round"], 1)
            point, seed = divmod(event["cell"], len(experiment.seeds))
            words = f"{names[point]}, seed {experiment.seeds[seed]}: {event['avg']:5.1f} %"
            bar.update(task, completed=sum(done.values()), description=words)

        yield on_round
        bar.update(task, completed=sum(rounds), description="done")


def show_result(result: "Result", title: str) -> None:
    """The table of a run, and why cells did not finish, each reason once."""
    console.print()
    console.print(result_table(result, title))
    for message in dict.fromkeys(c.message for c in result.cells if c.message):
        mark("note", message)


def result_table(result: "Result", title: str) -> Table:
    """Accuracy by domain, AVG with its spread over seeds, and STD over domains, the best AVG in bold."""
    from ggeur.report.tables import row_name

    rows = result.rows()
    domains = next((list(row.domains) for row in rows if row.domains), [])
    seeds = len(rows[0].cells) if rows else 0
    caption = " ".join(filter(None, [_caption(seeds, len(domains)), result.caveat]))
    table = titled_table(title, "", caption=caption)
    names = [row_name(row) for row in rows]
    tight = (
        max(map(len, names), default=0) + sum(max(len(name), 6) + 3 for name in domains) + 32 > console.width
    )  # 32: what is around and after
    for name in domains if len(domains) > 1 else []:
        short = f"{name[:6]}…" if tight and len(name) > 7 else name  # room for what the rows are called
        table.add_column(escape(short), justify="right", min_width=6)
    table.add_column("AVG" if len(domains) > 1 else "accuracy", justify="right", no_wrap=True)
    if len(domains) > 1:
        table.add_column("STD", justify="right", no_wrap=True)
    best = max((row.avg for row in rows if row.avg is not None), default=None)
    for row, name in zip(rows, names, strict=True):
        table.add_row(*_cells(row, escape(name), domains, best))
    return table


def _cells(row: "Row", name: str, domains: Sequence[str], best: float | None) -> list[str]:
    failed = [c for c in row.cells if c.status != "ok"]
    if failed:
        name += f" [red]({len(failed)} of {len(row.cells)} {failed[0].status})[/]"
    if row.avg is None:
        return [name] + ["-"] * (len(domains) + 2 if len(domains) > 1 else 1)
    avg = f"{row.avg:.2f}" + (f" ± {row.spread:.2f}" if row.spread is not None else "")
    avg = f"[bold]{avg}[/]" if row.avg == best else avg
    if len(domains) < 2:
        return [name, avg]
    return [name, *(f"{row.domains[d]:.2f}" for d in domains), avg, f"{row.std:.2f}"]


def _caption(seeds: int, domains: int) -> str:
    parts = ["Percent right on test rows, mean of the last five rounds"]
    if seeds > 1:
        parts.append(f"± over {seeds} seeds")
    if domains > 1:
        parts.append("STD over domains")
    return "; ".join(parts) + "."
