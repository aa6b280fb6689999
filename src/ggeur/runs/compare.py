"""Compare two rows of a result by seed: all arms of a seed share split, partition and first head."""

from typing import NamedTuple

import numpy as np

from ggeur.core.errors import GgeurError
from ggeur.core.validate import check_is, check_whole
from ggeur.runs.result import Row


class Difference(NamedTuple):
    """The mean of a - b over common seeds, its 95 % t-interval, and the number of seeds in which a was above b."""

    mean: float
    low: float
    high: float
    wins: int
    seeds: int

    def __str__(self) -> str:
        return f"{self.mean:+.2f} [{self.low:+.2f}, {self.high:+.2f}], above in {self.wins} of {self.seeds}"


def paired_difference(a: Row, b: Row, *, comparisons: int = 1) -> Difference:
    """Return the difference of AVG between rows `a` and `b`, paired by seed; at least two must be finished in both.

    With several `comparisons`, all intervals hold at once in 95 % of cases (Bonferroni).

    >>> from ggeur.runs.result import Trial, Result
    >>> found = [("a", 0, 91), ("a", 1, 93), ("b", 0, 90), ("b", 1, 91)]
    >>> trials = [Trial(method, "none", seed, {"method": method}, avg=avg) for method, seed, avg in found]
    >>> print(paired_difference(*Result(trials).rows()))
    +1.50 [-4.85, +7.85], above in 2 of 2
    """
    from scipy import stats

    for name, row in (("a", a), ("b", b)):
        check_is(name, row, Row, "a row of a result, one of Result.rows()")
    check_whole("comparisons", comparisons)
    of_a, of_b = ({c.seed: c.avg for c in row.trials if c.avg is not None} for row in (a, b))
    seeds = sorted(of_a.keys() & of_b.keys())
    if len(seeds) < 2:
        raise GgeurError(
            "A paired interval needs at least two seeds that finished in both rows.", code="interval-seeds-too-few"
        )
    d = np.array([of_a[s] - of_b[s] for s in seeds])
    half = float(stats.t.ppf(1 - 0.025 / comparisons, len(d) - 1) * d.std(ddof=1) / np.sqrt(len(d)))
    mean = float(d.mean())
    return Difference(mean, mean - half, mean + half, int((d > 0).sum()), len(d))
