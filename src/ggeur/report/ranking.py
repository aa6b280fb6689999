"""Which row to use: their ranks with intervals, their costs, and one sentence that decides."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ggeur.core.names import is_own
from ggeur.experiment.plan import human_bytes
from ggeur.methods import kind_of
from ggeur.methods.algorithm import Bound
from ggeur.paper.reproduction import Reproduction
from ggeur.report.entries import Entry
from ggeur.report.tables import label
from ggeur.runs.result import Cell

_CLOSE = 0.5  # points within which less to send is worth more than accuracy
_FEDERATION = ("data.", "partition.")  # keys that say which federation it is; others are for the user to choose


class Candidate(NamedTuple):
    """A row that could be used, on average over the federations of the run."""

    name: str
    values: tuple[float, ...]  # AVG by seed
    bytes: float  # that a client sends and receives, in all
    seconds: float
    solved: bool  # from one message
    cells: tuple[Cell, ...]

    @property
    def avg(self) -> float:
        return float(np.mean(self.values))

    @property
    def price(self) -> str:
        rounds = max(len(cell.rounds) for cell in self.cells)
        size = human_bytes(int(self.bytes))
        return f"one message, {size} per client" if self.solved else f"{rounds} rounds, {size} per client"


class Ranking(NamedTuple):
    """Rows from the most accurate on; two are told apart from a difference of `least` points on."""

    rows: list[Candidate]
    least: float | None  # None with one seed
    federations: int

    def interval(self, i: int) -> tuple[int, int]:
        """The best and the worst rank that row i may have."""
        if self.least is None:
            return 1, len(self.rows)
        above = sum(other.avg - self.rows[i].avg > self.least for other in self.rows)
        below = sum(self.rows[i].avg - other.avg > self.least for other in self.rows)
        return 1 + above, len(self.rows) - below

    @property
    def choice(self) -> Candidate:
        """The cheapest of those that nobody can tell from the best and that are half a point from it at most."""
        within = _CLOSE if self.least is None else min(_CLOSE, self.least)
        near = [row for row in self.rows if self.rows[0].avg - row.avg <= within]
        least = min(row.bytes for row in near)
        return max((row for row in near if row.bytes <= 1.05 * least), key=lambda row: row.avg)


def ranking(entries: Sequence[Entry], reading: Reproduction | None) -> Ranking | None:
    """The rows of a run that finished in all its federations with all seeds; None where there are not two.

    Bounds are no federations and have no rank.
    """
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        bound = not is_own(entry.method) and kind_of(entry.method) is Bound  # a finished run needs nothing of a user's
        if entry.avg is not None and not bound:
            groups.setdefault(_name(entry, reading), []).append(entry)
    everywhere = max((len(group) for group in groups.values()), default=0)
    rows = [_candidate(name, group) for name, group in groups.items() if len(group) == everywhere]
    seeds = max((len(row.values) for row in rows), default=0)
    rows = sorted((row for row in rows if len(row.values) == seeds), key=lambda row: -row.avg)
    if len(rows) < 2:
        return None
    return Ranking(rows, least_difference(np.array([row.values for row in rows])), everywhere)


def _name(entry: Entry, reading: Reproduction | None) -> str:
    if reading is not None:
        return entry.name
    chosen = {key: value for key, value in entry.row.settings.items() if not key.startswith(_FEDERATION)}
    return label(chosen) or entry.method


def _candidate(name: str, group: Sequence[Entry]) -> Candidate:
    cells = [cell for entry in group for cell in entry.row.cells if cell.status == "ok" and cell.avg is not None]
    by_seed: dict[int, list[float]] = {}
    for cell in cells:
        assert cell.avg is not None
        by_seed.setdefault(cell.seed, []).append(cell.avg)
    return Candidate(
        name,
        tuple(float(np.mean(by_seed[seed])) for seed in sorted(by_seed) if len(by_seed[seed]) == len(group)),
        float(np.mean([cell.bytes_up + cell.bytes_down for cell in cells])),
        float(np.mean([cell.seconds for cell in cells])),
        all(map(is_solved, cells)),
        tuple(cells),
    )


def is_solved(cell: Cell) -> bool:
    """Return whether the cell had no rounds: its head was computed directly, and scored once."""
    return not cell.local_steps and len(cell.rounds) == 1


def least_difference(values: "np.ndarray[tuple[int, int], np.dtype[np.float64]]") -> float | None:
    """From what difference of means on two rows of `values` (rows, seeds) are told apart, all pairs at once at 95 %.

    Tukey's honest difference, with seeds for blocks: what a seed does to all rows alike does not count.
    """
    from scipy import stats

    n, k = values.shape
    if k < 2 or n < 2:
        return None
    free = (n - 1) * (k - 1)
    rest = values - values.mean(axis=1, keepdims=True) - values.mean(axis=0) + values.mean()
    return float(stats.studentized_range.ppf(0.95, n, free)) * math.sqrt(float((rest**2).sum()) / free / k)


def decision(found: Ranking) -> str:
    """What to use on this federation, and why, in one sentence."""
    best, pick, seeds = found.rows[0], found.choice, len(found.rows[0].values)
    where = "Use" if found.federations == 1 else f"On average over {found.federations} settings, use"
    known = f"{seeds} seeds" if seeds > 1 else "one seed"
    if pick is not best:
        gap, more = best.avg - pick.avg, best.bytes / pick.bytes
        times = f" and costs {more:,.0f} times the bytes" if more >= 1.5 else " and costs more"
        return (
            f"{where} {pick.name} ({pick.avg:.2f} %; {pick.price}): the most accurate row, {best.name}, is "
            f"{gap:.2f} points above it, which {known} cannot tell from chance,{times}."
        )
    text = f"{where} {pick.name} ({pick.avg:.2f} %; {pick.price}): no row is more accurate, and none that {known} "
    text += f"cannot tell from it and that is within {_CLOSE:g} points costs fewer bytes"
    solved = next((row for row in found.rows if row.solved), None)
    if pick.solved or solved is None:
        return f"{text}."
    return f"{text}; if one message is all that can be sent, {solved.name} has {solved.avg:.2f} %."
