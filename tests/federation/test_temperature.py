"""A temperature from statistics: that of fresh samples with Student's tails, none where moments are pooled."""

import numpy as np
import pytest

from ggeur.federation.start import one_shot_head
from ggeur.federation.temperature import CrossValidatedScores, synthetic_scores, synthetic_temperature, temperature
from ggeur.heads import resolve as resolve_head
from ggeur.heads.head import double_logits
from ggeur.methods import resolve_closed_form
from ggeur.methods.algorithm import Candidate, Task
from ggeur.stats.site_statistics import FederationStatistics, SiteStatistics

P, C = 10, 4
TASK = Task(P, tuple("abcd"))


def candidate(name, **given):
    return Candidate(name, given, resolve_closed_form(name, given))


def students(rng, n):
    """Samples of two domains with Student's tails, four degrees, and unit variance; fresh ones from the same law."""
    means = rng.normal(size=(2, C, P)) * 0.5 + rng.normal(size=(C, P)) * 0.7
    return lambda: [
        (means[d, y] + rng.normal(size=(len(y), P)) * np.sqrt(2 / rng.chisquare(4, (len(y), 1))), y)
        for d, y in enumerate([np.repeat(np.arange(C), n)] * 2)
    ]


@pytest.mark.parametrize("name", ["ggeur-limit", "mixture", "ridge"])
def test_it_is_that_of_fresh_samples_with_students_tails(name):
    one, ratio = candidate(name), []
    for seed in range(3):
        draw = students(np.random.default_rng(seed), 60)
        by_domain = [SiteStatistics.from_embeddings(x, y, C) for x, y in draw()]
        found = synthetic_temperature(one, by_domain, TASK, seed)
        total = FederationStatistics.of(
            ((d, m.of_kind(one.solved.needs)) for d, m in enumerate(by_domain)), one.solved.apart
        )
        params = one_shot_head(one.solved, name, total, TASK, seed)
        x, y = (np.concatenate(parts) for parts in zip(*(sample for _ in range(20) for sample in draw()), strict=True))
        logits = double_logits(resolve_head(one.solved.head), params, x)
        ratio.append(np.log(found.value / temperature(CrossValidatedScores(logits, y, np.full(len(y), 1 / len(y))))))
    assert np.abs(np.mean(ratio)) < 0.12, ratio


def test_unseen_groups_count_as_much_as_seen_ones_and_no_class_is_scored_that_was_left_out_whole():
    rng = np.random.default_rng(0)
    held = [(0, 1, 2), (1, 2, 3), (0, 3)]
    by_domain = [
        SiteStatistics.from_embeddings(
            rng.normal(size=(20 * len(one), P)) + np.repeat(one, 20)[:, None], np.repeat(one, 20), C
        )
        for one in held
    ]
    scores = synthetic_scores(candidate("lda"), by_domain, TASK, 0, 4)
    assert scores.weight.sum() == pytest.approx(1)
    assert scores.weight[: 8 * 20].sum() == pytest.approx(8 / 12)  # eight seen groups; draws stand for the other four
    alone = [SiteStatistics.from_embeddings(rng.normal(size=(21, P)), np.r_[np.repeat([0, 1], 10), 2], C)]
    assert set(synthetic_scores(candidate("lda"), alone, TASK, 0, 4).y) == {0, 1}


def test_it_is_a_function_of_the_statistics_and_the_seed():
    by_domain = [SiteStatistics.from_embeddings(x, y, C) for x, y in students(np.random.default_rng(1), 20)()]
    first = synthetic_temperature(candidate("ggeur-limit"), by_domain, TASK, 0)
    assert first.value == synthetic_temperature(candidate("ggeur-limit"), by_domain, TASK, 0).value
    assert first.value != synthetic_temperature(candidate("ggeur-limit"), by_domain, TASK, 1).value


def test_without_covariances_of_classes_it_stays_uncalibrated():
    by_domain = [SiteStatistics.from_embeddings(x, y, C) for x, y in students(np.random.default_rng(2), 20)()]
    for kind in ("pooled", "none"):
        found = synthetic_temperature(candidate("lda"), [m.of_kind(kind) for m in by_domain], TASK, 0)
        assert found.value is None and "per-class covariances" in found.why
    found = synthetic_temperature(candidate("text-prior"), by_domain, TASK, 0)
    assert found.value is None and "text embeddings" in found.why
    one = [SiteStatistics.from_embeddings(np.eye(C, P), np.arange(C), C)]
    assert synthetic_temperature(candidate("lda"), one, TASK, 0).why == "every class would be left out whole"
