"""A result as the table people read: mean and interval over seeds, beside what the paper printed."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ggeur.paper.published import PublishedTable, published_tables
from ggeur.paper.reproduction import Arm, Column, Reproduction
from ggeur.runs.result import Cell, Result, Row

_SPEAK_FOR_THEMSELVES = ("arm", "train.method", "augment.kind")


class Number(NamedTuple):
    """One figure of the table: over seeds, and the paper's."""

    values: tuple[float, ...]  # by seed; empty where nothing ran
    published: float | None = None
    remark: str = ""  # why some or all of ours is missing
    slip: str = ""  # what is wrong with the paper's figure
    comparable: bool = True  # False where another domain stands in for the paper's

    @property
    def mean(self) -> float | None:
        return float(np.mean(self.values)) if self.values else None

    @property
    def spread(self) -> float | None:
        """The sample deviation over seeds."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % t-interval of the mean over seeds."""
        if self.mean is None or self.spread is None:
            return None
        from scipy import stats

        half = float(stats.t.ppf(0.975, len(self.values) - 1)) * self.spread / len(self.values) ** 0.5
        return self.mean - half, self.mean + half

    @property
    def difference(self) -> float | None:
        if self.mean is None or self.published is None or not self.comparable:
            return None
        return self.mean - self.published


class Line(NamedTuple):
    """One row of the table."""

    name: str
    numbers: tuple[Number, ...]
    control: bool = False
    why: str = ""  # nothing of it ran
    cells: tuple[Cell, ...] = ()  # where it is a row of the result

    @property
    def published(self) -> bool:
        """Does the paper print any figure of this row?"""
        return any(number.published is not None for number in self.numbers)


class Comparison(NamedTuple):
    """The whole table."""

    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    unit: str = "percent"
    headings: tuple[str, ...] = ()  # columns as shown, where a domain stands in for another

    def best(self, column: int) -> float | None:
        """The largest mean of a column, or the smallest, where small is good."""
        means = [mean for line in self.lines if (mean := line.numbers[column].mean) is not None]
        small = self.unit == "seconds" or self.columns[column] == "STD"
        return (min if small else max)(means, default=None)

    @property
    def slips(self) -> list[tuple[str, str, str]]:
        """Row, column and fault of every figure of the paper that does not follow from its own row."""
        return self._said(lambda number: number.slip)

    @property
    def faults(self) -> list[tuple[str, str, str]]:
        """Row, column and fault of every figure of ours that some seed is missing from."""
        return self._said(lambda number: number.remark if number.values else "")

    def _said(self, words: Callable[[Number], str]) -> list[tuple[str, str, str]]:
        return [
            (line.name, column, said)
            for line in self.lines
            for column, number in zip(self.columns, line.numbers, strict=True)
            if (said := words(number))
        ]


def label(varied: dict[str, Any]) -> str:
    """What sets a row apart, in a few words: the arm's name, then the values the grid varies."""
    plain = [str(varied[key]) for key in _SPEAK_FOR_THEMSELVES if key in varied]
    rest = [f"{key.split('.')[-1]} {value}" for key, value in varied.items() if key not in _SPEAK_FOR_THEMSELVES]
    return ", ".join(plain + rest)


def row_name(row: Row) -> str:
    return label(row.settings) or row.cells[0].method


def compare(result: Result, reading: Reproduction | None) -> Comparison:
    """The table of a `result`: as the paper lays it out, where `reading` says how, else a line per row."""
    return _plain(result) if reading is None else _reproduced(result, reading)


def _plain(result: Result) -> Comparison:
    rows = result.rows()
    domains = next((list(row.domains) for row in rows if row.domains), [])
    several = len(domains) > 1
    columns = [Column(name, "", "domain", value=name) for name in domains] if several else []
    columns += [Column("AVG" if several else "accuracy", "", "avg")]
    columns += [Column("STD", "", "std")] if several else []
    lines = [Line(row_name(row), tuple(_number(row.cells, c) for c in columns), cells=tuple(row.cells)) for row in rows]
    return Comparison(tuple(c.label for c in columns), tuple(lines))


def _reproduced(result: Result, reading: Reproduction) -> Comparison:
    paper = published_tables().get(reading.table)
    replaced = [column.label for column in reading.columns if column.replaced]
    strange = {*replaced, "AVG", "STD"} if replaced else set()
    arms = {(arm.row, arm.part): arm for arm in reading.arms}
    absent = {(a.row, a.part): a for a in reading.absent}
    ddof = (paper.ddof if paper is not None else 0) or 0
    lines = []
    for name in reading.order:
        numbers = []
        for column in reading.columns:
            arm = arms.get((name, column.part))
            if arm is None:
                number, row = Number((), remark=absent[name, column.part].why), absent[name, column.part].published
            else:
                number, row = _number(_cells(result, arm, column), column, ddof, reading.measure), arm.published
            numbers.append(_beside(number, row, column, paper)._replace(comparable=column.label not in strange))
        own = [a for key, a in arms.items() if key[0] == name]
        reasons = dict.fromkeys(n.remark for n in numbers if not n.values and n.remark)
        lines.append(Line(name, tuple(numbers), any(a.control for a in own), "" if own else "; ".join(reasons)))
    unit = "seconds" if reading.measure == "seconds" else "percent"
    labels, headings = zip(*((column.label, _heading(column)) for column in reading.columns), strict=True)
    return Comparison(labels, tuple(lines), unit, headings)


def _heading(column: Column) -> str:
    """The paper's name of a column, and the domain that is really behind it, where that is another."""
    if column.kind != "domain" or not column.replaced:
        return column.label
    return f"{column.value} (paper: {column.label})"


def _cells(result: Result, arm: Arm, column: Column) -> list[Cell]:
    return [
        cell
        for cell in result.cells
        if cell.settings.get("arm") == arm.arm and (column.key is None or cell.settings.get(column.key) == column.value)
    ]


def _beside(number: Number, row: str, column: Column, paper: PublishedTable | None) -> Number:
    """The number with the paper's figure, and what is wrong with that, if anything is."""
    if paper is None:
        return number
    slip = paper.slip(row, column.label)
    return number._replace(published=paper.value(row, column.label), slip="" if slip is None else slip.why)


def _number(cells: Sequence[Cell], column: Column, ddof: int = 0, measure: str = "accuracy") -> Number:
    done = [c for c in cells if c.status == "ok" and c.avg is not None]
    failed = [c for c in cells if c.status != "ok"]
    remark = f"{len(failed)} of {len(cells)} seeds {failed[0].status}" if failed else ""
    if measure == "seconds":  # a first round compiles, so one alone says nothing
        return Number(tuple(c.round_seconds for c in done if c.round_seconds is not None), None, remark)
    return Number(tuple(_value(c, column, ddof) for c in done), None, remark)


def _value(cell: Cell, column: Column, ddof: int) -> float:
    if column.kind == "domain":
        return cell.domains[column.value]
    if column.kind == "std":
        return float(np.std(list(cell.domains.values()), ddof=ddof if len(cell.domains) > ddof else 0))
    assert cell.avg is not None
    return cell.avg
