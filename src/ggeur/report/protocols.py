"""Runs of one table under several protocols, side by side: how much of the published gap each choice makes."""

from collections.abc import Sequence
from typing import NamedTuple

from ggeur.report.entries import pairs
from ggeur.report.run_folder import Run
from ggeur.report.tables import Comparison, Number
from ggeur.report.words import published_gain


class ProtocolLine(NamedTuple):
    """One figure under every protocol; `gain` where it is GGEUR's difference from the same method without it."""

    name: str
    numbers: tuple[Number, ...]  # by protocol; without values where it did not run
    gain: bool = False

    @property
    def published(self) -> float | None:
        return next((n.published for n in self.numbers if n.published is not None), None)


class SideBySide(NamedTuple):
    """One table of the paper under several protocols."""

    title: str
    protocols: tuple[str, ...]
    lines: tuple[ProtocolLine, ...]


def side_by_side(runs: Sequence[Run]) -> list[SideBySide]:
    """A comparison for every table of which there are `runs` under more than one protocol."""
    tables: dict[str, dict[str, Run]] = {}  # by the paper's table and the protocol
    for run in runs:
        if run.reading is not None and run.table.unit == "percent":
            tables.setdefault(run.reading.table, {})[run.reading.protocol] = run
    found = []
    for name, by_protocol in tables.items():
        if len(by_protocol) > 1:
            gains = _lines([_gains(run) for run in by_protocol.values()], gain=True)
            accuracies = _lines([_accuracies(run.table) for run in by_protocol.values()], gain=False)
            title = f"{name.replace('table', 'Table ')} under {len(by_protocol)} protocols"
            found.append(SideBySide(title, tuple(by_protocol), (*gains, *accuracies)))
    return found


def _accuracies(table: Comparison) -> dict[str, Number]:
    """AVG of each row, or each of its columns where the table has no AVG."""
    avg = "AVG" in table.columns
    return {
        line.name if avg else f"{line.name}, {column}": number
        for line in table.lines
        for column, number in zip(table.columns, line.numbers, strict=True)
        if number.values and (not avg or column == "AVG")
    }


def _gains(run: Run) -> dict[str, Number]:
    """GGEUR minus the same method without it, seed by seed."""
    assert run.reading is not None
    found = {}
    for pair in pairs(run.entries):
        of = [{c.seed: c.avg for c in e.row.cells if c.avg is not None} for e in (pair.full, pair.other)]
        values = tuple(of[0][seed] - of[1][seed] for seed in of[0] if seed in of[1])
        found[pair.other.title] = Number(values, published_gain(pair, run.reading))
    return found


def _lines(under: Sequence[dict[str, Number]], *, gain: bool) -> list[ProtocolLine]:
    names = dict.fromkeys(name for numbers in under for name in numbers)
    return [ProtocolLine(name, tuple(numbers.get(name, Number(())) for numbers in under), gain) for name in names]
