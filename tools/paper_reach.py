"""How soon a row is where another ends (Figure 8, Section 4.5): in rounds, in bytes and in seconds."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ggeur.experiments.result import Trial
from ggeur.report.ranking import is_solved


class Reach(NamedTuple):
    """What it took, of one client's bytes both ways; None where nobody counted."""

    rounds: int
    bytes: float | None
    seconds: (
        float | None
    )  # of training and aggregation, all clients after each other; of a one-shot classifier, of all of it


def reach(trials: Sequence[Trial], percent: float) -> Reach | None:
    """When AVG, on average over the seeds that finished, is first at `percent`; None if it never is."""
    done = [trial for trial in trials if trial.status == "ok" and trial.rounds]
    if not done:
        return None
    if all(map(is_solved, done)):
        there = float(np.mean([trial.rounds[0] for trial in done])) >= percent
        seconds = float(np.mean([trial.seconds for trial in done]))
        return Reach(0, float(np.mean([_bytes(trial) for trial in done])), seconds) if there else None
    length = min(len(trial.rounds) for trial in done)
    curve = np.mean([trial.rounds[:length] for trial in done], axis=0)
    reached = np.flatnonzero(curve >= percent)
    if not len(reached):
        return None
    rounds = int(reached[0]) + 1
    sent = [_bytes_after(trial, rounds) for trial in done]
    took = [trial.round_seconds for trial in done]
    return Reach(
        rounds,
        float(np.mean([b for b in sent if b is not None])) if None not in sent else None,
        rounds * float(np.mean([s for s in took if s is not None])) if None not in took else None,
    )


def _bytes(trial: Trial) -> int:
    return trial.bytes_up + trial.bytes_down


def _bytes_after(trial: Trial, rounds: int) -> float | None:
    """Every round sends the same."""
    if trial.bytes_first is None:
        return None
    return trial.bytes_first + (_bytes(trial) - trial.bytes_first) * rounds / len(trial.rounds)
