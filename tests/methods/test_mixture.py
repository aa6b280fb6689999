"""`mixture` is a mixture of Gaussians: with one site scikit-learn's LDA, with several what SciPy's densities say."""

import jax
import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp
from scipy.stats import multivariate_normal
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from ggeur.heads import resolve as resolve_head
from ggeur.heads.head import double_logits
from ggeur.methods import resolve_closed_form
from ggeur.methods.algorithm import Task
from ggeur.methods.oneshot.mixture import group_means
from ggeur.stats.site_statistics import Breakdown, FederationStatistics, SiteStatistics

C, P = 3, 4
TASK = Task(P, tuple("abc"))


def samples(rng, n, classes=range(C), shift=0.0):
    y = rng.choice(list(classes), n)
    mix = np.eye(P) + 0.4 * rng.normal(size=(P, P))
    return rng.normal(size=(n, P)) @ mix + 2 * np.eye(C, P)[y] + shift, y


def scores(name, params, x):
    return double_logits(resolve_head(resolve_closed_form(name, {}).head), params, x)


def test_one_site_without_shrinkage_is_scikit_learns_lda():
    rng = np.random.default_rng(0)
    x, y = samples(rng, 200)
    total = FederationStatistics.of([(0, SiteStatistics.from_embeddings(x, y, C))], Breakdown("pooled"))
    found = scores("mixture", resolve_closed_form("mixture", {"shrinkage": 0.0}).solve(total, TASK), x)
    expected = LinearDiscriminantAnalysis(solver="svd", priors=np.ones(C) / C).fit(x, y)
    assert (found.argmax(axis=1) == expected.predict(x)).all()
    decision = expected.decision_function(x)
    np.testing.assert_allclose(found - found[:, :1], decision - decision[:, :1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("tau", [0.0, 50.0, np.inf])
def test_several_sites_are_a_mixture_of_their_densities(tau):
    rng = np.random.default_rng(1)
    sites = [samples(rng, 150, shift=s) for s in range(3)]
    messages = [SiteStatistics.from_embeddings(x, y, C).of_kind("pooled") for x, y in sites]
    total = FederationStatistics.of(enumerate(messages), Breakdown("pooled"))
    params = resolve_closed_form("mixture", {"tau": tau, "shrinkage": 0.05, "fill": 1e-9}).solve(total, TASK)
    x = np.concatenate([x for x, _ in sites])
    scatter = [
        sum((x[y == c] - x[y == c].mean(0)).T @ (x[y == c] - x[y == c].mean(0)) for c in range(C)) for x, y in sites
    ]
    within = sum(scatter) / 450
    log = []
    for (x_s, y_s), own in zip(sites, scatter, strict=True):
        sigma = within if np.isinf(tau) else (own + tau * within) / (150 + tau)
        sigma = 0.95 * sigma + 0.05 * np.trace(sigma) / P * np.eye(P)
        log.append([multivariate_normal(x_s[y_s == c].mean(0), sigma).logpdf(x) for c in range(C)])
    expected = logsumexp(np.array(log), axis=0).T
    found = scores("mixture", params, x)
    np.testing.assert_allclose(found - found[:, :1], expected - expected[:, :1], rtol=1e-4, atol=2e-4)


def test_a_group_that_nobody_has_seen_has_the_additive_mean():
    rng = np.random.default_rng(2)
    a, b = np.array([[0.0] * P, [5.0] * P, [-3.0] * P]), rng.normal(size=(C, P)) * 4
    sites = []
    for s, classes in enumerate([(0, 1, 2), (0, 1), (2, 0)]):
        y = np.repeat(classes, 400)
        sites.append(SiteStatistics.from_embeddings(a[s] + b[y] + 0.01 * rng.normal(size=(len(y), P)), y, C))
    found = group_means(tuple(sites), 10.0)
    np.testing.assert_allclose(found, a[:, None] + b[None], atol=0.2)  # a penalty of one sample draws a_s towards zero
    few = SiteStatistics.from_embeddings((a[1] + b[2] + 7.0)[None], [2], C)  # one sample, seven off, which ten gainsay
    pulled = group_means((sites[0], sites[1] + few, sites[2]), 10.0)[1, 2] - (a[1] + b[2])
    assert (pulled > 0.4).all() and (pulled < 1.2).all()


def test_together_the_log_probabilities_add_up():
    rng = np.random.default_rng(3)
    sites = [samples(rng, 90, shift=s) for s in range(2)]
    messages = [(d, SiteStatistics.from_embeddings(x, y, C)) for d, (x, y) in enumerate(sites)]
    both = resolve_closed_form("blend", {"t": 0.3, "tau": 20.0, "shrinkage": 0.2})
    params = both.solve(FederationStatistics.of(messages, both.apart), TASK)
    x = sites[0][0]
    linear = resolve_closed_form("ggeur-limit", {}).solve(FederationStatistics.of(messages, Breakdown("none")), TASK)
    mixture = resolve_closed_form("mixture", {"tau": 20.0, "shrinkage": 0.2}).solve(
        FederationStatistics.of(messages, Breakdown("pooled")), TASK
    )
    expected = log_softmax(x @ linear["W"].T + linear["b"], axis=1) + log_softmax(
        0.3 * scores("mixture", mixture, x), axis=1
    )
    np.testing.assert_allclose(scores("blend", params, x), expected, atol=1e-5)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(params))


@pytest.mark.parametrize("name", ["mixture", "ggeur-limit", "blend"])
@pytest.mark.parametrize("seed", range(6))
def test_a_row_a_group_has_no_scatter_but_rounding_and_is_its_own_nearest_mean(name, seed):
    x = np.random.default_rng(seed).normal(size=(2, C, 16)) * 3
    messages = [(d, SiteStatistics.from_embeddings(x[d], np.arange(C), C)) for d in range(2)]
    solved = resolve_closed_form(name, {})
    params = solved.solve(FederationStatistics.of(messages, solved.apart), Task(16, tuple("abc")))
    found = scores(name, params, x.reshape(-1, 16))
    assert np.isfinite(found).all() and (found.argmax(axis=1) == np.tile(np.arange(C), 2)).all()


@pytest.mark.parametrize("given", [{"shrinkage": 0.0}, {"tau": 0.0}, {"tau": 0.0, "shrinkage": 0.0}])
def test_fewer_rows_than_dimensions_and_dead_coordinates_are_no_trouble(given):
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(12, 30)), np.arange(12) % C
    x[:, 5:] *= (np.arange(25) % 2)[None]  # half of the coordinates are zero everywhere
    messages = [
        (0, SiteStatistics.from_embeddings(x[:11], y[:11], C)),
        (1, SiteStatistics.from_embeddings(x[11:], y[11:], C)),
    ]
    params = resolve_closed_form("mixture", given).solve(
        FederationStatistics.of(messages, Breakdown("pooled")), Task(30, tuple("abc"))
    )
    assert np.isfinite(scores("mixture", params, x)).all()


def test_together_near_a_known_solution_the_linear_part_is_sought_from_there():
    rng = np.random.default_rng(8)
    messages = [(d, SiteStatistics.from_embeddings(*samples(rng, 90, shift=d), C)) for d in range(2)]
    both = resolve_closed_form("blend", {})
    total = FederationStatistics.of(messages, both.apart)
    exact = both.solve(total, TASK)
    near = both.approximate(
        FederationStatistics(total.count, total.sum, total.second, total.center, total.apart, total.domain), TASK, exact
    )
    x = samples(rng, 50)[0]
    np.testing.assert_allclose(scores("blend", near, x), scores("blend", exact, x), atol=1e-3)
