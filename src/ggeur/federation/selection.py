"""Selecting a one-shot classifier by cross-validation on synthetic samples: a function of the statistics alone.

The server makes samples with the exact moments of every group (`synthetic`) and cross-validates the candidates on them.
No fold is sent, no candidate goes to a site. A federation is asked for every class in every domain:

    seen groups    K folds of the synthetic samples: solve without a fold, score the fold
    unseen groups  only where there are any: leave whole groups out of the statistics, score draws of them
    unheld classes only where a candidate knows classes by text: leave all groups of some classes out

Every group counts alike; what groups left out whole score stands for those that nobody holds. Another candidate than
the default is taken only if it is the best, by more than one standard error over groups. Gaussian groups are easier
than real ones: ranks are right, levels are not, so that no estimate here is an accuracy.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ggeur.federation.folds import Fold, folds_of, unheld, unseen
from ggeur.federation.start import one_shot_head
from ggeur.federation.synthetic import GroupCovariances, SyntheticSamples, synthetic_samples
from ggeur.heads import resolve as resolve_head
from ggeur.heads.blend import joined
from ggeur.heads.head import Params, double_logits
from ggeur.methods.algorithm import Candidate, Selection, Task
from ggeur.stats.errors import Unavailable
from ggeur.stats.long_jobs import phase
from ggeur.stats.seeding import generator
from ggeur.stats.site_statistics import FederationStatistics, SiteStatistics
from ggeur.stats.types import Bool, Float, Int

# Fixed on development samples (tools/selection_study.py), with filled groups among the candidates: over ten
# federations a mean regret of 0.21 points, 0.22 with pooled moments. With margins from 0 to 2, or the blend for a
# default, it was 0.2 to 0.7.
DEFAULTS = ("ggeur-limit", "blend", "lda", "ridge")  # the first of these among the candidates is the default
MARGIN = 1.0  # standard errors by which another candidate must lead
DRAWS = 100  # of each group that is left out whole
_KINDS = ("samples", "groups", "groups of whole classes")  # that are left out


class Scores(NamedTuple):
    """Each candidate's accuracy on every group of synthetic samples, by classifiers solved without them."""

    share: Float  # (candidates, scored groups); NaN for a candidate that is not available here
    weight: Float  # (scored groups,), of sum 1
    whole: bool = False  # whether groups were left out whole
    known: bool = True  # whether unseen groups, if there are any, could be scored

    @property
    def estimate(self) -> Float:
        """(candidates,): the weighted mean over groups, of which the order counts and not the level."""
        return np.asarray(self.share @ self.weight)

    def lead(self, first: int, second: int) -> tuple[float, float]:
        """Return by how much the first candidate is ahead of the second, and its standard error over groups."""
        ahead = self.share[first] - self.share[second]
        mean, n = float(ahead @ self.weight), np.count_nonzero(self.weight)
        return mean, float(np.sqrt((self.weight**2 * (ahead - mean) ** 2).sum() * n / max(n - 1, 1)))


class Selected(NamedTuple):
    """Which candidate was selected, and the ranking that it was selected by."""

    taken: int
    default: int
    ranking: tuple[int, ...]  # candidates, the best first; none where unseen groups could not be scored
    lead: float = 0.0  # of the best over the default, in points
    error: float = 0.0  # standard error of that lead
    unavailable: Mapping[int, Unavailable] = {}
    behind: Mapping[int, float] = {}  # points of each that ranks, against the first: at most zero
    on: str = "synthetic samples"  # it was cross-validated
    why: str = ""  # where a public rule selected, which looks at no statistics

    def expected(self, candidates: Sequence[Candidate]) -> dict[str, float]:
        """Return by label, best first, how many points each ranked candidate is behind the best."""
        return {candidates[i].label: self.behind[i] for i in self.ranking}

    def sentence(self, candidates: Sequence[Candidate]) -> str:
        """Say what was selected, by which rule, and how the methods rank."""
        if self.why:
            return self.why
        names = [c.label for c in candidates]
        taken, default = names[self.taken], names[self.default]
        if not self.ranking:
            return f"Selected {taken}, the default: no class is held in two domains, so no group can be left out."
        methods = list(dict.fromkeys(candidates[i].name for i in self.ranking))
        ranking = f" Ranking on {self.on}, which is no accuracy: {', '.join(methods)}."
        best = names[self.ranking[0]]
        ahead = f"{self.lead:.2g} points with a standard error of {self.error:.2g}"
        if best == default:
            return f"Selected {taken}, the default, which ranks first of {len(self.ranking)} candidates.{ranking}"
        if self.taken == self.default:
            return f"Selected {taken}, the default: {best} leads by {ahead}, which is not more than one.{ranking}"
        return f"Selected {taken}: it ranks first and leads the default {default} by {ahead}.{ranking}"


def select(
    chosen: Selection,
    by_domain: Sequence[SiteStatistics],
    task: Task,
    seed: int,
    default: str | None = None,
    makings: int = 1,
    real: SyntheticSamples | None = None,
) -> Selected:
    """Return which of the candidates to take, given the statistics of every domain, or site, and nothing else.

    `default` is the label of the candidate that another must beat: by default the first of `DEFAULTS` that is there.
    The scores are averaged over `makings` of the synthetic samples; where `real` samples are given, they stand in for
    these.
    """
    unavailable: dict[int, Unavailable] = {}
    each = [cross_validated(chosen, by_domain, task, seed, unavailable, making, real) for making in range(makings)]
    scores = each[0]._replace(share=np.mean([one.share for one in each], axis=0))
    found = by_rule(chosen.candidates, scores, default, unavailable)
    return found if real is None else found._replace(on="real samples")


def by_rule(
    candidates: Sequence[Candidate],
    scores: Scores,
    default: str | None = None,
    unavailable: Mapping[int, Unavailable] | None = None,
    margin: float = MARGIN,
) -> Selected:
    """Return the best candidate if it leads the default by more than `margin` standard errors, else the default."""
    lost = unavailable or {}
    able = [i for i in range(len(candidates)) if i not in lost]
    if not able:
        raise lost[0]
    start = _default(candidates, able, default)
    if not scores.known:
        return Selected(start, start, (), unavailable=lost)
    estimate = scores.estimate
    ranking = tuple(sorted(able, key=lambda i: -estimate[i]))
    if estimate[start] == estimate[ranking[0]]:  # the default before others that are as good
        ranking = (start, *(i for i in ranking if i != start))
    lead, error = scores.lead(ranking[0], start)
    taken = ranking[0] if lead > margin * error else start
    behind = {i: min(100 * float(estimate[i] - estimate[ranking[0]]), 0.0) for i in ranking}
    return Selected(taken, start, ranking, 100 * lead, 100 * error, lost, behind)


def _default(candidates: Sequence[Candidate], able: Sequence[int], default: str | None) -> int:
    """The candidate of that label, or the first of `DEFAULTS` that is there; else the first of all."""
    for name in DEFAULTS if default is None else (default,):
        for i in able:
            if name in (candidates[i].label, candidates[i].name):
                return i
    return able[0]


def cross_validated(
    chosen: Selection,
    by_domain: Sequence[SiteStatistics],
    task: Task,
    seed: int,
    unavailable: dict[int, Unavailable],
    making: int = 0,
    real: SyntheticSamples | None = None,
) -> Scores:
    """Return each candidate's accuracy on synthetic samples, or `real` ones, and on whole groups it was solved without.

    Candidates that cannot be solved here are put into `unavailable`, by their number.
    """
    phase("select")
    samples = synthetic_samples(by_domain, seed, making=making) if real is None else real
    made = samples.made
    folds = folds_of(made, chosen.folds, seed, by_text=bool(task.text) and chosen.wants_text)
    nothing = np.zeros(len(samples.y), np.bool_)
    start = solved_candidates(chosen, samples.without(nothing, chosen.needs, chosen.apart), task, seed, {}, unavailable)
    right = np.zeros((len(_KINDS), len(chosen.candidates), *made.shape))
    for number, part in enumerate(validation(samples, folds, chosen.folds, seed, making)):
        phase("select", number, len(folds))
        total = samples.without(part.left, chosen.needs, chosen.apart)
        parts: dict[int, Float] = {}
        for i, params in solved_candidates(chosen, total, task, seed, start, unavailable).items():
            hit = logits_of(chosen.candidates[i].solved.head, params, part.x, parts).argmax(axis=1) == part.y
            np.add.at(right[part.kind, i], (part.domain[hit], part.y[hit]), 1)
    whole = np.any([f.groups for f in folds if f.groups is not None and not f.classes] or [made < 0], axis=0)
    return _scores(right, made, whole, folds[-1].classes, unavailable)


class ValidationFold(NamedTuple):
    """A validation fold: the samples that are left out, and those that are scored in their place."""

    left: Bool  # (n,), of the synthetic samples
    kind: int  # position in _KINDS
    x: Float
    y: Int
    domain: Int


def validation(
    samples: SyntheticSamples, folds: Sequence[Fold], n_folds: int, seed: int, making: int = 0
) -> Iterator[ValidationFold]:
    """Yield each of `folds`: samples as they are, one of `n_folds` parts of each group, or draws of whole groups."""
    fold = samples.folds(n_folds, seed)
    covariances = GroupCovariances.of(samples.statistics) if any(f.groups is not None for f in folds) else None
    for one in folds:
        if one.groups is None or covariances is None:
            left = fold == one.number
            yield ValidationFold(left, 0, samples.samples(left), samples.y[left], samples.domain[left])
            continue
        groups = np.argwhere(one.groups)
        each = [
            covariances.draws(d, c, DRAWS, generator(seed, "group draws", making, d, c)) for d, c in groups.tolist()
        ]
        d, c = np.repeat(groups, DRAWS, axis=0).T
        yield ValidationFold(one.groups[samples.domain, samples.y], 2 if one.classes else 1, np.concatenate(each), c, d)


def solved_candidates(
    chosen: Selection,
    total: FederationStatistics,
    task: Task,
    seed: int,
    start: Mapping[int, Params],
    unavailable: dict[int, Unavailable],
) -> dict[int, Params]:
    """The parameters of every candidate by its number, near those of `start`; of none that is not available."""
    found: dict[int, Params] = {}
    for i, (name, _, solved) in enumerate(chosen.candidates):
        if i in unavailable:
            continue
        try:
            if solved.approximate is not None:
                found[i] = solved.approximate(total, task, start.get(i))
            else:
                found[i] = one_shot_head(solved, name, total, task, seed)
        except Unavailable as error:
            unavailable[i] = error
    return found


def logits_of(head: str, params: Params, x: Float, known: dict[int, Float]) -> Float:
    """The logits (n, C) of a solved `head`; of heads that share a mixture, which is what takes time, it is `known`."""
    if head == "blend":
        mixture = logits_of("mixture", params["mixture"], x, known)
        return np.asarray(joined(logits_of("linear", params["linear"], x, known), params["t"] * mixture))
    if id(params) not in known:
        logits = double_logits(resolve_head(head), params, x)
        assert logits is not None
        known[id(params)] = logits
    return known[id(params)]


def _scores(right: Float, made: Int, whole: Bool, classes: bool, unavailable: Mapping[int, Unavailable]) -> Scores:
    """From right answers (kinds, candidates, D, C): each group's share, and what it counts for."""
    here = made > 0
    parts = [(right[0] / np.maximum(made, 1), here, int(here.sum())), (right[1] / DRAWS, whole, unseen(made))]
    parts += [(right[2] / DRAWS, here, unheld(made))] if classes else []
    share = np.concatenate([one[:, of] for one, of, _ in parts], axis=1)
    share[list(unavailable)] = np.nan
    weight = np.concatenate([np.full(of.sum(), stands / max(of.sum(), 1)) for _, of, stands in parts])
    known = bool(whole.any()) or not unseen(made)
    return Scores(share, weight / weight.sum(), bool(whole.any()), known)
