"""Accuracy as the sites report it: right answers and rows of each domain add up to the simulation's figures."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggeur.core.errors import GgeurError
from ggeur.experiment.evaluation import LAST_ROUNDS, Summary, mean_accuracy, summarise

Scores = dict[str, tuple[int, int]]
MOST_TEST_ROWS = 10**12


def checked_scores(facts: Mapping[str, Any], domains: Sequence[str]) -> Scores:
    """A site's scores, or a GgeurError that ends a sentence about it."""
    given = facts.get("scores")
    if not isinstance(given, dict) or not given.keys() <= set(domains):
        raise GgeurError("its scores are not of the federation's domains")
    scores = {}
    for name, pair in given.items():
        whole = isinstance(pair, list) and len(pair) == 2 and all(type(n) is int for n in pair)
        if not whole or not 0 <= pair[0] <= pair[1] <= MOST_TEST_ROWS or pair[1] == 0:
            raise GgeurError("its scores are not numbers of right answers and rows")
        scores[name] = (pair[0], pair[1])
    return scores


def accuracy(sites: Sequence[Scores], domains: Sequence[str]) -> dict[str, float]:
    """Percent right in each domain, over all sites that hold test rows of it and answered."""
    total = {name: np.sum([s[name] for s in sites if name in s], axis=0) for name in domains}
    return {name: 100 * float(n[0] / n[1]) for name, n in total.items() if np.ndim(n)}


def by_class(confusion: NDArray[np.int64]) -> tuple[list[float | None], float | None]:
    """Recall of each class in percent (None without test rows), and macro-F1 over classes that occur."""
    hit, true, said = np.diag(confusion), confusion.sum(axis=1), confusion.sum(axis=0)
    recall = [100 * float(h / t) if t else None for h, t in zip(hit, true, strict=True)]
    occurs = true + said > 0
    if not occurs.any():
        return recall, None
    return recall, 100 * float((2 * hit[occurs] / (true + said)[occurs]).mean())


def summarise_answered(rounds: Sequence[dict[str, float]]) -> Summary | None:
    """`summarise`, but a domain whose site was away counts in the rounds in which it answered."""
    scored = [r for r in rounds if r]
    if not scored:
        return None
    if all(r.keys() == scored[-1].keys() for r in scored):
        return summarise(scored)
    last = scored[-LAST_ROUNDS:]
    names = dict.fromkeys(name for r in last for name in r)
    domains = {name: float(np.mean([r[name] for r in last if name in r])) for name in names}
    avg = mean_accuracy(domains)
    reached = next((i for i, r in enumerate(rounds, 1) if r and mean_accuracy(r) >= 0.95 * avg), None)
    values = list(domains.values())
    return Summary(domains, avg, float(np.std(values)) if len(values) > 1 else None, reached)
