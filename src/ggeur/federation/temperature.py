"""The temperature of a one-shot classifier, fitted on synthetic samples: a function of the statistics alone.

Samples with the exact moments of every group are scored by classifiers that were solved without them, as in
`selection`, and T is fitted as on real ones (`confidence`). Gaussian groups are too easy, so that T would be too small:
a sample x of a group of mean m is first moved to

    m + sqrt(2 / u) (x - m),    u ~ chi-squared with 4 degrees of freedom,

which is Student's t with the group's covariance. A pooled covariance does not say how classes differ, and T is then far
too small where there are many: without per-class second moments a classifier stays uncalibrated.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ggeur.core.errors import Unavailable
from ggeur.core.seeding import generator
from ggeur.core.site_statistics import FederationStatistics, SiteStatistics
from ggeur.core.types import Bool, Float
from ggeur.federation.folds import folds_of, unseen
from ggeur.federation.selection import DRAWS, logits_of, solved_candidates, validation
from ggeur.federation.synthetic import synthetic_samples
from ggeur.federation.temperature_scaling import CrossValidatedScores, at_bound, temperature
from ggeur.heads.head import Params
from ggeur.methods.algorithm import Candidate, Selection, Task

_FREEDOM = 4.0  # degrees of Student's t


class Temperature(NamedTuple):
    """T, or why there is none."""

    value: float | None
    why: str = ""


def synthetic_temperature(
    candidate: Candidate, by_domain: Sequence[SiteStatistics], task: Task, seed: int, folds: int = 4
) -> Temperature:
    """Return the temperature of a solver's classifier, given the statistics of every domain, or site."""
    if any(m.kind != "per-class" for m in by_domain):
        return Temperature(None, "uncalibrated: a temperature needs per-class second moments, or test scores")
    try:
        scores = synthetic_scores(candidate, by_domain, task, seed, folds)
    except Unavailable as error:
        return Temperature(None, f"uncalibrated: {error}")
    if not len(scores.y):
        return Temperature(None, "uncalibrated: every class would be left out whole")
    found = temperature(scores)
    if at_bound(found):
        return Temperature(None, "uncalibrated: samples that are left out look like chance")
    return Temperature(found)


def synthetic_scores(
    candidate: Candidate, by_domain: Sequence[SiteStatistics], task: Task, seed: int, n_folds: int
) -> CrossValidatedScores:
    """Return logits of synthetic samples by classifiers that were solved without them, and what each counts for.

    Every seen group counts alike, and draws of groups that are left out whole stand for the unseen ones.
    """
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
