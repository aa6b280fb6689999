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
from ggeur.experiment.plan import human_bytes
from ggeur.paper.paper_tables import Table
from ggeur.paper.published import published_gains
from ggeur.paper.reproduction import Reproduction
from ggeur.report.effort import cost
from ggeur.report.entries import Entry, entries
from ggeur.report.evidence import CaptionedFigure, evidence, evidence_of_training
from ggeur.report.latex import to_latex
from ggeur.report.protocols import side_by_side
from ggeur.report.tables import Comparison, compare
from ggeur.report.words import summary
from ggeur.runs.result import Result
from ggeur.runs.versions import read_versions
from ggeur.settings.grid import Experiment

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
    if reading is not None and reading.protocol != "paper":
        title += f" (protocol {reading.protocol})"
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
    environment.filters["bytes"] = human_bytes
    templates = files("ggeur.report") / "templates"
    page = environment.get_template("page.html.j2").render(
        title=runs[0].title if len(runs) == 1 else f"{len(runs)} runs of ggeur",
        runs=[_context(run, f"run{i}") for i, run in enumerate(runs)],
        protocols=side_by_side([(run.reading, run.table, run.entries) for run in runs]),
        style=(templates / "style.css").read_text(encoding="utf-8"),
        script=(templates / "page.js").read_text(encoding="utf-8"),
        made=f"ggeur {version('ggeur')}, Python {platform.python_version()}",
        today=datetime.now(UTC).strftime("%Y-%m-%d"),
    )
    if len(page.encode()) > _MOST:
        raise GgeurError("The report would be larger than 5 MB; report on fewer runs at once.")
    return page


def _context(run: Run, key: str) -> dict[str, Any]:
    data, missing = evidence(run.entries, run.experiment.seeds[0])
    training = evidence_of_training(run.entries, run.reading) if run.table.unit == "percent" else []
    shown = [_shown(d, f"{key}-{d.key}-{i}") for i, d in enumerate([*training, *data])]
    costs = [cost(entry) for entry in run.entries]
    reading = run.reading
    return {
        "key": key,
        "run": run,
        "reading": reading,
        "summary": summary(run.entries, run.table, reading),
        "notes": [*(reading.notes if reading is not None else []), *missing, *_wrong_gains(reading), *_messages(run)],
        "figures": shown,
        "intervals": ["AVG"] if "AVG" in run.table.columns else run.table.columns,
        "cost": costs,
        "cost_varies": any(c.condition for c in costs),
        "seeds": len(run.experiment.seeds),
        "config": run.experiment.to_toml(),
        "again": _again(run),
        "versions": read_versions(run.folder),
    }


def _shown(drawn: CaptionedFigure, id_: str) -> dict[str, Any]:
    from ggeur.report.svg import inline_svg

    svg = inline_svg(drawn.figure, id_, drawn.title, on_page=drawn.on_page)
    return drawn._asdict() | {"id": id_, "svg": svg}


def _messages(run: Run) -> list[str]:
    return list(dict.fromkeys(c.message for c in run.result.cells if c.message))


def _wrong_gains(reading: Reproduction | None) -> list[str]:
    """Gains that the paper quotes and its own table does not have."""
    return [
        f"The paper prints a gain of {gain.printed:+.2f} for {gain.column}; its own rows give {gain.computed:+.2f}."
        for gain in published_gains()
        if reading is not None and gain.table == reading.table and gain.computed is not None
    ]


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
    if len(reading.order) < len(Table.load(reading.table).rows):
        words += [word for row in reading.order for word in ("--rows", row)]
    return shlex.join(words)
