"""`report.html`: one self-contained page about one or more runs; nothing on it comes from elsewhere."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ggeur.experiments.audit import load_audit
from ggeur.experiments.checkpoint import read_versions
from ggeur.experiments.result import privacy_sentences
from ggeur.experiments.tracker import missing_sentence
from ggeur.federation.contributions import load_contributions
from ggeur.paper.paper_tables import Table, published_gains
from ggeur.paper.reproduction import Reproduction
from ggeur.paper.tuning import AS_SOUND
from ggeur.report.by_class import confused, scores_by_class
from ggeur.report.entries import ReportEntry
from ggeur.report.evidence import evidence, evidence_of_training, reported_data, summary
from ggeur.report.folders import ReportedRun, find_contributions, read_run
from ggeur.report.model_page import contributions_section
from ggeur.report.overview import embedding_bytes, overview, raw_size
from ggeur.report.ranking import ranking, recommendation
from ggeur.report.sections import audit_section, selected
from ggeur.report.tables import average_first, averaged, to_latex
from ggeur.report.template import render_page, templates
from ggeur.stats.errors import GgeurError
from ggeur.stats.storage import write_bytes


def write_report(folders: Sequence[Path], out: Path, *, latex: bool = False, contributions: bool = False) -> Path:
    """Write the page about the runs in `folders` to `out`, and with `latex` its tables beside it; return its path.

    With `contributions` those of each run's sites are computed first.
    """
    if not folders:
        raise GgeurError("Name at least one run folder to report on.", code="report-run-not-named")
    runs = [read_run(folder) for folder in folders]
    if contributions:
        for run in runs:
            find_contributions(run)
    page = render(runs)
    write_bytes(out, page.encode())
    if latex:
        tables = "\n".join(f"% {run.title}\n{to_latex(run.table)}" for run in runs)
        write_bytes(out.with_suffix(".tex"), tables.encode())
    return out


def render(runs: Sequence[ReportedRun]) -> str:
    """The page about these `runs` as text."""
    return render_page(
        "page.html.j2",
        runs[0].title if len(runs) == 1 else f"{len(runs)} runs of ggeur",
        "report on fewer runs at once",
        runs=[_context(run, f"run{i}") for i, run in enumerate(runs)],
    )


def _context(run: ReportedRun, key: str) -> dict[str, Any]:
    seed = run.experiment.seeds[0]
    data = reported_data(run.entries, seed)
    of_data, missing = evidence(data, seed)
    training = evidence_of_training(run.entries, run.reading) if run.table.unit == "percent" else []
    matrix = confused(run, data)
    raw = embedding_bytes(data, seed) if not missing else None
    of_paper = run.reading.notes if run.reading is not None else []
    shared, found = load_contributions(run.folder), load_audit(run.folder)
    ranked = ranking(run.entries, run.reading) if run.table.unit == "percent" else None
    chosen = run.reading.chosen if run.reading is not None else []
    return {
        "key": key,
        "run": run,
        "overview": overview(run, data),
        "table": average_first(run.table),
        "averaged": averaged(run.result.trials),
        "summary": [*(recommendation(ranked) if ranked else []), *summary(run.entries, run.table, run.reading)],
        "notes": [
            *of_paper,
            *missing,
            *_wrong_gains(run.reading),
            *_messages(run.entries),
            *privacy_sentences(run.result.trials),
        ],
        "ranks": _part("ranks", key, found=ranked) if ranked and len(ranked.rows) > 1 else "",
        "selected": _part("selected", key, selected=taken) if (taken := selected(run.entries)) else "",
        "chosen": _part("chosen", key, chosen=chosen) if chosen else "",
        "byclass": _part("byclass", key, found=scores) if (scores := scores_by_class(run, data)) else "",
        "figures": [*training, *([matrix] if matrix else [])],
        "data_figures": of_data,
        "raw": raw,
        "raw_size": raw_size(raw),
        "contributions": "" if shared is None else contributions_section(shared, f"{key}-contributions"),
        "audit": "" if found is None else audit_section(found, f"{key}-audit"),
        "again": _again(run),
        "versions": read_versions(run.folder),
    }


def _part(name: str, key: str, **words: Any) -> str:
    """Return a part of the page as HTML, whose id no other part has: the template `name` filled with `words`."""
    return templates().get_template(f"{name}.html.j2").render(id=f"{key}-{name}", **words)


def _messages(entries: Sequence[ReportEntry]) -> list[str]:
    """Return the messages of trials, each once, with the trials they are from where there are several."""
    said: dict[str, list[str]] = {}
    for entry in entries:
        for trial in entry.row.trials:
            # The selection stands in a table of its own.
            message = missing_sentence(trial.missing) if trial.expected and trial.status == "ok" else trial.message
            said.setdefault(message, []).append(f"{entry.full_name}, seed {trial.seed}")
    if len(said) == 1:  # one message, from all trials
        return [message for message in said if message]
    return [
        f"{trials[0]}{f', and {len(trials) - 1} more' if len(trials) > 1 else ''}: {message}"
        for message, trials in said.items()
        if message
    ]


def _wrong_gains(reading: Reproduction | None) -> list[str]:
    """Gains that the paper quotes and its own table does not have."""
    return [
        f"The paper prints a gain of {gain.printed:+.2f} for {gain.column}; its own rows give {gain.computed:+.2f}."
        for gain in published_gains()
        if reading is not None and gain.table == reading.table and gain.computed is not None
    ]


def _again(run: ReportedRun) -> str:
    """The command that repeats the run."""
    reading = run.reading
    if reading is None:
        return f"ggeur run {shlex.quote(str(run.folder / 'config.toml'))} --out NEW"
    tables = dict.fromkeys(str(point.data.table) for point in run.experiment.points)
    words = ["ggeur", "reproduce", reading.table, *(w for t in tables for w in ("--table", t))]
    words += ["--seeds", str(len(run.experiment.seeds)), "--protocol", reading.protocol]
    rounds = {point.train.rounds for point in run.experiment.points}
    words += ["--rounds", str(rounds.pop())] if len(rounds) == 1 else []
    words += ["--only-changed"] if any(row.why == AS_SOUND for row in reading.absent) else []
    words += [word for change in reading.changes for word in ("--set", change)]
    if len(reading.order) < len(Table.load(reading.table).rows):
        words += [word for row in reading.order for word in ("--rows", row)]
    return shlex.join(words)
