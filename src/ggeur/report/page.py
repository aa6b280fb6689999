"""`report.html`: one self-contained page about one or more runs; nothing on it comes from elsewhere."""

import platform
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from ggeur.core.errors import GgeurError
from ggeur.data.files import write_atomically
from ggeur.experiment.grid import Experiment
from ggeur.experiment.plan import human_bytes
from ggeur.experiment.reproduction import Reproduction
from ggeur.experiment.result import Result
from ggeur.report.entries import Entry, entries, pairs
from ggeur.report.evidence import Drawn, evidence
from ggeur.report.tables import Comparison, compare, to_latex
from ggeur.report.words import summary

_MOST = 5 * 2**20  # bytes of a page that still opens fast


class Run(NamedTuple):
    """A run folder, read."""

    folder: Path
    title: str
    result: Result
    experiment: Experiment
    reading: Reproduction | None
    table: Comparison
    entries: list[Entry]


def read_run(folder: Path) -> Run:
    """The folder's result and settings; a run that has not finished gives an error that says so."""
    result = Result.load(folder)
    experiment = Experiment.load(folder / "config.toml")
    reading = Reproduction.load(folder)
    name = folder.resolve().name
    title = f"{reading.table.replace('table', 'Table ')}: {reading.title}" if reading is not None else name
    table = compare(result, reading, title)
    return Run(folder, title, result, experiment, reading, table, entries(result, experiment, reading))


def write_report(folders: Sequence[Path], out: Path, *, latex: bool = False) -> Path:
    """Write the page, and with `latex` its tables beside it; return the page's path."""
    if not folders:
        raise GgeurError("Name at least one run folder to report on.")
    runs = [read_run(folder) for folder in folders]
    page = render(runs)
    try:
        with write_atomically(out) as file:
            file.write(page.encode())
        if latex:
            with write_atomically(out.with_suffix(".tex")) as file:
                file.write("\n".join(f"% {run.title}\n{to_latex(run.table)}" for run in runs).encode())
    except OSError as error:
        raise GgeurError(f"Cannot write {out}: {error.strerror or error}.") from error
    return out


def render(runs: Sequence[Run]) -> str:
    """The page as text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("ggeur.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates = files("ggeur.report") / "templates"
    page = environment.get_template("page.html.j2").render(
        title=runs[0].title if len(runs) == 1 else f"{len(runs)} runs of ggeur",
        runs=[_context(run, f"run{i}") for i, run in enumerate(runs)],
        style=(templates / "style.css").read_text(encoding="utf-8"),
        script=(templates / "page.js").read_text(encoding="utf-8"),
        made=f"ggeur {version('ggeur')}, Python {platform.python_version()}",
        today=datetime.now(UTC).strftime("%Y-%m-%d"),
    )
    if len(page.encode()) > _MOST:
        raise GgeurError("The report would be larger than 5 MB; report on fewer runs at once.")
    return page


def _context(run: Run, key: str) -> dict[str, Any]:
    from ggeur.report.svg import inline_svg

    data, missing = evidence(run.entries, run.experiment.seeds[0])
    shown = [
        {
            "id": f"{key}-{d.key}-{i}",
            "title": d.title,
            "caption": d.caption,
            "on_page": d.on_page,
            "svg": inline_svg(d.figure, f"{key}-{d.key}-{i}", d.title, on_page=d.on_page),
        }
        for i, d in enumerate([*_charts(run), *data])
    ]
    reading = run.reading
    return {
        "key": key,
        "run": run,
        "reading": reading,
        "summary": summary(run.entries, run.table, reading),
        "notes": [*(reading.notes if reading is not None else []), *missing, *_messages(run.result)],
        "figures": shown,
        "intervals": ["AVG"] if "AVG" in run.table.columns else run.table.columns,
        "cost": [_cost(entry) for entry in run.entries],
        "seeds": len(run.experiment.seeds),
        "config": run.experiment.to_toml(),
        "again": _again(run),
        "versions": reading.versions if reading is not None else {},
    }


def _charts(run: Run) -> list[Drawn]:
    from ggeur.report import charts

    if run.table.unit == "seconds":
        return []
    drawn = (
        (
            "gains",
            "What GGEUR adds to each method",
            "GGEUR minus the same method without it, paired by seed, with 95 % intervals; diamonds are the paper's.",
            charts.gains(pairs(run.entries), run.reading),
        ),
        (
            "controls",
            "Is it the geometry?",
            "The same method with its classes resampled, with prototypes, with other weights, and with GGEUR. What "
            "GGEUR has beyond the controls is due to the geometry. Bars are 95 % intervals, ticks are seeds.",
            charts.controls(run.entries),
        ),
        (
            "convergence",
            "Convergence",
            "AVG on test rows after each round (Figure 8); bands are one standard deviation over seeds.",
            charts.convergence(run.entries),
        ),
    )
    return [Drawn(key, title, text, figure, True) for key, title, text, figure in drawn if figure is not None]


def _cost(entry: Entry) -> dict[str, Any]:
    """What a row cost one client, and how soon it was there."""
    cells = [c for c in entry.row.cells if c.status == "ok"]
    reached = [c.rounds_to_95 for c in cells if c.rounds_to_95 is not None]
    steps = [sum(c.local_steps) / len(c.local_steps) for c in cells if c.local_steps]

    def mean(values: Sequence[float]) -> float | None:
        return sum(values) / len(values) if values else None

    up, down = (mean([getattr(c, way) for c in cells]) for way in ("bytes_up", "bytes_down"))
    return {
        "name": entry.name,
        "condition": entry.condition,
        "up": (up, None if up is None else human_bytes(up)),
        "down": (down, None if down is None else human_bytes(down)),
        "steps": mean(steps),
        "reached": mean(reached),
        "seconds": mean([c.seconds for c in cells]),
    }


def _messages(result: Result) -> list[str]:
    return list(dict.fromkeys(c.message for c in result.cells if c.message))


def _again(run: Run) -> str:
    """The command that repeats the run."""
    reading = run.reading
    if reading is None:
        return f"ggeur run {shlex.quote(str(run.folder / 'config.toml'))} --out NEW"
    tables = dict.fromkeys(str(point.data.table) for point in run.experiment.points)
    words = ["ggeur", "reproduce", reading.table, *(w for t in tables for w in ("--table", t))]
    words += ["--seeds", str(len(run.experiment.seeds)), "--protocol", reading.protocol]
    rounds = {point.train.rounds for point in run.experiment.points}
    words += ["--rounds", str(rounds.pop())] if len(rounds) == 1 else []
    return shlex.join(words)
