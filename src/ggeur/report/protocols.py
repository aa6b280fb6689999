"""Runs of one table under several protocols, side by side: how much of the published gap each choice makes."""

from collections.abc import Sequence
from typing import NamedTuple

from ggeur.paper.reproduction import Reproduction
from ggeur.report.entries import Entry, pairs
from ggeur.report.tables import Comparison, Number
from ggeur.report.words import published_gain

Told = tuple[Reproduction | None, Comparison, Sequence[Entry]]  # a run: what it reproduces, its table, its rows


class Side(NamedTuple):
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
    lines: tuple[Side, ...]


def side_by_side(runs: Sequence[Told]) -> list[SideBySide]:
    """A comparison for every table of which there are runs under more than one protocol."""
    found = []
    for name in dict.fromkeys(reading.table for reading, _, _ in runs if reading is not None):
        own = {r.protocol: (r, table, rows) for r, table, rows in runs if r is not None and r.table == name}
        if len(own) > 1 and all(table.unit == "percent" for _, table, _ in own.values()):
            accuracy = [_accuracies(table) for _, table, _ in own.values()]
            gain = [_gains(reading, rows) for reading, _, rows in own.values()]
            lines = [*_lines(gain, gain=True), *_lines(accuracy, gain=False)]
            title = f"{name.replace('table', 'Table ')} under {len(own)} protocols"
            found.append(SideBySide(title, tuple(own), tuple(lines)))
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


def _gains(reading: Reproduction, rows: Sequence[Entry]) -> dict[str, Number]:
    """GGEUR minus the same method without it, seed by seed."""
    found = {}
    for pair in pairs(rows):
        of = [{c.seed: c.avg for c in e.row.cells if c.avg is not None} for e in (pair.full, pair.other)]
        values = tuple(of[0][seed] - of[1][seed] for seed in of[0] if seed in of[1])
        found[pair.other.title] = Number(values, published_gain(pair, reading))
    return found


def _lines(under: Sequence[dict[str, Number]], *, gain: bool) -> list[Side]:
    names = dict.fromkeys(name for numbers in under for name in numbers)
    return [Side(name, tuple(numbers.get(name, Number(())) for numbers in under), gain) for name in names]
