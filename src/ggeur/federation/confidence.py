"""How far a head's probabilities can be trusted: one temperature, what error is left, and what "I do not know" buys.

    p = softmax(z / T),    T = argmin sum_i w_i H(target_i, p_i)    over rows left out        (Guo et al. 2017)
    error = sum_b w_b |accuracy_b - confidence_b|    over bins of equal width

The head is not changed, and neither is what it answers. Targets are 1 - e for the row's class and share e among the
others that have rows, e = 1/(n + 2) of n rows (Platt 1999): where all rows left out are right, T does not fall to zero.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from ggeur.core.types import Float, Int
from ggeur.federation.choosing import folds_of, unseen
from ggeur.federation.left_out import SimulatedFolds
from ggeur.federation.start import solved_head
from ggeur.heads import resolve as resolve_head
from ggeur.heads.head import double_logits
from ggeur.methods.algorithm import Task

_BINS = 15
_RANGE = np.log(1e-3), np.log(1e6)  # of T
THRESHOLDS = (*np.round(np.arange(0, 1, 0.05), 2).tolist(), 0.97, 0.99, 0.999)


class LeftOutScores(NamedTuple):
    """Logits (n, C) of rows by heads that did not see them, their classes, and what each row counts for."""

    logits: Float
    y: Int
    weight: Float  # (n,), of sum 1


def left_out_scores(folds: SimulatedFolds, task: Task, seed: int) -> LeftOutScores:
    """What the one candidate of `folds` says of rows, and where cells are unseen of whole cells, that are left out.

    Each cell counts as it does where a head is chosen: once where it was seen, and those left out whole stand for the
    unseen ones.
    """
    (candidate,) = folds.chosen.candidates
    head, count, clients = resolve_head(candidate.solved.head), folds.count(), folds.clients
    each = folds_of(count, folds.chosen.folds, seed)
    left = np.any([f.cells for f in each if f.cells is not None] or [count < 0], axis=0)
    logits, y, weight = [], [], []
    for fold in each:
        params = solved_head(candidate.solved, candidate.name, folds.total(fold), task, seed)
        rows = folds.rows_in(fold)
        found = double_logits(head, params, clients.x[rows])
        assert found is not None
        logits.append(found)
        y.append(clients.y[rows])
        one = 1.0 if fold.cells is None else unseen(count) / left.sum()
        weight.append(one / count[clients.domains[rows], clients.y[rows]])
    w = np.concatenate(weight)
    return LeftOutScores(np.concatenate(logits), np.concatenate(y), w / w.sum() if len(w) else w)


def temperature(scores: LeftOutScores) -> float:
    """T, by which logits are divided.

    >>> rng = np.random.default_rng(0)
    >>> z, y = 3 * rng.normal(size=(20000, 4)), np.zeros(20000, int)
    >>> y[:] = [rng.choice(4, p=p) for p in softmax(z / 3, axis=1)]
    >>> 2.8 < temperature(LeftOutScores(z, y, np.full(20000, 1 / 20000))) < 3.2
    True
    """
    z, y, weight = scores
    n, classes = z.shape
    held = np.isin(np.arange(classes), y)  # of a class without rows a head says nothing that could be trusted
    e = 1 / (n + 2) if held.sum() > 1 else 0.0

    def loss(log_t: float) -> float:
        p = log_softmax(z / np.exp(log_t), axis=1)
        own = p[np.arange(n), y]
        others = (p[:, held].sum(axis=1) - own) / max(held.sum() - 1, 1)
        return -float(weight @ ((1 - e) * own + e * others))

    return float(np.exp(minimize_scalar(loss, bounds=_RANGE, method="bounded", options={"xatol": 1e-4}).x))


def at_bound(t: float) -> bool:
    """Whether no temperature was found: the last that is tried makes all answers equally likely, or sure."""
    low, high = _RANGE
    return not low + 0.01 < np.log(t) < high - 0.01


def calibration_error(p: Float, y: Int, weight: Float) -> float:
    """The expected calibration error of probabilities `p` (n, C) of rows of classes `y`, in percent."""
    sure, right = p.max(axis=1), p.argmax(axis=1) == y
    place = np.minimum((sure * _BINS).astype(np.int64), _BINS - 1)
    gap = np.bincount(place, weight * (right - sure), minlength=_BINS)
    return float(100 * np.abs(gap).sum() / weight.sum())


def coverage(p: Float, y: Int, weight: Float, thresholds: Sequence[float] = THRESHOLDS) -> list[list[float]]:
    """[threshold, percent answered, percent of these right] for answers of at least each of these probabilities.

    Of thresholds above which nothing is answered, there is nothing to say.
    """
    sure, right = p.max(axis=1), p.argmax(axis=1) == y
    found = []
    for threshold in thresholds:
        said = weight[sure >= threshold].sum()
        if said > 0:
            hits = weight[(sure >= threshold) & right].sum()
            found.append([threshold, float(100 * said / weight.sum()), float(100 * hits / said)])
    return found


def trusted(scores: LeftOutScores, t: float) -> dict[str, Any]:
    """What rows say of probabilities at the temperature `t`: how many, the error before and after, and coverage."""
    before, after = (np.asarray(softmax(scores.logits / one, axis=1)) for one in (1.0, t))
    error, left = (calibration_error(p, scores.y, scores.weight) for p in (before, after))
    return {
        "rows": len(scores.y),
        "error_before": round(error, 3),
        "error": round(left, 3),
        "coverage": [[round(v, 4) for v in point] for point in coverage(after, scores.y, scores.weight)],
    }
