"""AFL, Fed3R, FedCGS and FedPFT: equal to what is fitted to the pooled samples by other means, where they are exact."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge

import ggeur
from ggeur.methods import checked_parameters, resolve_closed_form
from ggeur.methods.algorithm import Task
from ggeur.methods.oneshot.fedpft import gaussian_draws
from ggeur.models.joining import forget_site
from ggeur.stats.site_statistics import Breakdown, FederationStatistics, SiteStatistics
from refusal import refused

N, P, CLASSES = 60, 4, 3
partitions = st.lists(st.integers(0, 4), min_size=N, max_size=N)
seeds = st.integers(0, 2**31)


def samples(seed):
    """Correlated samples of three classes, every class held, with a mean far from zero."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.concatenate([np.repeat(np.arange(CLASSES), 6), rng.integers(CLASSES, size=N - 18)]))
    return rng.normal(size=(N, P)) @ rng.normal(size=(P, P)) + 2 * rng.normal(size=(CLASSES, P))[y] + 1.5, y


def solve(name, x, y, owner=None, n_classes=CLASSES, seed=0, **parameters):
    owner = np.zeros(len(y), int) if owner is None else np.asarray(owner)
    solved = resolve_closed_form(name, parameters)
    parts = [SiteStatistics.from_embeddings(x[owner == k], y[owner == k], n_classes) for k in np.unique(owner)]
    messages = [(0, part.of_kind(solved.needs)) for part in parts]
    task = Task(x.shape[1], tuple(map(str, range(n_classes))), None, (seed,))
    return solved.solve(FederationStatistics.of(messages, solved.apart), task)


def absolute_aggregation(x, y, owner, gamma):
    """AFL as its authors write it: two clients at a time by the aggregation law, then the removal, all in float64."""
    one_hot, eye = np.eye(CLASSES)[y], np.eye(P)
    w, c, clients = None, None, np.unique(owner)
    for k in clients:
        mine = owner == k
        c_k = x[mine].T @ x[mine] + gamma * eye
        w_k = np.linalg.solve(c_k, x[mine].T @ one_hot[mine])
        if w is None:
            w, c = w_k, c_k
            continue
        r, r_k, both = np.linalg.inv(c), np.linalg.inv(c_k), np.linalg.inv(c + c_k)
        w = (eye - r @ c_k + r @ c_k @ both @ c_k) @ w + (eye - r_k @ c + r_k @ c @ both @ c) @ w_k
        c = c + c_k
    return w, w + len(clients) * gamma * np.linalg.inv(c - len(clients) * gamma * eye) @ w


@settings(max_examples=30)
@given(seeds, partitions, st.sampled_from([0.1, 1.0, 10.0]))
def test_afl_is_the_aggregation_law_and_its_removal_and_least_squares_on_the_pooled_samples(seed, owner, gamma):
    (x, y), owner = samples(seed), np.array(owner)
    kept, removed = absolute_aggregation(x, y, owner, gamma)
    near = {"rtol": 1e-4, "atol": 1e-5 * np.abs(removed).max()}
    found = solve("afl", x, y, owner, gamma=gamma)
    np.testing.assert_allclose(found["W"], removed.T, **near)
    pooled = LinearRegression(fit_intercept=False).fit(x, np.eye(CLASSES)[y])
    np.testing.assert_allclose(found["W"], pooled.coef_, **near)
    assert not found["b"].any()
    np.testing.assert_allclose(solve("afl", x, y, owner, gamma=gamma, remove=False)["W"], kept.T, **near)
    penalty = gamma * len(np.unique(owner))
    np.testing.assert_allclose(
        kept.T, Ridge(alpha=penalty, fit_intercept=False).fit(x, np.eye(CLASSES)[y]).coef_, **near
    )


def test_afl_takes_the_shortest_solution_where_there_are_fewer_samples_than_dimensions():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(6, 9)), np.array([0, 0, 1, 1, 2, 2])
    found = solve("afl", x, y)
    np.testing.assert_allclose(found["W"], (np.linalg.pinv(x) @ np.eye(3)[y]).T, rtol=1e-5, atol=1e-6)


@settings(max_examples=30)
@given(seeds, partitions, st.sampled_from([0.01, 1.0]))
def test_fed3r_is_ridge_on_samples_with_a_one_and_divides_by_the_length_of_the_weights(seed, owner, penalty):
    x, y = samples(seed)
    with_one = np.c_[x, np.ones(N)]
    expected = Ridge(alpha=penalty, fit_intercept=False).fit(with_one, np.eye(CLASSES)[y]).coef_
    plain = solve("fed3r", x, y, owner, penalty=penalty, normalise=False)
    np.testing.assert_allclose(np.c_[plain["W"], plain["b"]], expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())
    found, length = solve("fed3r", x, y, owner, penalty=penalty), np.linalg.norm(expected[:, :-1], axis=1)
    np.testing.assert_allclose(np.c_[found["W"], found["b"]] * length[:, None], expected, rtol=1e-3, atol=1e-5)


def test_fed3r_by_hand():
    """One dimension, samples 1 and -1 of two classes: A = [[2, 0], [0, 2]] + lambda I, so w = +-1/3 and b = 1/3."""
    x, y = np.array([[1.0], [-1.0]]), np.array([0, 1])
    plain = solve("fed3r", x, y, n_classes=2, penalty=1.0, normalise=False)
    np.testing.assert_allclose(plain["W"].ravel(), [1 / 3, -1 / 3], rtol=1e-6)
    np.testing.assert_allclose(plain["b"], [1 / 3, 1 / 3])
    found = solve("fed3r", x, y, n_classes=2, penalty=1.0)
    np.testing.assert_allclose([*found["W"].ravel(), *found["b"]], [1, -1, 1, 1], rtol=1e-6)


@settings(max_examples=30)
@given(seeds, partitions)
def test_fedcgs_scores_are_the_gaussian_ones_with_the_covariance_of_all_samples(seed, owner):
    x, y = samples(seed)
    inverse, found = np.linalg.inv(np.cov(x.T)), solve("fedcgs", x, y, owner)
    mu, prior = np.stack([x[y == c].mean(axis=0) for c in range(CLASSES)]), np.bincount(y) / N
    expected = x @ inverse @ mu.T - np.einsum("cp,pq,cq->c", mu, inverse, mu) / 2 + np.log(prior)
    scores = x @ found["W"].astype(np.float64).T + found["b"]
    apart = expected - expected.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(scores - scores.mean(axis=1, keepdims=True), apart, rtol=1e-4, atol=1e-4)


def test_fedcgs_is_lda_where_classes_have_one_size_and_two_of_them_are_told_apart():
    rng = np.random.default_rng(3)
    y = np.repeat([0, 1], 100)
    x = rng.normal(size=(200, 3)) @ rng.normal(size=(3, 3)) + y[:, None]
    found = solve("fedcgs", x, y, n_classes=2)
    w, lda = found["W"][1] - found["W"][0], LinearDiscriminantAnalysis(solver="lsqr").fit(x, y)
    np.testing.assert_allclose(w / np.linalg.norm(w), lda.coef_[0] / np.linalg.norm(lda.coef_), rtol=1e-4)


SOON = {"epochs": 5, "batch_size": 32}


@pytest.fixture(scope="module")
def groups():
    """Two clients that hold both classes at different places: one Gaussian for each class would not do."""
    rng = np.random.default_rng(0)
    owner, y = np.repeat([0, 1], 600), np.tile([0, 1], 600)
    mu = np.array([[[-4.0, 1.5], [-4.0, -1.5]], [[4.0, 1.5], [4.0, -1.5]]])
    return mu[owner, y] + rng.normal(size=(1200, 2)) * [0.3, 1.0], y, owner


def test_fedpft_comes_close_to_what_is_trained_on_the_samples_themselves(groups):
    x, y, owner = groups
    found = solve("fedpft", x, y, owner, n_classes=2, epochs=20)
    scores = x @ found["W"].astype(np.float64).T + found["b"]
    best = LogisticRegression().fit(x, y).predict(x)
    assert (scores.argmax(axis=1) == best).mean() > 0.98 and (best == y).mean() > 0.9


def test_fedpft_draws_as_many_as_each_client_has_with_its_mean_and_covariance(groups):
    x, y, owner = groups
    mine = np.r_[np.flatnonzero(owner == 0), np.flatnonzero((owner == 1) & (y == 1))[:1]]  # and one sample elsewhere
    parts = [
        SiteStatistics.from_embeddings(x[mine][own], y[mine][own], 2) for own in (owner[mine] == 0, owner[mine] == 1)
    ]
    total = FederationStatistics.of(((0, part) for part in parts), Breakdown("per-class", "client"))
    real = x[(owner == 0) & (y == 1)]
    for shape in ("full", "diagonal", "spherical"):
        drawn, classes = gaussian_draws(total, shape, np.random.default_rng(0))
        assert np.bincount(classes).tolist() == [300, 300]  # nothing of the single sample
        expected = np.cov(real.T, bias=True) if shape == "full" else np.diag(real.var(axis=0))
        expected = np.eye(2) * real.var(axis=0).mean() if shape == "spherical" else expected
        np.testing.assert_allclose(drawn[classes == 1].mean(axis=0), real.mean(axis=0), atol=0.2)
        np.testing.assert_allclose(np.cov(drawn[classes == 1].T), expected, atol=0.2 * np.abs(expected).max())


def test_fedpft_draws_from_the_mean_where_every_client_has_a_single_sample():
    x, y = np.eye(3), np.array([0, 1, 1])
    parts = [SiteStatistics.from_embeddings(x[[k]], y[[k]], 2) for k in range(3)]
    total = FederationStatistics.of(((0, part) for part in parts), Breakdown("per-class", "client"))
    drawn, classes = gaussian_draws(total, "full", np.random.default_rng(0))
    assert classes.tolist() == [0, 1, 1]
    np.testing.assert_allclose(drawn[0], x[0], atol=1e-6)


def test_fedpft_is_its_key_alone(groups):
    first, again, other = (solve("fedpft", *groups, n_classes=2, seed=seed, **SOON) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first["W"], again["W"])
    assert np.abs(first["W"] - other["W"]).max() > 1e-4


def test_fit_takes_them_and_forgetting_a_site_is_exact(groups, tmp_path):
    x, y, owner = groups
    sites = {name: (x[owner == k] + 0.1 * k, y[owner == k]) for k, name in enumerate(("north", "south"))}
    sites["west"] = x[:200] - 0.2, y[:200]
    for name in ("afl", "fed3r", "fedcgs", "fedpft"):
        parameters = SOON if name == "fedpft" else {}
        whole, part = tmp_path / f"{name}-all", tmp_path / f"{name}-two"
        ggeur.fit(sites, method=name, parameters=parameters, out=whole, calibrate=False)
        forget_site(whole, "west")
        two = {key: sites[key] for key in ("north", "south")}
        ggeur.fit(two, method=name, parameters=parameters, out=part, calibrate=False)
        assert (whole / "head.npz").read_bytes() == (part / "head.npz").read_bytes()


def test_what_is_wrong_with_their_parameters_is_one_sentence():
    for name, wrong in (("afl", {"gamma": -1}), ("fed3r", {"penalty": 0}), ("fedpft", {"shape": "round"})):
        with refused("hyperparameter-invalid"):
            checked_parameters(name, wrong)
    with refused("hyperparameter-unknown"):
        checked_parameters("fedcgs", {"gamma": 0.1})
