"""What a row of the table cost one client, and how soon it was there."""

from collections.abc import Sequence
from typing import NamedTuple

from ggeur.report.entries import Entry


class Cost(NamedTuple):
    """Means over the seeds that finished; None where there is nothing to say."""

    name: str
    condition: str
    sent: float | None  # bytes of one client in the whole run, statistics included
    received: float | None
    steps: float | None  # of a client in a round
    reached: float | None  # rounds to 95 % of the final AVG
    seconds: float | None


def cost(entry: Entry) -> Cost:
    """The cost of one row."""
    cells = [c for c in entry.row.cells if c.status == "ok"]
    sent, received, seconds = (
        _mean([getattr(cell, name) for cell in cells]) for name in ("bytes_up", "bytes_down", "seconds")
    )
    return Cost(entry.name, entry.condition, sent, received, entry.local_steps, entry.rounds_to_95, seconds)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
