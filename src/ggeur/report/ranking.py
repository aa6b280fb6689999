"""A ranking of methods: their ranks with intervals, their costs, and a sentence with its caveat."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ggeur.experiments.result import Trial
from ggeur.methods import kind_of
from ggeur.methods.algorithm import Reference
from ggeur.paper.reproduction import Reproduction
from ggeur.report.entries import ReportEntry
from ggeur.report.tables import named
from ggeur.stats.custom import is_custom
from ggeur.stats.long_jobs import human_bytes

_CLOSE = 0.5  # points within which less to send is worth more than accuracy
_FEDERATION = ("data.", "partition.")  # keys that say which federation it is; others are for the user to choose


class RankedMethod(NamedTuple):
    """A row that could be used, on average over the federations of the run."""

    name: str
    values: tuple[float, ...]  # AVG by seed
    bytes: float  # that a client sends and receives, in all
    seconds: float
    solved: bool  # one-shot

    @property
    def avg(self) -> float:
        return float(np.mean(self.values))

    @property
    def price(self) -> str:
        """Its accuracy, and what it costs a site."""
        return f"{self.avg:.1f} %, {human_bytes(int(self.bytes))} per site"


class Ranking(NamedTuple):
    """Rows from the most accurate on; two differ significantly by `least` points or more."""

    rows: list[RankedMethod]
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
    def near(self) -> float:
        """Points from the best within which fewer bytes count more: half a point, or less where that is significant."""
        return _CLOSE if self.least is None else min(_CLOSE, self.least)

    @property
    def choice(self) -> RankedMethod:
        """The cheapest of those that are near the best."""
        near = [row for row in self.rows if self.rows[0].avg - row.avg <= self.near]
        least = min(row.bytes for row in near)
        return max((row for row in near if row.bytes <= 1.05 * least), key=lambda row: row.avg)


def ranking(entries: Sequence[ReportEntry], reading: Reproduction | None) -> Ranking | None:
    """The rows of a run that finished in all its federations with all seeds; None where there is none.

    References are no federations and have no rank.
    """
    groups: dict[str, list[ReportEntry]] = {}
    for entry in entries:
        bound = (
            not is_custom(entry.method) and kind_of(entry.method) is Reference
        )  # a finished run imports no custom code
        if entry.avg is not None and not bound:
            groups.setdefault(_name(entry, reading), []).append(entry)
    everywhere = max((len(group) for group in groups.values()), default=0)
    rows = [_candidate(name, group) for name, group in groups.items() if len(group) == everywhere]
    seeds = max((len(row.values) for row in rows), default=0)
    rows = sorted((row for row in rows if len(row.values) == seeds), key=lambda row: (-row.avg, row.bytes))
    if not rows:
        return None
    return Ranking(rows, least_difference(np.array([row.values for row in rows])), everywhere)


def _name(entry: ReportEntry, reading: Reproduction | None) -> str:
    chosen = {key: value for key, value in entry.row.settings.items() if not key.startswith(_FEDERATION)}
    if reading is not None or len(chosen) == len(entry.row.settings):
        return entry.name
    return named(chosen, entry.method, entry.row.trials[0].augment)


def _candidate(name: str, group: Sequence[ReportEntry]) -> RankedMethod:
    trials = [trial for entry in group for trial in entry.row.trials if trial.status == "ok" and trial.avg is not None]
    by_seed: dict[int, list[float]] = {}
    for trial in trials:
        assert trial.avg is not None
        by_seed.setdefault(trial.seed, []).append(trial.avg)
    return RankedMethod(
        name,
        tuple(float(np.mean(by_seed[seed])) for seed in sorted(by_seed) if len(by_seed[seed]) == len(group)),
        float(np.mean([trial.bytes_up + trial.bytes_down for trial in trials])),
        float(np.mean([trial.seconds for trial in trials])),
        all(map(is_solved, trials)),
    )


def is_solved(trial: Trial) -> bool:
    """Return whether the trial had no rounds: its head was computed directly, and scored once."""
    return not trial.local_steps and len(trial.rounds) == 1


def least_difference(values: "np.ndarray[tuple[int, int], np.dtype[np.float64]]") -> float | None:
    """Return the least difference of the means of two rows of `values` (rows, seeds) that is significant at 95 %.

    Tukey's honest difference for all pairs at once, with seeds for blocks: what a seed does to all rows does not count.
    """
    from scipy import stats

    n, k = values.shape
    if k < 2 or n < 2:
        return None
    free = (n - 1) * (k - 1)
    rest = values - values.mean(axis=1, keepdims=True) - values.mean(axis=0) + values.mean()
    return float(stats.studentized_range.ppf(0.95, n, free)) * math.sqrt(float((rest**2).sum()) / free / k)


def recommendation(found: Ranking) -> list[str]:
    """Return what to use on this federation: the most accurate, how sure that is, and what is cheaper or one-shot."""
    best, pick = found.rows[0], found.choice
    equal = [row for row in found.rows if row.values == best.values]
    names = best.name
    if others := [row.name for row in equal[1:]]:
        names += f" (and {', '.join(others)}, with the same figures)"
    where = f" on average over {found.federations} settings" if found.federations > 1 else ""
    caveat = _significance(found, found.rows[len(equal) :])
    said = [f"Highest accuracy{where}: {names}, {best.price}{caveat}."]
    if pick not in equal:
        said.append(f"Cheaper and within {found.near:.1f} points of it: {pick.name}, {pick.price}.")
    solved = next((row for row in found.rows if row.solved), None)
    if solved is not None and solved is not pick and solved not in equal:
        said.append(f"Highest accuracy of a one-shot classifier: {solved.name}, {solved.price}.")
    return said


def _significance(found: Ranking, others: Sequence[RankedMethod]) -> str:
    """Return whether the lead of the best over the `others` is significant, as the end of a sentence."""
    if not others:
        return ""
    all_of_them = f"the other {len(others)} methods" if len(others) > 1 else others[0].name
    if found.least is None:
        return f"; one seed cannot show whether its lead over {all_of_them} is significant"
    seeds = f"with {len(found.rows[0].values)} seeds its lead over"
    close = [row.name for row in others if found.rows[0].avg - row.avg <= found.least]
    if not close:
        return f"; {seeds} {all_of_them} is significant"
    if len(close) == len(others):
        return f"; {seeds} {all_of_them} is not significant"
    which = " and ".join(close) if len(close) < 3 else f"{len(close)} of {all_of_them}"
    return f"; {seeds} {which} is not significant"
