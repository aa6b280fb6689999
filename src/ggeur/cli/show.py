"""What a run looks like in the terminal: progress while it lasts, one table at the end."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from ggeur.core.errors import GgeurWarning
from ggeur.experiment.built import solved
from ggeur.experiment.tracker import OnRound
from ggeur.report.tables import label, row_name
from ggeur.runs.checkpoint import Checkpoints
from ggeur.runs.result import Result, Row
from ggeur.settings.grid import Experiment

console = Console()


@contextmanager
def progress(experiment: Experiment, folder: Path) -> Iterator[OnRound]:
    """A bar over all rounds of all cells, with the time left and the newest accuracy; our warnings appear above it.

    Cells that the run folder has finished before count as done.
    """
    rounds = [1 if solved(p) else p.train.rounds for p in experiment.points for _ in experiment.seeds]
    done = {cell: rounds[cell] for cell in Checkpoints(folder / "checkpoint").finished_numbers() if cell < len(rounds)}
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rounds"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
    )
    with bar, warnings.catch_warnings():
        task = bar.add_task("preparing", total=sum(rounds), completed=sum(done.values()))
        shown: set[str] = set()

        def show(message: Warning | str, category: type[Warning], *rest: Any) -> None:
            if issubclass(category, GgeurWarning) and str(message) not in shown:
                shown.add(str(message))
                bar.console.print(f"[yellow]note:[/] {escape(str(message))}", highlight=False)

        warnings.simplefilter("always", GgeurWarning)
        warnings.showwarning = show  # type: ignore[assignment]

        def on_round(event: dict[str, Any]) -> None:
            done[event["cell"]] = max(event["round"], 1)
            point, seed = divmod(event["cell"], len(experiment.seeds))
            name = label(experiment.varied[point]) or experiment.points[point].train.method
            bar.update(
                task,
                completed=sum(done.values()),
                description=f"{escape(name)}, seed {experiment.seeds[seed]}: {event['avg']:5.1f} %",
            )

        yield on_round
        bar.update(task, completed=sum(rounds), description="done")


def result_table(result: Result, title: str) -> Table:
    """Accuracy by domain, AVG with its spread over seeds, and STD over domains, the best AVG in bold."""
    rows = result.rows()
    domains = next((list(row.domains) for row in rows if row.domains), [])
    seeds = len(rows[0].cells) if rows else 0
    table = Table(title=title, title_justify="left", caption=_caption(seeds, len(domains)), caption_justify="left")
    table.add_column("")
    first = max((len(row_name(row)) for row in rows), default=0)
    tight = first + sum(max(len(name), 6) + 3 for name in domains) + 32 > console.width  # 32: what is around and after
    for name in domains if len(domains) > 1 else []:
        short = f"{name[:6]}…" if tight and len(name) > 7 else name  # room for what the rows are called
        table.add_column(escape(short), justify="right", min_width=6)
    table.add_column("AVG" if len(domains) > 1 else "accuracy", justify="right", no_wrap=True)
    if len(domains) > 1:
        table.add_column("STD", justify="right", no_wrap=True)
    best = max((row.avg for row in rows if row.avg is not None), default=None)
    for row in rows:
        table.add_row(*_cells(row, domains, best))
    return table


def _cells(row: Row, domains: Sequence[str], best: float | None) -> list[str]:
    name = escape(row_name(row))
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


def show_messages(result: Result) -> None:
    """Why cells did not finish, each reason once."""
    for message in dict.fromkeys(c.message for c in result.cells if c.message):
        console.print(f"[yellow]note:[/] {escape(message)}", highlight=False)
