"""How far a head's probabilities can be trusted: one temperature, what error is left, and what "I do not know" buys.

    p = softmax(z / T),    T = argmin sum_i w_i H(target_i, p_i)    over samples left out        (Guo et al. 2017)
    error = sum_b w_b |accuracy_b - confidence_b|    over bins of equal width

The head is not changed, and neither is what it answers. Targets are 1 - e for the sample's class and share e among the
others that have samples, e = 1/(n + 2) of n samples (Platt 1999): where all samples left out are right, T does not fall
to zero.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from ggeur.core.site_statistics import Breakdown, Covariance, FederationStatistics
from ggeur.core.types import Bool, Float, Int
from ggeur.federation.folds import Fold, folds_of, sample_folds, unseen
from ggeur.federation.local_clients import Clients, merged_statistics
from ggeur.federation.start import one_shot_head
from ggeur.heads import resolve as resolve_head
from ggeur.heads.head import double_logits
from ggeur.methods.algorithm import Candidate, Task

_BINS = 15
_RANGE = np.log(1e-3), np.log(1e6)  # of T
THRESHOLDS = (*np.round(np.arange(0, 1, 0.05), 2).tolist(), 0.97, 0.99, 0.999)


class CrossValidatedScores(NamedTuple):
    """Logits (n, C) of samples by heads that did not see them, their classes, and what each sample counts for."""

    logits: Float
    y: Int
    weight: Float  # (n,), of sum 1


class LocalFolds(NamedTuple):
    """Clients, each with the fold of every sample of it."""

    clients: Clients
    number: int  # of folds
    fold: Sequence[Int]

    @classmethod
    def of(cls, clients: Clients, number: int, seed: int, least: int = 0) -> "LocalFolds":
        """With at `least` so many samples of a group in each fold that has any of it."""
        each = [
            sample_folds(clients.y[samples], clients.domains[samples], number, seed, k, least)
            for k, samples in enumerate(clients.parts)
        ]
        return cls(clients, number, each)

    def _in(self, fold: Fold, client: int) -> Bool:
        samples = self.clients.parts[client]
        if fold.groups is None:
            return np.asarray(self.fold[client] == fold.number)
        return fold.groups[self.clients.domains[samples], self.clients.y[samples]]

    def rows_in(self, fold: Fold) -> Int:
        """All samples of `fold`, client after client."""
        return np.concatenate([samples[self._in(fold, k)] for k, samples in enumerate(self.clients.parts)])

    def total(self, fold: Fold, needs: Covariance, apart: Breakdown | None) -> FederationStatistics:
        """The statistics of all samples but those of `fold`: `needs` of their total, `apart` of every domain."""
        kept = [samples[~self._in(fold, k)] for k, samples in enumerate(self.clients.parts)]
        return merged_statistics(self.clients._replace(parts=kept), needs, apart=apart)


def cross_validated_scores(folds: LocalFolds, candidate: Candidate, task: Task, seed: int) -> CrossValidatedScores:
    """Return what a candidate says of samples, and where groups are unseen of whole groups, that are left
    out.

    Each group counts as it does where a head is chosen: once where it was seen, and those left out whole stand for the
    unseen ones.
    """
    clients, solved = folds.clients, candidate.solved
    head, count = resolve_head(solved.head), clients.group_counts()
    each = folds_of(count, folds.number, seed)
    left = np.any([f.groups for f in each if f.groups is not None] or [count < 0], axis=0)
    logits, y, weight = [], [], []
    for fold in each:
        params = one_shot_head(solved, candidate.name, folds.total(fold, solved.needs, solved.apart), task, seed)
        samples = folds.rows_in(fold)
        found = double_logits(head, params, clients.x[samples])
        assert found is not None
        logits.append(found)
        y.append(clients.y[samples])
        one = 1.0 if fold.groups is None else unseen(count) / left.sum()
        weight.append(one / count[clients.domains[samples], clients.y[samples]])
    w = np.concatenate(weight)
    return CrossValidatedScores(np.concatenate(logits), np.concatenate(y), w / w.sum() if len(w) else w)


def temperature(scores: CrossValidatedScores) -> float:
    """T, by which logits are divided.

    >>> rng = np.random.default_rng(0)
    >>> z, y = 3 * rng.normal(size=(20000, 4)), np.zeros(20000, int)
    >>> y[:] = [rng.choice(4, p=p) for p in softmax(z / 3, axis=1)]
    >>> 2.8 < temperature(CrossValidatedScores(z, y, np.full(20000, 1 / 20000))) < 3.2
    True
    """
    z, y, weight = scores
    n, classes = z.shape
    held = np.isin(np.arange(classes), y)  # of a class without samples a head says nothing that could be trusted
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
    """The expected calibration error of probabilities `p` (n, C) of samples of classes `y`, in percent."""
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


def trusted(scores: CrossValidatedScores, t: float) -> dict[str, Any]:
    """Return what samples say of probabilities at the temperature `t`: how many, the error before and after, and
    coverage.
    """
    before, after = (np.asarray(softmax(scores.logits / one, axis=1)) for one in (1.0, t))
    error, left = (calibration_error(p, scores.y, scores.weight) for p in (before, after))
    return {
        "samples": len(scores.y),
        "error_before": round(error, 3),
        "error": round(left, 3),
        "coverage": [[round(v, 4) for v in point] for point in coverage(after, scores.y, scores.weight)],
    }
