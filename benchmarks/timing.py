"""Timing that a noisy machine cannot fool too badly: the best of a few repetitions, and ratios within one run."""

import time
from collections.abc import Callable
from typing import NamedTuple


class Line(NamedTuple):
    """One comparison: what was done, our time and the other's for the same work, in seconds."""

    what: str
    work: str
    ours: float
    other: float

    @property
    def ratio(self) -> float:
        return self.other / self.ours


def best(run: Callable[[], object], repetitions: int = 3) -> float:
    """The least time of a few repetitions."""
    times = []
    for _ in range(repetitions):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return min(times)
