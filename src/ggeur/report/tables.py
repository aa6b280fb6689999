"""A result as the table people read: mean and interval over seeds, beside what the paper printed; also in LaTeX."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ggeur.experiments.result import Result, Row, Trial
from ggeur.federation.evaluation import LAST_ROUNDS
from ggeur.paper.paper_tables import PublishedTable, published_tables
from ggeur.paper.reproduction import Arm, Column, Reproduction
from ggeur.stats.storage import packaged_toml

_SPEAK_FOR_THEMSELVES = ("arm", "train.method", "augment.kind")
_CONTESTANT = (*_SPEAK_FOR_THEMSELVES, "augment.steps")  # the keys that are compared; the others say where
_TASK = ("data", "partition", "privacy")  # sections that make it another task


class Number(NamedTuple):
    """One figure of the table: over seeds, and the paper's."""

    values: tuple[float, ...]  # one per seed; empty where nothing ran
    published: float | None = None
    remark: str = ""  # why some or all of ours is missing
    slip: str = ""  # what is wrong with the paper's figure
    comparable: bool = True  # False where another domain stands in for the paper's
    most: float = 100.0  # that such a figure can be: percent, but for seconds

    @property
    def mean(self) -> float | None:
        return float(np.mean(self.values)) if self.values else None

    @property
    def spread(self) -> float | None:
        """The sample deviation over seeds."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % t-interval of the mean over seeds, as far as such a figure can be."""
        if self.mean is None or self.spread is None:
            return None
        from scipy import stats

        half = float(stats.t.ppf(0.975, len(self.values) - 1)) * self.spread / len(self.values) ** 0.5
        return max(self.mean - half, 0.0), min(self.mean + half, self.most)

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
    trials: tuple[Trial, ...] = ()  # where it is a row of the result
    block: str = ""  # the setting that it shares with others, where the grid has several

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
    one_task: bool = True  # False where every line is of a task of its own, so that none is best

    @property
    def published(self) -> bool:
        """Does the paper print any of it? Of a stand-in for a table it does not."""
        return any(line.published for line in self.lines)

    @property
    def blocks(self) -> list[tuple[str, list[Line]]]:
        """The lines of each setting, under its name; all under "" where there is one."""
        names = dict.fromkeys(line.block for line in self.lines)
        return [(name, [line for line in self.lines if line.block == name]) for name in names]

    def best(self, column: int, block: str = "") -> float | None:
        """The largest mean of a column within a `block`, or the smallest, where small is good."""
        lines = [line for line in self.lines if line.block == block]
        means = [mean for line in lines if (mean := line.numbers[column].mean) is not None]
        small = self.unit == "seconds" or self.columns[column] == "STD"
        return (min if small else max)(means, default=None) if self.one_task else None

    def leads(self, line: Line, column: int) -> bool:
        """Return whether a `line` is the best of its block in a column."""
        mean = line.numbers[column].mean
        return mean is not None and mean == self.best(column, line.block)

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


_METHOD_NAMES = packaged_toml("report", "method_names.toml")


def method_name(method: str, augment: str = "none") -> str:
    """Return the name of a method, with what is done to its data: "FedAvg + GGEUR"."""
    shown = _METHOD_NAMES.get(method, method)
    return shown if augment == "none" else f"{shown} + {_METHOD_NAMES.get(augment, augment)}"


def label(varied: dict[str, Any]) -> str:
    """Return what sets a row apart, in a few words: the arm's name, then the values the grid varies."""
    method, augment = varied.get("train.method"), varied.get("augment.kind")
    if method is not None:
        plain = [method_name(str(method), str(augment or "none"))]
    else:
        plain = [] if augment is None else [_METHOD_NAMES.get(augment, str(augment))]
    rest = [f"{key.split('.')[-1]} {value}" for key, value in varied.items() if key not in _SPEAK_FOR_THEMSELVES]
    said = ", ".join(plain + rest)
    arm = varied.get("arm")
    return said if arm is None else f"{arm}: {said}" if said else str(arm)


def labels(rows: Sequence[Row]) -> list[str]:
    """Return the names of the rows of one result, without their arms where these tell no two rows apart."""
    varied = [_with_method(row.settings, row.trials[0].method) for row in rows]
    whole = [label(one) or row_name(row) for one, row in zip(varied, rows, strict=True)]
    short = [
        label({k: v for k, v in one.items() if k != "arm"}) or name for one, name in zip(varied, whole, strict=True)
    ]
    return short if len(set(short)) == len(set(whole)) else whole


def _with_method(varied: dict[str, Any], method: str) -> dict[str, Any]:
    """Return values in which an augmentation does not stand without the method that trains on it."""
    return {"train.method": method, **varied} if "augment.kind" in varied else varied


def setting(varied: dict[str, Any]) -> str:
    """Return where methods are compared: all that the grid varies but the method and its augmentation."""
    return label({key: value for key, value in varied.items() if key not in _CONTESTANT})


def named(varied: dict[str, Any], method: str, augment: str) -> str:
    """Return the label of values; where nothing varies, the method and what is done to its data."""
    return label(_with_method(varied, method)) or method_name(method, augment)


def contestant(varied: dict[str, Any], method: str, augment: str) -> str:
    """Return what is compared, without where."""
    return named({key: value for key, value in varied.items() if key in _CONTESTANT}, method, augment)


def row_name(row: Row) -> str:
    """Return what sets a row apart, or what it is, where nothing does."""
    first = row.trials[0]
    return named(row.settings, first.method, first.augment if first.local_steps else "none")


def average_first(table: Comparison) -> Comparison:
    """Return the table with its AVG before the domains, where a page shows it without scrolling."""
    if "AVG" not in table.columns:
        return table
    at = table.columns.index("AVG")
    order = [at, *(i for i in range(len(table.columns)) if i != at)]
    lines = tuple(line._replace(numbers=tuple(line.numbers[i] for i in order)) for line in table.lines)
    headings = tuple(table.headings[i] for i in order) if table.headings else ()
    return table._replace(columns=tuple(table.columns[i] for i in order), headings=headings, lines=lines)


def averaged(trials: Sequence[Trial]) -> str:
    """Return the rounds an accuracy is the mean of, as the end of "percent right"; "" without rounds."""
    rounds = [len(trial.rounds) for trial in trials if trial.local_steps or len(trial.rounds) > 1]
    if max(rounds, default=0) < 2:
        return ""
    trained = "" if len(rounds) == sum(bool(trial.rounds) for trial in trials) else " of what is trained"
    few = f"the {max(rounds)}" if max(rounds) < LAST_ROUNDS else "the last five"
    return f", mean of {few} rounds{trained}"


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
    where = [setting(row.settings) for row in rows]
    names = labels(rows)
    several = 1 < len(set(where)) < len(where)
    lines = []
    for i, row in sorted(enumerate(rows), key=lambda pair: where.index(where[pair[0]]) if several else 0):
        first = row.trials[0]
        name = contestant(row.settings, first.method, first.augment) if several else names[i]
        numbers = tuple(_number(row.trials, c) for c in columns)
        lines.append(Line(name, numbers, trials=tuple(row.trials), block=where[i] if several else ""))
    alone = len(set(where)) == len(where) > 1 and len({contestant(r.settings, "", "none") for r in rows}) == 1
    tasks = {tuple(v for key, v in row.settings.items() if key.split(".")[0] in _TASK) for row in rows}
    return Comparison(tuple(c.label for c in columns), tuple(lines), one_task=not (alone and len(tasks) > 1))


def _reproduced(result: Result, reading: Reproduction) -> Comparison:
    paper = published_tables().get(reading.table)
    replaced = [column.label for column in reading.columns if column.replaced]
    strange = {*replaced, "AVG", "STD"} if replaced else set()
    arms = {(arm.row, arm.part): arm for arm in reading.arms}
    absent = {(a.row, a.part): a for a in reading.absent}
    ddof = (paper.ddof if paper is not None else 0) or 0
    ran = {arm.part for arm in reading.arms}
    lines = []
    for name in reading.order:
        numbers = []
        for column in reading.columns:
            arm = arms.get((name, column.part))
            if arm is None:
                number, row = Number((), remark=absent[name, column.part].why), absent[name, column.part].published
            else:
                number, row = _number(_trials_of(result, arm, column), column, ddof, reading.measure), arm.published
            numbers.append(_beside(number, row, column, paper)._replace(comparable=column.label not in strange))
        own = [a for key, a in arms.items() if key[0] == name]
        # That a part did not run at all is said once of its columns, and not in each row.
        there = [n for n, column in zip(numbers, reading.columns, strict=True) if column.part in ran and not n.values]
        reasons = dict.fromkeys(n.remark for n in there if n.remark)
        lines.append(Line(name, tuple(numbers), any(a.control for a in own), "" if own else "; ".join(reasons)))
    unit = "seconds" if reading.measure == "seconds" else "percent"
    labels, headings = zip(*((column.label, _heading(column)) for column in reading.columns), strict=True)
    return Comparison(labels, tuple(lines), unit, headings)


def _heading(column: Column) -> str:
    """Return the paper's name of a column, and the domain that is really behind it, where that is another."""
    if column.kind != "domain" or not column.replaced:
        return column.label
    return f"{column.value} (paper: {column.label})"


def _trials_of(result: Result, arm: Arm, column: Column) -> list[Trial]:
    return [
        trial
        for trial in result.trials
        if trial.settings.get("arm") == arm.arm
        and (column.key is None or trial.settings.get(column.key) == column.value)
    ]


def _beside(number: Number, row: str, column: Column, paper: PublishedTable | None) -> Number:
    """The number with the paper's figure, and what is wrong with that, if anything is."""
    if paper is None:
        return number
    slip = paper.slip(row, column.label)
    return number._replace(published=paper.value(row, column.label), slip="" if slip is None else slip.why)


def _number(trials: Sequence[Trial], column: Column, ddof: int = 0, measure: str = "accuracy") -> Number:
    done = [c for c in trials if c.status == "ok" and c.avg is not None]
    failed = [c for c in trials if c.status != "ok"]
    remark = f"{len(failed)} of {len(trials)} seeds {failed[0].status}" if failed else ""
    if measure == "seconds":  # a first round compiles, so one alone says nothing
        # Seeds that train side by side have one clock, which is one measurement.
        seconds = tuple(dict.fromkeys(c.round_seconds for c in done if c.round_seconds is not None))
        return Number(seconds, None, remark, most=math.inf)
    return Number(tuple(_value(c, column, ddof) for c in done), None, remark)


def _value(trial: Trial, column: Column, ddof: int) -> float:
    if column.kind == "domain":
        return trial.domains[column.value]
    if column.kind == "std":
        return float(np.std(list(trial.domains.values()), ddof=ddof if len(trial.domains) > ddof else 0))
    assert trial.avg is not None
    return trial.avg


def to_latex(table: Comparison) -> str:
    """The table for a paper: booktabs, mean and deviation over seeds, the paper's figure in brackets, best in bold.

    Each setting of a sweep is a block of its own, and best is within it.
    """
    head = " & ".join(_tex(c) for c in table.headings or table.columns)
    lines = [
        "% needs \\usepackage{booktabs}",
        f"\\begin{{tabular}}{{l{'c' * len(table.columns)}}}",
        "\\toprule",
        f"Method & {head} \\\\",
        "\\midrule",
    ]
    for number, (block, own) in enumerate(table.blocks):
        if block:
            title = f"\\multicolumn{{{len(table.columns) + 1}}}{{l}}{{\\emph{{{_tex(block)}}}}} \\\\"
            lines += ["\\midrule", title] if number else [title]
        for line in own:
            cells = [_latex_number(n, table.leads(line, i)) for i, n in enumerate(line.numbers)]
            lines.append(f"{_tex(line.name)} & {' & '.join(cells)} \\\\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])


def _latex_number(number: Number, best: bool) -> str:
    printed = f" ({number.published:.2f})" if number.published is not None else ""
    if number.mean is None:
        return f"--{printed}"
    mean = f"{number.mean:.2f}"
    spread = f" $\\pm$ {number.spread:.2f}" if number.spread is not None else ""
    return (f"\\textbf{{{mean}}}" if best else mean) + spread + printed


def _tex(text: str) -> str:
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "β": r"$\beta$"}
    special |= {c: f"\\{c}" for c in "&%$#_{}"}
    return "".join(special.get(c, c) for c in text)
