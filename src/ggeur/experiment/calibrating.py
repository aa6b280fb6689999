"""The temperature of a solved head, fitted on training rows left out; and what its probabilities are then worth."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ggeur.core.errors import GgeurError, GgeurWarning
from ggeur.experiment.sites import Site
from ggeur.experiment.solution import Solution, together
from ggeur.federation.confidence import LeftOutScores, left_out_scores, temperature, trusted
from ggeur.federation.left_out import SimulatedFolds
from ggeur.heads import resolve as resolve_head
from ggeur.heads.head import Params, double_logits
from ggeur.methods.algorithm import Candidate, Chosen, Task

_FOLDS = 4


def calibrated(
    sites: Sequence[Site], names: tuple[str, ...], solution: Solution, params: Params, least: int = 0
) -> dict[str, Any]:
    """What model.json says of the calibration of the head `params`; nothing where rows left out cannot tell.

    A fold has at `least` so many rows of a cell, or none, as those that heads are chosen by.
    """
    clients, _, _ = together(sites, names)
    one = Chosen((Candidate(solution.method, solution.constants, solution.solved),), _FOLDS)
    try:
        folds = SimulatedFolds.of(clients, one, solution.seed, least)
        scores = left_out_scores(folds, Task(clients.x.shape[1], names), solution.seed)
    except (GgeurError, np.linalg.LinAlgError) as error:
        warnings.warn(f"The probabilities are not calibrated: {error}", GgeurWarning, stacklevel=3)
        return {}
    t = temperature(scores)
    left_out = trusted(scores, t)
    if left_out["error"] > left_out["error_before"]:
        warnings.warn(
            "The probabilities are not calibrated: no temperature makes those of rows left out better.",
            GgeurWarning,
            stacklevel=3,
        )
        return {}
    found: dict[str, Any] = {"temperature": t, "folds": _FOLDS, "left_out": left_out}
    tested = [s for s in sites if s.test.any()]
    if tested:
        c = together(tested, names, test=True).clients
        logits = double_logits(resolve_head(solution.solved.head), params, c.x)
        assert logits is not None
        found["test"] = trusted(LeftOutScores(logits, c.y, np.full(len(c.y), 1 / len(c.y))), t)
    return found
