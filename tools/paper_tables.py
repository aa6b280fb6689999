"""The tables of docs/reproduction, drawn from what docs/results keeps, so that no figure in them is typed."""

from collections.abc import Mapping, Sequence

import numpy as np
from paper_cells import NOT_RUN, figure, markdown
from paper_gains import PROTOCOLS, Averages, controls, gains, glance
from paper_gaps import choices, slips
from paper_reach import Reach, reach
from paper_results import Finished, Piece, together

from ggeur.experiments.result import Trial
from ggeur.paper.paper_tables import Table
from ggeur.paper.tuning import AS_SOUND
from ggeur.report.tables import Line, Number
from ggeur.stats.long_jobs import human_bytes

FIGURE_8 = ("table4", "table5", "table2")
Lines = Mapping[str, Line]


def all_tables(pieces: Sequence[Piece], found: Sequence[Finished]) -> dict[str, str]:
    """Every table of the page, by its name there."""
    tables, of = {"pieces": _pieces(pieces, found), "slips": slips()}, {}
    alone, found = [one for one in found if one.piece.choice], [one for one in found if not one.piece.choice]
    for name in dict.fromkeys(piece.table for piece in pieces):
        tables[name] = _whole(_by_protocol(found, name).get("paper", {}), _columns(found, name)[1])
        if Table.load(name).measure != "accuracy":
            continue
        of[name] = each = averages(found, name)
        if len({piece.protocol for piece in pieces if piece.table == name}) > 1:
            tables[f"{name} protocols"] = _protocols(each, _chosen(found, name))
        tables[f"{name} gains"] = gains(each)
        tables[f"{name} controls"] = controls(each, [row.name for row in Table.load(name).rows if row.control])
        if name in FIGURE_8:
            tables[f"{name} reach"] = _reach([one for one in found if one.piece.table == name])
        if any(piece.choice for piece in pieces if piece.table == name):
            usual = [one for one in found if (one.piece.table, one.piece.protocol) == (name, "paper")]
            own = {one.piece.choice: averages([one], name)["paper"] for one in alone if one.piece.table == name}
            tables[f"{name} choices"] = choices(each, own, usual)
    tables["glance"] = glance(of)
    tables["tuned"] = _tuned(found, list(dict.fromkeys(p.table for p in pieces if p.protocol == "tuned")))
    return tables


def _pieces(pieces: Sequence[Piece], found: Sequence[Finished]) -> str:
    done = {one.piece.name: one for one in found}
    rows = []
    for piece in pieces:
        rounds = "all" if piece.rounds is None else str(piece.rounds)
        one = done.get(piece.name)
        state = "not run yet" if one is None else f"complete, {60 * one.hours:.0f} min"
        rows.append([f"`{piece.name}`", rounds, str(piece.seeds), "all" if not piece.rows else "some", state])
    return markdown(["piece", "rounds", "seeds", "rows", "state"], rows)


def _by_protocol(found: Sequence[Finished], table: str) -> dict[str, Lines]:
    """The rows of a table under each protocol.

    Under `sound` those without noise are the paper's, under `tuned` those that keep the paper's numbers are `sound`'s.
    """
    of: dict[str, Lines] = {p: lines for p in PROTOCOLS if (lines := together(found, table, p))}
    if "sound" in of and "paper" in of:
        of["sound"] = {
            name: of["sound"].get(name, line)
            for name, line in of["paper"].items()
            if name in of["sound"] or not _noisy(name)
        }
    if "tuned" in of and "sound" in of:
        of["tuned"] = {name: of["sound"][name] if one.why == AS_SOUND else one for name, one in of["tuned"].items()}
    return of


def _noisy(row: str) -> bool:
    return "GGEUR" in row


def _columns(found: Sequence[Finished], table: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns of a table as the paper has them, and as they are shown."""
    return next(((t.columns, t.headings) for one in found if one.piece.table == table for t in [one.table]), ((), ()))


def _whole(lines: Lines, columns: Sequence[str]) -> str:
    """Every row and column of a table under `paper`, the paper's own figure in brackets; below, what did not run."""
    if not lines:
        return NOT_RUN
    shown = [i for i in range(len(columns)) if any(line.numbers[i].values for line in lines.values())]
    rows = [
        [_marked(line), *(figure(line.numbers[i], spread="AVG" not in columns or columns[i] == "AVG") for i in shown)]
        for line in lines.values()
        if not line.why
    ]
    reasons: dict[str, list[str]] = {}
    for line in lines.values():
        if line.why:
            reasons.setdefault(line.why, []).append(line.name)
    left = [columns[i] for i in range(len(columns)) if i not in shown]
    said = [f"Not run: {', '.join(names)}: {why}.".replace("*", r"\*") for why, names in reasons.items()]
    said += [f"Columns that did not run: {', '.join(left)}."] if left else []
    return markdown(["row", *(columns[i] for i in shown)], rows) + "".join(f"\n{words}\n" for words in said)


def _marked(line: Line) -> str:
    return f"{line.name} (ours)" if line.control else line.name


def averages(found: Sequence[Finished], table: str) -> dict[str, dict[str, Number]]:
    """By protocol and row: AVG, seed by seed; where columns are settings, the mean over those that ran."""
    columns = _columns(found, table)[0]
    at = columns.index("AVG") if "AVG" in columns else None
    return {
        protocol: {
            name: _mean(line.numbers) if at is None else line.numbers[at]
            for name, line in lines.items()
            if not line.why
        }
        for protocol, lines in _by_protocol(found, table).items()
    }


def _mean(numbers: Sequence[Number]) -> Number:
    ran = [number for number in numbers if number.values]
    if not ran or len({len(number.values) for number in ran}) > 1:
        return Number(())
    known = [number.published for number in ran if number.published is not None]
    values = tuple(float(v) for v in np.mean([number.values for number in ran], axis=0))
    return Number(values, float(np.mean(known)) if len(known) == len(ran) else None)


def _chosen(found: Sequence[Finished], table: str) -> dict[str, str]:
    said: dict[str, list[str]] = {}
    for one in found:
        if (one.piece.table, one.piece.protocol) == (table, "tuned"):
            several = len({c.part for c in one.reading.chosen}) > 1
            for c in one.reading.chosen:
                said.setdefault(c.row, []).append(f"{c.part}: {c.numbers}" if several else c.numbers)
    return {row: "; ".join(words) for row, words in said.items()}


def _protocols(each: Averages, chosen: Mapping[str, str]) -> str:
    """AVG of every row under each protocol that ran, where there are two, and what `tuned` chose."""
    if len(each) < 2:
        return ""
    names = list(dict.fromkeys(name for numbers in each.values() for name in numbers))
    rows = []
    for name in names:
        trials = [
            figure(numbers[name]._replace(published=None)) if name in numbers else "-" for numbers in each.values()
        ]
        rows.append([name, *trials, *([chosen.get(name, "-")] if "tuned" in each else [])])
    titles = ["AVG under", *(f"`{protocol}`" for protocol in each), *(["chosen"] if "tuned" in each else [])]
    return markdown(titles, rows)


def _reach(found: Sequence[Finished]) -> str:
    """Rounds, bytes and seconds of every row to 95 % and 99 % of where FedAvg ends, in the first column."""
    of: dict[str, list[Trial]] = {}
    for one in found:
        if one.piece.protocol == "paper":
            column = next((c for c in one.reading.columns if c.kind in ("avg", "value")), None)
            for arm in one.reading.arms:
                own = [c for c in one.result.trials if c.settings.get("arm") == arm.arm]
                if column is not None and column.key is not None and column.part == arm.part:
                    own = [c for c in own if c.settings.get(column.key) == column.value]
                of.setdefault(arm.row, own)
    ends = [c.avg for c in of.get("FedAvg", ()) if c.avg is not None]
    if not ends:
        return NOT_RUN
    end = float(np.mean(ends))
    targets = (0.95 * end, 0.99 * end)
    titles = ["row", *(f"{what} to {target:.2f} %" for target in targets for what in ("rounds", "bytes", "seconds"))]
    names = [name for name in together(found, found[0].piece.table, "paper") if name in of]
    return markdown(titles, ([name, *(w for t in targets for w in _reached(reach(of[name], t)))] for name in names))


def _reached(found: Reach | None) -> tuple[str, str, str]:
    if found is None:
        return "never", "-", "-"
    size = "-" if found.bytes is None else human_bytes(int(found.bytes))
    seconds = "-" if found.seconds is None else f"{found.seconds:.2f}"
    return "one message" if found.rounds == 0 else str(found.rounds), size, seconds


def _tuned(found: Sequence[Finished], tables: Sequence[str]) -> str:
    """`tuned` minus `paper` of every row that is in all tables that were tuned: none may be left to starve."""
    each = {t: averages(found, t) for t in tables}
    ran = {t: of for t, of in each.items() if {"paper", "tuned"} <= of.keys()}
    names = list(dict.fromkeys(name for of in ran.values() for name in of["tuned"]))
    rows = []
    for name in names:
        gains = {t: _gain(of["tuned"].get(name), of["paper"].get(name)) for t, of in ran.items()}
        known = [gain for gain in gains.values() if gain is not None]
        trials = ["-" if gain is None else f"{gain:+.2f}" for gain in gains.values()]
        rows.append([name, *trials, f"{np.mean(known):+.2f}" if known else "-"])
    return markdown(["`tuned` minus `paper`", *(f"`{t}`" for t in ran), "mean"], rows) or NOT_RUN


def _gain(a: Number | None, b: Number | None) -> float | None:
    return None if a is None or b is None or a.mean is None or b.mean is None else a.mean - b.mean
