"""Metrics from counts of sites: scikit-learn's on the pooled samples, and bounds where sites withhold counts."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax
from sklearn import metrics as sk

from ggeur.federation.metrics import Bounded, count_metrics, score_metrics, wilson
from ggeur.federation.score_counts import count_scores


def predictions(seed, n=300, classes=4, strength=1.5):
    rng = np.random.default_rng(seed)
    y = rng.choice(classes, n, p=rng.dirichlet(np.full(classes, 3.0)))
    z = rng.normal(size=(n, classes))
    z[np.arange(n), y] += strength
    return softmax(z, axis=1), y, rng.integers(3, size=n)


def counted(p, y, owner, least=0, groups=None):
    return [
        count_scores(p[owner == k], y[owner == k], least, None if groups is None else groups[owner == k])
        for k in np.unique(owner)
    ]


@settings(max_examples=25)
@given(st.integers(0, 2**31), st.sampled_from([2, 3, 7]), st.sampled_from([0.0, 1.0, 4.0]))
def test_metrics_are_scikit_learns_on_the_pooled_samples(seed, classes, strength):
    p, y, owner = predictions(seed, 200, classes, strength)
    sites = counted(p, y, owner)
    bounded, guess, held = Bounded.of([(s, 0) for s in sites]), p.argmax(axis=1), np.unique(y)
    found = count_metrics(bounded)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert found["accuracy"].low == found["accuracy"].high == pytest.approx(sk.accuracy_score(y, guess), abs=1e-12)
        assert found["balanced_accuracy"].value == pytest.approx(sk.balanced_accuracy_score(y, guess), abs=1e-12)
        f1 = sk.f1_score(y, guess, labels=held, average="macro", zero_division=0)
        assert found["macro_f1"].low == pytest.approx(f1, abs=1e-12)
        for name, score in (("recall", sk.recall_score), ("precision", sk.precision_score), ("f1", sk.f1_score)):
            each = score(y, guess, labels=held, average=None, zero_division=0)
            assert [found["classes"][c][name].high for c in held] == pytest.approx(list(each), abs=1e-12)
    np.testing.assert_array_equal(bounded.low, sk.confusion_matrix(y, guess, labels=range(classes)))
    for c in held:
        own = score_metrics(sites, c, 0.9, 1.0)
        if len(held) == 1:
            assert own["auroc"] is None
            continue
        # Samples in one bin may be in any order: half of their pairs at most.
        place = np.minimum((p[:, c] * 100).astype(int), 99)
        pairs = [np.bincount(place[y == c], minlength=100), np.bincount(place[y != c], minlength=100)]
        slack = (pairs[0] * pairs[1]).sum() / pairs[0].sum() / pairs[1].sum() / 2
        assert abs(own["auroc"].value - sk.roc_auc_score(y == c, p[:, c])) <= slack + 1e-12
        middle = (place + 0.5) / 100
        assert own["auroc"].value == pytest.approx(
            sk.roc_auc_score(y == c, middle), abs=0.01 if classes == 2 else 1e-12
        )
        check_sensitivity(own["sensitivity"], p[:, c], y == c)
        error = np.abs(np.bincount(place, (y == c) - middle, minlength=100)).sum() / len(y)
        assert own["calibration_error"] == pytest.approx(error, abs=0.011 if classes == 2 else 1e-12)


def check_sensitivity(found, score, positive):
    """The share of the class at the threshold that is named, which is the least that keeps the specificity."""
    t = found["threshold"]
    below = (score[~positive] < t - 1e-9).mean()
    assert found["specificity"] == pytest.approx(below, abs=0.02) and found["specificity"] >= 0.9
    assert found["value"].value == pytest.approx((score[positive] >= t - 1e-9).mean(), abs=0.05)


@settings(max_examples=40)
@given(st.integers(0, 2**31), st.sampled_from([2, 3, 6]), st.sampled_from([5, 10]), st.sampled_from([1.0, 3.0, 5.0]))
def test_what_is_withheld_bounds_the_metrics(seed, classes, least, strength):
    p, y, owner = predictions(seed, 400, classes, strength)
    sites = counted(p, y, owner, least)
    kept = np.concatenate([np.bincount(y[owner == k], minlength=classes)[y[owner == k]] >= least for k in range(3)])
    order = np.concatenate([np.flatnonzero(owner == k) for k in range(3)])[kept]
    p, y, guess = p[order], y[order], p[order].argmax(axis=1)
    bounded, held = Bounded.of([(s, least) for s in sites]), np.unique(y)
    found, true = count_metrics(bounded), sk.confusion_matrix(y, guess, labels=range(classes))
    assert (bounded.low <= true).all() and (true <= bounded.high).all()
    assert bounded.right[0] <= (y == guess).sum() <= bounded.right[1]
    for name, value in (
        ("accuracy", sk.accuracy_score(y, guess)),
        ("balanced_accuracy", sk.balanced_accuracy_score(y, guess)),
        ("macro_f1", sk.f1_score(y, guess, labels=held, average="macro", zero_division=0)),
    ):
        assert found[name].low - 1e-12 <= value <= found[name].high + 1e-12
    for name, score in (("recall", sk.recall_score), ("precision", sk.precision_score), ("f1", sk.f1_score)):
        each = score(y, guess, labels=held, average=None, zero_division=0)
        for c, value in zip(held, each, strict=True):
            assert found["classes"][c][name].low - 1e-12 <= value <= found["classes"][c][name].high + 1e-12
    for c in held:
        auroc = score_metrics(sites, c, 0.9, 1.0)["auroc"]
        if auroc is not None:
            assert auroc.low - 1e-9 <= sk.roc_auc_score(y == c, p[:, c]) <= auroc.high + 1e-9


def test_intervals_cover_what_they_should():
    """Of samples that are right with probability 0.8, 95 % of the intervals hold 0.8; so with groups of alike ones."""
    rng = np.random.default_rng(0)
    for size in (1, 10):
        covered = 0
        for _ in range(300):
            groups = np.repeat(np.arange(60), size)
            right = np.repeat(rng.random(60) < 0.8, size)
            p = np.where(right[:, None], [0.9, 0.1], [0.1, 0.9])
            one = count_scores(p, np.zeros(60 * size, int), 0, groups)
            interval = count_metrics(Bounded.of([(one, 0)]))["accuracy"].interval
            covered += interval[0] <= 0.8 <= interval[1]
        assert covered >= 0.92 * 300, size


def test_wilson_by_hand():
    low, high = wilson(8, 8, 10)
    assert (round(low, 3), round(high, 3)) == (0.490, 0.943)  # as in tables
    assert wilson(10, 10, 10)[1] == pytest.approx(1) and wilson(0, 0, 0) is None


def test_nothing_to_tell_apart_is_no_metric():
    one = count_scores(np.array([[0.9, 0.1]]), np.array([0]))
    assert score_metrics([one], 0, 0.9, 1.0) == {"auroc": None, "sensitivity": None, "calibration_error": None}
