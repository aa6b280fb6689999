"""A run folder as a report reads it."""

from pathlib import Path
from typing import NamedTuple

from ggeur.core.errors import GgeurError
from ggeur.experiment.contributions import contributions_of_point, save_contributions
from ggeur.methods import kind_of
from ggeur.methods.algorithm import ClosedForm, Selection
from ggeur.paper.reproduction import Reproduction
from ggeur.report.entries import ReportEntry, entries
from ggeur.report.tables import Comparison, compare
from ggeur.runs.result import Result
from ggeur.settings.grid import Experiment


class ReportedRun(NamedTuple):
    """The contents of a run folder: its result and settings, and the table and entries that people read."""

    folder: Path
    title: str
    result: Result
    experiment: Experiment
    reading: Reproduction | None
    table: Comparison
    entries: list[ReportEntry]


def read_run(folder: Path) -> ReportedRun:
    """The `folder`'s result and settings; a run that has not finished gives an error that says so."""
    result = Result.load(folder)
    experiment = Experiment.load(folder / "config.toml", own=False)
    reading = Reproduction.load(folder)
    title = folder.resolve().name
    if reading is not None:
        title = f"{reading.table.replace('table', 'Table ')}: {reading.title}"
        title += f" (protocol {reading.protocol})" if reading.protocol != "paper" else ""
    table = compare(result, reading)
    return ReportedRun(folder, title, result, experiment, reading, table, entries(result, experiment, reading))


def find_contributions(run: ReportedRun) -> Path:
    """Compute the contributions of sites to the best one-shot classifier of a `run`, and keep them in its folder."""
    solved = [e for e in run.entries if e.avg is not None and kind_of(e.point.train.method) in (ClosedForm, Selection)]
    if not solved:
        raise GgeurError(
            f"{run.folder} has no finished one-shot classifier, and contributions are computed for one of those alone.",
            code="contributions-not-one-shot",
        )
    best = max(solved, key=lambda e: e.avg or 0.0)
    return save_contributions(contributions_of_point(best.point, run.experiment.seeds[0], best.name), run.folder)
