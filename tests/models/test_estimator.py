"""The classifier keeps scikit-learn's contract, and agrees with scikit-learn's own on the pooled samples."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator

import ggeur
from ggeur import OneShotClassifier
from ggeur.federation.local_federation import LocalFederation
from ggeur.heads import resolve as resolve_head
from ggeur.heads import sizes
from ggeur.heads.head import double_logits
from ggeur.methods import resolve_closed_form
from ggeur.methods.algorithm import Task


@pytest.mark.parametrize("method", ["lda", "ggeur-limit"])
def test_scikit_learns_own_checks(method):
    check_estimator(OneShotClassifier(method), on_skip=None)  # one is skipped unless SciPy is set up for it


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    y = np.tile(["ant", "bee", "cat"], 60)
    sites = np.repeat(["north", "south", "west"], 60)
    x = rng.normal(size=(180, 4)) + 3 * np.eye(4)[np.tile([0, 1, 2], 60)] + (sites == "west")[:, None]
    return x, y, sites


def by_site(x, y, sites):
    return {s: (x[sites == s], y[sites == s]) for s in np.unique(sites)}


@pytest.mark.parametrize("far", [0.0, 1e5])
def test_lda_of_several_sites_is_scikit_learns_on_the_pooled_rows(samples, far):
    x, y, sites = samples
    ours = OneShotClassifier("lda", parameters={"shrinkage": 0.2}).fit_sites(by_site(x + far, y, sites))
    theirs = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.2).fit(x, y)
    # scikit-learn shrinks samples scaled to the unit variance of each column, class by class; close, and no more
    assert (ours.predict(x + far) == theirs.predict(x)).mean() > 0.98
    np.testing.assert_array_equal(ours.classes_, theirs.classes_)
    plain = OneShotClassifier("lda", parameters={"shrinkage": 0.0}).fit_sites(by_site(x + far, y, sites))
    theirs = LinearDiscriminantAnalysis(solver="lsqr").fit(x, y)
    np.testing.assert_allclose(plain.predict_proba(x + far), theirs.predict_proba(x), atol=1e-4 if not far else 2e-2)


@pytest.mark.parametrize("method", ["ggeur-limit", "mixture", "blend"])
def test_it_solves_what_a_simulated_federation_does(samples, method):
    x, y, sites = samples
    names, codes = np.unique(y, return_inverse=True)
    where = np.unique(sites, return_inverse=True)[1]
    clients = LocalFederation.of(x, codes, where, 3, [np.flatnonzero(where == s) for s in range(3)])
    solved = resolve_closed_form(method, {})
    params = solved.solve(clients.statistics(solved.query), Task(4, tuple(names)))
    logits = double_logits(resolve_head(solved.head, **sizes(solved.head, params)), params, x)
    ours = OneShotClassifier(method).fit(x, y, sites=sites).predict_proba(x)
    expected = np.exp(logits - logits.max(axis=1, keepdims=True))
    assert ours.dtype == np.float64
    np.testing.assert_allclose(ours, expected / expected.sum(axis=1, keepdims=True), atol=1e-4)


def test_batches_statistics_and_sites_give_one_head(samples):
    x, y, sites = samples
    whole = OneShotClassifier("lda").fit(x, y)
    batches = OneShotClassifier("lda").partial_fit(x[y == "ant"], y[y == "ant"])
    with pytest.raises(NotFittedError):  # of one class, there is no head yet
        batches.predict(x)
    batches.partial_fit(x[y == "bee"], y[y == "bee"]).partial_fit(x[y == "cat"], y[y == "cat"])
    codes = np.unique(y, return_inverse=True)[1]
    each = [ggeur.ClassStatistics.from_embeddings(x[sites == s], codes[sites == s], 3) for s in np.unique(sites)]
    sent = OneShotClassifier.from_statistics(each, classes=["ant", "bee", "cat"], method="lda")
    for other in (batches, sent, ggeur.fit(list(by_site(x, y, sites).values()), method="lda", calibrate=False)):
        np.testing.assert_array_equal(other.classes_, whole.classes_)
        np.testing.assert_allclose(other.predict_proba(x), whole.predict_proba(x), atol=1e-4)


def test_auto_says_what_it_took(samples):
    x, y, sites = samples
    found = OneShotClassifier("auto", parameters={"candidates": ["ncm", "lda"], "folds": 2}).fit(x, y, sites=sites)
    assert found.solution_.method in ("ncm", "lda") and found.solution_.why.startswith("Selected ")
    assert found.solution_.chosen_by == ("north", "south", "west") and found.score(x, y) > 0.9


def test_auto_needs_no_more_than_what_sites_sent(samples):
    x, y, sites = samples
    codes = np.unique(y, return_inverse=True)[1]
    each = {s: ggeur.ClassStatistics.from_embeddings(x[sites == s], codes[sites == s], 3) for s in np.unique(sites)}
    sent = OneShotClassifier.from_statistics(each, classes=["ant", "bee", "cat"], method="auto")
    whole = OneShotClassifier("auto").fit(x, y, sites=sites)
    assert sent.solution_ == whole.solution_
    np.testing.assert_allclose(sent.predict_proba(x), whole.predict_proba(x), atol=1e-6)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda c, x, y: c("auto").partial_fit(x, y), "one after the other"),
        (lambda c, x, y: c("fedavg").fit(x, y), "trained over rounds"),
        (lambda c, x, y: c("nothing").fit(x, y), "no method 'nothing'"),
        (lambda c, x, y: c("lda", parameters={"speed": 1}).fit(x, y), "no parameter 'speed'"),
        (lambda c, x, y: c("lda", covariance="none").fit(x, y), "per-class or pooled"),
        (lambda c, x, y: c().fit(x, y, sites=["a"]), "inconsistent numbers"),
        (lambda c, x, y: c().fit_sites([]), "no sites"),
        (lambda c, x, y: c().fit_sites([(x, y[:3])]), "labels of shape"),
        (lambda c, x, y: c().fit_sites([(x, y), (x[:, :2], y)]), "2 dimensions"),
        (lambda c, x, y: c().fit_sites([3]), "A site is a path"),
        (lambda c, x, y: c().fit(x, with_none(y)), "y has missing labels"),
        (lambda c, x, y: c().fit(x, y, sites=with_none(y)), "sites has missing labels"),
        (lambda c, x, y: c().fit_sites([(x, with_none(y))]), "site-0 has missing labels"),
        (lambda c, x, y: c().fit_sites([(x, np.where(y == "ant", np.nan, 1.0))]), "site-0 has missing labels"),
        (lambda c, x, y: c().fit_sites([(x, np.where(y == "ant", 3, y.astype(object)))]), "names and numbers"),
        (lambda c, x, y: c().partial_fit(x, with_none(y)), "y or classes has missing labels"),
        (lambda c, x, y: c().partial_fit(x, y, classes=["ant", None]), "y or classes has missing labels"),
        (lambda c, x, y: c().partial_fit(x, y, classes=[1, 2]), "names and numbers"),
        (lambda c, x, y: c.from_statistics(sent(x), classes=["a", None]), "classes has missing labels"),
        (lambda c, x, y: c.from_statistics([]), "no statistics"),
        (lambda c, x, y: c.from_statistics(sent(x), classes=["a", "a"]), "none of them twice"),
        (lambda c, x, y: c.from_statistics(sent(x) + sent(x[:, :2])), "must send alike"),
        (lambda c, x, y: c.from_statistics([s.of_kind("none") for s in sent(x)], method="lda"), "needs pooled"),
    ],
)
def test_bad_input_is_a_value_error(samples, wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        wrong(OneShotClassifier, *samples[:2])


def sent(x):
    return [ggeur.SiteStatistics.from_embeddings(x, np.arange(len(x)) % 2, 2)]


def with_none(y):
    return np.where(np.arange(len(y)) == 7, None, y.astype(object))


@pytest.mark.parametrize("method", ["lda", "mixture"])
def test_more_rows_may_come_for_another_method_if_the_sums_do_for_it(samples, method):
    x, y, _ = samples
    found = OneShotClassifier("ggeur-limit").partial_fit(x[::2], y[::2])  # per class, which holds what the others need
    found.set_params(method=method).partial_fit(x[1::2], y[1::2])
    np.testing.assert_allclose(found.predict_proba(x), OneShotClassifier(method).fit(x, y).predict_proba(x), atol=1e-12)
    back = found.set_params(method="ggeur-limit").partial_fit(x[:1], y[:1])
    assert {s.kind for s in back.statistics_} == {"per-class"}


@pytest.mark.parametrize("site", ["all", "another"])
def test_a_method_that_needs_more_than_was_summed_up_is_refused_and_changes_nothing(samples, site):
    x, y, _ = samples
    found = OneShotClassifier("lda").partial_fit(x[::2], y[::2])
    before = found.predict_proba(x)
    with pytest.raises(
        ValueError, match="'ggeur-limit' needs per-class second moments, and the samples so far .* to pooled"
    ):
        found.set_params(method="ggeur-limit").partial_fit(x[1::2], np.full(90, "dog"), site=site)
    np.testing.assert_array_equal(found.predict_proba(x), before)


def test_labels_that_are_numbers_of_any_kind_are_not_names():
    x = np.random.default_rng(0).normal(size=(30, 4))
    whole = ggeur.fit([(x[:20], np.tile([-1, 1], 10)), (x[20:], np.ones(10, int))], method="lda")
    assert whole.classes_.tolist() == [-1, 1]
    halves = ggeur.fit([(x[:20], np.tile([0.5, 1.5], 10)), (x[20:], np.full(10, 2.5))], method="lda")
    assert halves.classes_.tolist() == [0.5, 1.5, 2.5]
