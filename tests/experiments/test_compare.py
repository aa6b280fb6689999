"""Paired differences, against SciPy's paired t-test."""

import numpy as np
import pytest
from scipy import stats

from ggeur.experiments.result import Result, Trial, paired_difference
from refusal import refused


def rows(*columns):
    trials = [Trial("m", "k", seed, {"arm": i}, avg=v) for i, col in enumerate(columns) for seed, v in enumerate(col)]
    return Result(trials).rows()


def test_the_interval_is_that_of_the_paired_t_test():
    rng = np.random.default_rng(0)
    a, b = rng.normal(90, 2, 10).tolist(), rng.normal(89, 2, 10).tolist()
    d = paired_difference(*rows(a, b))
    expected = stats.ttest_rel(a, b).confidence_interval(0.95)
    assert (d.low, d.high) == pytest.approx((expected.low, expected.high))
    assert (d.mean, d.wins, d.seeds) == (pytest.approx(np.mean(a) - np.mean(b)), sum(np.array(a) > b), 10)


def test_only_common_finished_seeds_count():
    assert paired_difference(*rows([1.0, None, 3.0, 9.0], [0.0, 5.0, 1.0])).seeds == 2


def test_one_seed_has_no_interval():
    with refused("interval-seeds-too-few"):
        paired_difference(*rows([1.0], [2.0]))


def test_intervals_of_several_comparisons_hold_together():
    """Of 20 comparisons of equal rows, 5 % of families hold one that excludes zero, not 64 %."""
    rng = np.random.default_rng(0)
    alone = together = 0
    for _ in range(300):
        first, *others = rows(*rng.normal(50, 1, (21, 5)).tolist())
        alone += any(_excludes_zero(paired_difference(first, other)) for other in others)
        together += any(_excludes_zero(paired_difference(first, other, comparisons=20)) for other in others)
    assert alone > 100 and together < 30


def _excludes_zero(d):
    return d.low > 0 or d.high < 0
