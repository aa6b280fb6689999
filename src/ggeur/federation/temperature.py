"""How far a classifier's probabilities can be trusted: one temperature, the error that is left, and what refusing buys.

    p = softmax(z / T),    T = argmin sum_i w_i H(target_i, p_i)    over samples it has not seen     (Guo et al. 2017)
    error = sum_b w_b |accuracy_b - confidence_b|    over bins of equal width

The answers do not change. Targets are 1 - e for the sample's class and share e among the others that have samples,
e = 1/(n + 2) of n samples (Platt 1999): where all are right, T does not fall to zero.

T is a function of the statistics alone. Synthetic samples with the exact moments of every group are scored by
classifiers that were solved without them, as in `selection`. Gaussian groups are too easy, so that T would be too
small: a sample x of a group of mean m is first moved to

    m + sqrt(2 / u) (x - m),    u ~ chi-squared with 4 degrees of freedom,

which is Student's t with the group's covariance. A pooled covariance does not say how classes differ, and T is then far
too small where there are many: without per-class covariances a classifier is calibrated by test samples, or not at all.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import softmax

from ggeur.federation.folds import folds_of, unseen
from ggeur.federation.selection import DRAWS, logits_of, solved_candidates, validation
from ggeur.federation.synthetic import synthetic_samples
from ggeur.heads.head import Params
from ggeur.methods.algorithm import Candidate, Selection, Task
from ggeur.stats.errors import Unavailable
from ggeur.stats.long_jobs import phase
from ggeur.stats.seeding import generator
from ggeur.stats.site_statistics import FederationStatistics, SiteStatistics
from ggeur.stats.threads import single_threaded
from ggeur.stats.types import Bool, Float, Int

_BINS = 15
_RANGE = np.log(1e-3), np.log(1e6)  # of T
_FREEDOM = 4.0  # degrees of Student's t
_FOLDS, _MORE = (4,), (8, 16)  # where samples are many, and where they are few
_MANY = 8  # samples for each dimension; below, a head of three fourths of them is another than that of all
_MOST = 0.25  # of log T, from the first of these numbers of folds to the second
THRESHOLDS = (*np.round(np.arange(0, 1, 0.05), 2).tolist(), 0.97, 0.99, 0.999)


class CrossValidatedScores(NamedTuple):
    """Logits (n, C) of samples by classifiers that did not see them, their classes, and what each sample counts for."""

    logits: Float
    y: Int
    weight: Float  # (n,), of sum 1


class Temperature(NamedTuple):
    """T, or why there is none."""

    value: float | None
    why: str = ""


def calibration(found: Temperature, tested: CrossValidatedScores | None) -> dict[str, Any]:
    """Return the calibration that a model states: its temperature and its source, and the error on test samples.

    Where the statistics have `found` no temperature, it is that of the `tested` samples, if there are any.
    """
    t, said = found.value, {"source": "statistics"}
    if t is None and tested is not None and not at_bound(value := temperature(tested)):
        t, said = value, {"source": "test samples"}
    if t is None:
        return {"why": found.why}
    return {"temperature": t, **said} | ({} if tested is None else {"test": trusted(tested, t)})


@single_threaded
def synthetic_temperature(
    candidate: Candidate, by_domain: Sequence[SiteStatistics], task: Task, seed: int
) -> Temperature:
    """Return the temperature of a solver's classifier, given the statistics of every domain, or site.

    Classifiers that are asked have seen a share f of the samples fewer than the one that is served, and are less sure
    or more for it. Where samples are few, log T is therefore found for two such shares, f and f / 2, and followed on to
    none,

        log T = log T(f/2) + (log T(f/2) - log T(f)),

    but not where it moves so far that this is no more than a guess.
    """
    if any(m.kind != "per-class" for m in by_domain):
        return Temperature(None, "a temperature needs per-class covariances, or test samples")
    n, p = sum(float(m.count.sum()) for m in by_domain), by_domain[0].dimension
    values = []
    try:
        for folds in _MORE if n < _MANY * p else _FOLDS:
            scores = synthetic_scores(candidate, by_domain, task, seed, folds)
            if not len(scores.y):
                return Temperature(None, "every class would be left out whole")
            values.append(temperature(scores))
    except (Unavailable, np.linalg.LinAlgError) as error:
        return Temperature(None, str(error))
    if at_bound(values[-1]):
        return Temperature(None, "samples that are left out look like chance")
    moved = np.log(values[-1] / values[0])
    if abs(moved) > _MOST:
        few = f"{n:,.0f} samples in {p} dimensions are too few to tell from classifiers that have seen fewer of them"
        return Temperature(None, few)
    return Temperature(float(values[-1] * np.exp(moved)))


def synthetic_scores(
    candidate: Candidate, by_domain: Sequence[SiteStatistics], task: Task, seed: int, n_folds: int
) -> CrossValidatedScores:
    """Return logits of synthetic samples by classifiers that were solved without them, and what each counts for.

    Every seen group counts alike, and draws of groups that are left out whole stand for the unseen ones.
    """
    phase("calibrate")
    samples = synthetic_samples(by_domain, seed)
    chosen, made = Selection((candidate,), n_folds), samples.made
    folds = folds_of(made, n_folds, seed)
    means = np.stack([m.mean for m in samples.statistics])

    def solved(left: Bool, start: Mapping[int, Params]) -> tuple[FederationStatistics, Params]:
        total, lost = samples.without(left, chosen.needs, chosen.apart), dict[int, Unavailable]()
        found = solved_candidates(chosen, total, task, seed, start, lost)
        if lost:
            raise lost[0]
        return total, found[0]

    start = {0: solved(np.zeros(len(samples.y), np.bool_), {})[1]}
    whole = sum(int(f.groups.sum()) for f in folds if f.groups is not None)
    logits, y, weight = [], [], []
    for number, part in enumerate(validation(samples, folds, n_folds, seed)):
        phase("calibrate", number, len(folds))
        total, params = solved(part.left, start)
        scored = total.present[part.y]  # no temperature mends what is said of a class that was left out whole
        c, d = part.y[scored], part.domain[scored]
        x = _heavier(part.x[scored], means[d, c], generator(seed, "student", number))
        logits.append(logits_of(candidate.solved.head, params, x, {}))
        y.append(c)
        weight.append(1 / made[d, c] if part.kind == 0 else np.full(len(c), unseen(made) / whole / DRAWS))
    w = np.concatenate(weight)
    return CrossValidatedScores(np.concatenate(logits), np.concatenate(y), w / w.sum() if len(w) else w)


def _heavier(x: Float, mean: Float, rng: np.random.Generator) -> Float:
    """Samples `x` (n, p) of groups of these means, with the tails of Student's t."""
    stretch = np.sqrt((_FREEDOM - 2) / rng.chisquare(_FREEDOM, len(x)))
    return np.asarray(mean + stretch[:, None] * (x - mean))


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
    below = z - z.max(axis=1, keepdims=True)  # of the largest logit, which every temperature leaves the largest
    own = below[np.arange(n), y]
    others = (below[:, held].sum(axis=1) - own) / max(held.sum() - 1, 1)
    target, work = (1 - e) * own + e * others, np.empty_like(below)

    def loss(log_t: float) -> float:
        t = np.exp(log_t)
        np.exp(np.divide(below, t, out=work), out=work)
        return -float(weight @ (target / t - np.log(work.sum(axis=1))))

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
    """Return the calibration of probabilities at temperature `t`: samples, error before and after, and coverage."""
    before, after = (np.asarray(softmax(scores.logits / one, axis=1)) for one in (1.0, t))
    error, left = (calibration_error(p, scores.y, scores.weight) for p in (before, after))
    return {
        "samples": len(scores.y),
        "error_before": round(error, 3),
        "error": round(left, 3),
        "coverage": [[round(v, 4) for v in point] for point in coverage(after, scores.y, scores.weight)],
    }
