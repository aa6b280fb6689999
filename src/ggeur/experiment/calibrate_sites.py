"""The temperature of a one-shot classifier, fitted on training samples left out; and what its probabilities are then
worth.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ggeur.core.errors import GgeurError, GgeurWarning
from ggeur.experiment.sites import Site
from ggeur.experiment.solution import Solution, together
from ggeur.federation.temperature_scaling import (
    CrossValidatedScores,
    LocalFolds,
    at_bound,
    cross_validated_scores,
    temperature,
    trusted,
)
from ggeur.heads import resolve as resolve_head
from ggeur.heads.head import Params, double_logits
from ggeur.methods.algorithm import Candidate, Task

_FOLDS, _MORE = (4,), (8, 16)  # where samples are many, and where they are few
_MANY = 8  # samples for each dimension; below, a head of three fourths of them is another than that of all
_MOST = 0.25  # of log T, from the first of these numbers of folds to the second


def calibrated(
    sites: Sequence[Site], names: tuple[str, ...], solution: Solution, params: Params, least: int = 0
) -> dict[str, Any]:
    """Return what model.json says of the calibration of the head `params`; nothing where samples left out cannot tell.

    Heads that are asked for samples left out have seen a share f fewer than the one that is served, and are less sure
    or more for it. Where samples are few, log T is therefore found for two such shares, f and f / 2, and followed on to
    none,

        log T = log T(f/2) + (log T(f/2) - log T(f)),

    but not where it moves so far that this is no more than a guess. A fold has at `least` so many samples of a group,
    or none.
    """
    clients, _, _ = together(sites, names)
    candidate = Candidate(solution.method, solution.constants, solution.solved)
    few = len(clients.y) < _MANY * clients.x.shape[1]
    each = []
    try:
        for n in _MORE if few else _FOLDS:
            folds = LocalFolds.of(clients, n, solution.seed, least)
            _keep_some(folds)
            each.append(cross_validated_scores(folds, candidate, Task(clients.x.shape[1], names), solution.seed))
    except (GgeurError, np.linalg.LinAlgError) as error:
        warnings.warn(f"The probabilities are not calibrated: {error}", GgeurWarning, stacklevel=3)
        return {}
    if not all(len(scores.y) for scores in each):
        warnings.warn("The probabilities are not calibrated: every class would be left out whole.", GgeurWarning, 3)
        return {}
    first, last = temperature(each[0]), temperature(each[-1])
    if at_bound(last):
        warnings.warn("The probabilities are not calibrated: samples left out look like chance.", GgeurWarning, 3)
        return {}
    moved = np.log(last / first)
    if abs(moved) > _MOST:
        warnings.warn(
            f"The probabilities are not calibrated: {len(clients.y):,} samples in {clients.x.shape[1]} dimensions are "
            f"too "
            "few to tell from heads that have seen fewer of them.",
            GgeurWarning,
            stacklevel=3,
        )
        return {}
    t = float(last * np.exp(moved))
    found: dict[str, Any] = {"temperature": t, "folds": folds.number, "validation": trusted(each[-1], last)}
    if few:
        found["validation"]["temperature"] = last  # of heads that lack samples, by which their error is told
    if len(clients.y) < clients.x.shape[1]:
        found["rough"] = True  # samples left out then say less of new ones than their number promises
    tested = [s for s in sites if s.test.any()]
    if tested:
        c = together(tested, names, test=True).clients
        logits = double_logits(resolve_head(solution.solved.head), params, c.x)
        assert logits is not None
        found["test"] = trusted(CrossValidatedScores(logits, c.y, np.full(len(c.y), 1 / len(c.y))), t)
    return found


def _keep_some(folds: LocalFolds) -> None:
    """Leave out no class whole: what a head says that has never seen it, no temperature mends."""
    y = [folds.clients.y[samples] for samples in folds.clients.parts]
    each = list(zip(folds.fold, y, strict=True))
    for c in np.unique(np.concatenate(y)).tolist():
        if len(np.unique(np.concatenate([fold[own == c] for fold, own in each]))) == 1:
            for fold, own in each:
                fold[own == c] = -1  # which is in none
