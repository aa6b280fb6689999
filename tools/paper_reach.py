"""How soon a row is where another ends (Figure 8, Section 4.5): in rounds, in bytes and in seconds."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ggeur.report.ranking import is_solved
from ggeur.runs.result import Cell


class Reach(NamedTuple):
    """What it took, of one client's bytes both ways; None where nobody counted."""

    rounds: int
    bytes: float | None
    seconds: float | None  # of training and aggregation, all clients after each other; of a solved head, of all of it


def reach(cells: Sequence[Cell], percent: float) -> Reach | None:
    """When AVG, on average over the seeds that finished, is first at `percent`; None if it never is."""
    done = [cell for cell in cells if cell.status == "ok" and cell.rounds]
    if not done:
        return None
    if all(map(is_solved, done)):
        there = float(np.mean([cell.rounds[0] for cell in done])) >= percent
        seconds = float(np.mean([cell.seconds for cell in done]))
        return Reach(0, float(np.mean([_bytes(cell) for cell in done])), seconds) if there else None
    length = min(len(cell.rounds) for cell in done)
    curve = np.mean([cell.rounds[:length] for cell in done], axis=0)
    reached = np.flatnonzero(curve >= percent)
    if not len(reached):
        return None
    rounds = int(reached[0]) + 1
    sent = [_bytes_after(cell, rounds) for cell in done]
    took = [cell.round_seconds for cell in done]
    return Reach(
        rounds,
        float(np.mean([b for b in sent if b is not None])) if None not in sent else None,
        rounds * float(np.mean([s for s in took if s is not None])) if None not in took else None,
    )


def _bytes(cell: Cell) -> int:
    return cell.bytes_up + cell.bytes_down


def _bytes_after(cell: Cell, rounds: int) -> float | None:
    """Every round sends the same."""
    if cell.bytes_first is None:
        return None
    return cell.bytes_first + (_bytes(cell) - cell.bytes_first) * rounds / len(cell.rounds)
