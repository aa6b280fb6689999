"""The terminal: a console, ggeur's warnings as notes, progress bars and result tables; or JSON events."""

import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from ggeur.stats.errors import GgeurWarning

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

    from ggeur.encoders.job import OnBatch
    from ggeur.experiments.grid import Experiment
    from ggeur.experiments.result import Result
    from ggeur.experiments.tracker import OnRound
    from ggeur.federation.contributions import OnHead
    from ggeur.report.tables import Line

_LISTED = 20  # unreadable pictures that are named
console = Console(emoji=False)  # ":b:" in a name is no picture


class Voice(Enum):
    """The form of a command's output."""

    WORDS = "words"
    QUIET = "quiet"  # errors only
    EVENTS = "events"  # a JSON object a line, for programs


_voice = Voice.WORDS


def voice() -> Voice:
    """Return the form of the output."""
    return _voice


def speak(form: Voice) -> None:
    """Write output in this `form` from now on."""
    global _voice  # noqa: PLW0603
    _voice = form
    console.quiet = form is not Voice.WORDS


def event(happened: str, **facts: Any) -> None:
    """Print a JSON line for programs: what has `happened`, and the `facts` about it."""
    if _voice is Voice.EVENTS:
        print(json.dumps({"event": happened, **facts}, default=str), flush=True)


def say(text: str, *, soft_wrap: bool = False) -> None:
    """Print a sentence as it is; with `soft_wrap` a path in it can be copied whole."""
    event("said", text=text)
    console.print(text, markup=False, highlight=False, soft_wrap=soft_wrap)


def mark(word: str, text: str, *, soft_wrap: bool = False) -> None:
    """Print a sentence after a coloured word: note, skipped, not run."""
    event(word, text=text)
    console.print(f"[yellow]{word}:[/] {escape(text)}", highlight=False, soft_wrap=soft_wrap)


def tell_skipped(unreadable: Sequence[str]) -> str:
    """Name the first unreadable pictures, and return the end of a sentence with their number."""
    for line in unreadable[:_LISTED]:
        mark("skipped", line, soft_wrap=True)
    if len(unreadable) > _LISTED:
        mark("skipped", f"{len(unreadable) - _LISTED} more")
    return f"; left out as unreadable: {len(unreadable)}" if unreadable else ""


@contextmanager
def notes() -> Iterator[None]:
    """Print each of ggeur's warnings in the block once, as a note; those of libraries are dropped."""
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
    """Return a table with these `columns`, `title` and `caption`; `options` are rich's."""
    return Table(*columns, title=title, title_justify="left", caption=caption, caption_justify="left", **options)


class _Remaining(Protocol):
    @property
    def left(self) -> float | None:
        """Return the remaining seconds, None where they cannot be estimated."""


def progress_bar(job: _Remaining, *columns: "ProgressColumn") -> "Progress":
    """Return a bar with description and progress, then `columns`, then the remaining time of the `job`."""
    from rich import progress as bars
    from rich.text import Text

    class Left(bars.ProgressColumn):
        def render(self, task: bars.Task) -> Text:
            if job.left is None:
                return Text("")
            minutes, seconds = divmod(round(job.left), 60)
            return Text(f"{minutes}:{seconds:02d} left")

    first = (bars.TextColumn("{task.description}", markup=False), bars.BarColumn(), bars.MofNCompleteColumn())
    return bars.Progress(*first, *columns, Left(), console=console)


@contextmanager
def progress(experiment: "Experiment", folder: Path) -> Iterator["OnRound"]:
    """Show all rounds of all trials with the remaining time and the newest accuracy; warnings appear above.

    Trials that the run folder has finished count as done.
    """
    from rich import progress as bars

    from ggeur.cli.following import following
    from ggeur.experiments.checkpoint import finished_numbers
    from ggeur.methods import kind_of
    from ggeur.methods.algorithm import ClosedForm, Selection, ZeroShot
    from ggeur.report.tables import named

    once = [kind_of(p.train.method) in (ClosedForm, Selection, ZeroShot) for p in experiment.points]
    each = [1 if solved else p.train.rounds for p, solved in zip(experiment.points, once, strict=True)]
    rounds = [number for number in each for _ in experiment.seeds]
    done = {trial: rounds[trial] for trial in finished_numbers(folder / "checkpoint") if trial < len(rounds)}
    kinds = [p.augment.kind if not solved else "none" for p, solved in zip(experiment.points, once, strict=True)]
    points = zip(experiment.points, experiment.varied, kinds, strict=True)
    names = [named(varied, p.train.method, kind) for p, varied, kind in points]
    columns = bars.TextColumn("rounds"), bars.TimeElapsedColumn()
    computed = 0  # by this process: earlier rounds of a resumed trial do not count for the rate
    with following("training", "rounds", sum(rounds), sum(done.values()), *columns) as follow, notes():

        def on_round(one: dict[str, Any]) -> None:
            nonlocal computed
            computed, done[one["trial"]] = computed + 1, max(one["round"], 1)
            point, seed = divmod(one["trial"], len(experiment.seeds))
            event("round", name=names[point], seed=experiment.seeds[seed], **one)
            words = f"{names[point]}, seed {experiment.seeds[seed]}: {one['avg']:5.1f} %"
            follow(sum(done.values()), words=words, computed=computed)

        yield on_round
        follow(sum(rounds), words="done", computed=computed)


@contextmanager
def embedding_bar(total: int) -> Iterator["OnBatch"]:
    """Show a bar over `total` pictures while they are embedded; none for 0."""
    if not total:
        yield lambda done, computed: None
        return
    from rich import progress as bars
    from rich.text import Text

    class Speed(bars.ProgressColumn):
        """Images per second without those from the cache."""

        def render(self, task: bars.Task) -> Text:
            computed = task.fields["computed"]
            if not computed or not task.elapsed:
                return Text("from the cache" if task.completed else "")
            return Text(f"{computed / task.elapsed:.1f} images/s")

    from ggeur.cli.following import following

    with following("embedding", "images", total, 0, Speed()) as follow:
        yield lambda done, computed: follow(done, computed=computed)


@contextmanager
def progress_of_heads(what: str) -> Iterator["OnHead"]:
    """Show the number of heads computed for `what`; a bar appears after one second."""
    from ggeur.cli.following import following

    with following(what, "heads", None, begin=False) as follow:
        yield follow


def show_result(result: "Result", title: str) -> None:
    """Print the table of a run, and each reason why trials did not finish once."""
    from ggeur.experiments.result import privacy_sentences

    console.print()
    console.print(result_table(result, title))
    for row in result.rows():
        status = next((c.status for c in row.trials if c.status != "ok"), "ok")
        numbers = {"domains": row.domains, "avg": row.avg, "spread": row.spread, "std": row.std}
        event("row", settings=row.settings, method=row.trials[0].method, status=status, **numbers)
    for message in [*dict.fromkeys(c.message for c in result.trials if c.message), *privacy_sentences(result.trials)]:
        mark("note", message)


def result_table(result: "Result", title: str) -> Table:
    """Return accuracy by domain, AVG with its spread over seeds, and STD over domains; a block per setting of a sweep.

    The best AVG of a block is in bold.
    """
    from ggeur.report.tables import averaged, compare

    shown = compare(result, None)
    domains = shown.columns[:-2]  # the rest is AVG and STD, or one accuracy
    seeds = len(shown.lines[0].trials) if shown.lines else 0
    caption = " ".join(filter(None, [_caption(averaged(result.trials), seeds, len(domains)), result.caveat]))
    table = titled_table(title, Column("", overflow="fold"), caption=caption)
    widest = max((len(line.name) for line in shown.lines), default=0)
    tight = widest + sum(max(len(name), 6) + 3 for name in domains) + 32 > console.width  # 32: around and after
    for name in domains:
        short = f"{name[:6]}…" if tight and len(name) > 7 else name  # room for the names of the rows
        table.add_column(escape(short), justify="right", min_width=6)
    for name in shown.columns[len(domains) :]:
        table.add_column(name, justify="right", no_wrap=True)
    for block, lines in shown.blocks:
        if block:
            table.add_row(f"[dim]{escape(block)}[/]")
        for line in lines:
            table.add_row(*_cells(line, len(domains), best=shown.leads(line, len(domains))))
        table.add_section()
    return table


def _cells(line: "Line", avg: int, *, best: bool) -> list[str]:
    """Return the texts of a line; the column `avg` has the spread over seeds and is bold where it is `best`."""
    name, texts = escape(line.name), ["-" if n.mean is None else f"{n.mean:.2f}" for n in line.numbers]
    if failed := [c for c in line.trials if c.status != "ok"]:
        name += f" [red]({len(failed)} of {len(line.trials)} {failed[0].status})[/]"
    number = line.numbers[avg]
    texts[avg] += f" ± {number.spread:.2f}" if number.spread is not None else ""
    texts[avg] = f"[bold]{texts[avg]}[/]" if best else texts[avg]
    return [name, *texts]


def _caption(rounds: str, seeds: int, domains: int) -> str:
    parts = [f"Percent right on test samples{rounds}"]
    if seeds > 1:
        parts.append(f"± over {seeds} seeds")
    if domains > 1:
        parts.append("STD over domains")
    return "; ".join(parts) + "."
