"""Accuracy as the sites report it: right answers and rows of each domain add up to the simulation's figures."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ggeur.core.errors import GgeurError

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
