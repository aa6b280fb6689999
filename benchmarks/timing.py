"""Timing that a noisy machine cannot fool too badly: contenders take turns, and the best of each counts."""

import time
from collections.abc import Callable, Mapping
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


class Fact(NamedTuple):
    """One measurement of ours alone."""

    what: str
    work: str
    found: str


def seconds(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def best(run: Callable[[], object], repetitions: int = 3) -> float:
    """The least time of a few repetitions."""
    return min(seconds(run) for _ in range(repetitions))


def in_turn(contenders: Mapping[str, Callable[[], object]], repetitions: int = 4) -> dict[str, float]:
    """The least time of each, all measured in turn, so that what else the machine does falls on all alike."""
    times = [{name: seconds(run) for name, run in contenders.items()} for _ in range(repetitions)]
    return {name: min(t[name] for t in times) for name in contenders}
