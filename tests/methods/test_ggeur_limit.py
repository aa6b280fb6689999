"""`ggeur-limit` is where a bound is least: against a generic solver, differences, Monte Carlo and logistic
regression.
"""

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression

from ggeur.methods import resolve_closed_form
from ggeur.methods.algorithm import Task
from ggeur.methods.oneshot.bound import Bound, Curvature
from ggeur.methods.oneshot.descent import minimum
from ggeur.methods.oneshot.ggeur_limit import class_prototypes, shapes
from ggeur.stats.geometry import shrunk
from ggeur.stats.site_statistics import Breakdown, FederationStatistics, SiteStatistics
from refusal import refused

C, P, DECAY = 4, 5, 1e-2


@pytest.fixture(scope="module")
def case():
    """Ten points of four classes, and a covariance for every class."""
    rng = np.random.default_rng(0)
    m, y = rng.normal(size=(10, P)) * 2, np.array([0, 1, 2, 3, 0, 1, 2, 3, 0, 1])
    roots = rng.normal(size=(C, P, P)) / 2
    return m, y, rng.dirichlet(np.ones(10)), [a @ a.T for a in roots]


def naive(v, m, y, weight, t, decay):
    """The bound, term by term as it is written."""
    v = v.reshape(C, 1 + P)
    b, w = v[:, 0], v[:, 1:]
    value = decay / 2 * (w**2).sum()
    for point, c, share in zip(m, y, weight, strict=True):
        d = w - w[c]
        value += share * logsumexp([d[j] @ point + b[j] - b[c] + d[j] @ t[c] @ d[j] / 2 for j in range(C)])
    return value


@pytest.mark.parametrize("one", [False, True])
def test_value_and_gradient_are_those_of_the_equation(case, one):
    m, y, weight, t = case
    t = t[:1] if one else t
    v = np.random.default_rng(1).normal(size=(C, 1 + P))
    value, gradient, share = Bound(m, y, weight, t, np.full(P, DECAY))(v)
    np.testing.assert_allclose(share.sum(axis=1), weight)
    every = t * C if one else t
    assert value == pytest.approx(naive(v.ravel(), m, y, weight, every, DECAY), rel=1e-12)
    expected = approx_fprime(v.ravel(), naive, 1e-7, m, y, weight, every, DECAY)
    np.testing.assert_allclose(gradient.ravel(), expected, atol=1e-5)


def test_the_curvature_of_one_shape_is_the_change_of_the_gradient(case):
    m, y, weight, _ = case
    bound = Bound(m, y, weight, [np.linspace(0.1, 2, P)], np.linspace(0.01, 0.1, P))
    v, d = np.random.default_rng(1).normal(size=(2, C, 1 + P))
    found = Curvature(bound, v, bound(v))
    expected = (bound(v + 1e-6 * d).gradient - bound(v - 1e-6 * d).gradient) / 2e-6
    np.testing.assert_allclose(found.times(d), expected, atol=1e-7)
    gradient = bound(v).gradient
    step = found.solved(gradient.ravel()).reshape(v.shape)
    assert np.linalg.norm(found.times(step) - gradient) <= 0.1 * np.linalg.norm(gradient)


def test_the_curvature_of_several_shapes_is_that_of_their_mean_and_bends_upwards(case):
    m, y, weight, t = case
    several, v = Bound(m, y, weight, t, np.full(P, DECAY)), np.random.default_rng(1).normal(size=(C, 1 + P))
    place = several(v)
    one = Curvature(several._replace(shapes=[np.mean([np.diag(a) for a in t], axis=0)]), v, place)
    found, directions = Curvature(several, v, place), np.eye(C * (1 + P)).reshape(-1, C, 1 + P)
    hessian = np.stack([found.times(d).ravel() for d in directions])
    np.testing.assert_allclose(hessian, [one.times(d).ravel() for d in directions])
    np.testing.assert_allclose(hessian, hessian.T, atol=1e-12)
    assert np.linalg.eigvalsh(hessian).min() > -1e-12  # zero along a shift of b


def test_the_minimum_is_that_of_a_generic_solver_and_of_any_start(case):
    m, y, weight, t = case
    w, b = minimum(m, y, weight, t, DECAY)
    generic = minimize(naive, np.zeros(C * (1 + P)), (m, y, weight, t, DECAY), method="BFGS", options={"gtol": 1e-7}).x
    generic = generic.reshape(C, 1 + P)
    np.testing.assert_allclose(w, generic[:, 1:], atol=1e-4)
    np.testing.assert_allclose(b, generic[:, 0] - generic[:, 0].mean(), atol=1e-4)
    for seed in range(3):
        start = np.random.default_rng(seed).normal(size=(C, 1 + P)) * 10
        again = minimum(m, y, weight, t, DECAY, start)
        np.testing.assert_allclose(again[0], w, atol=1e-4)
        gradient = Bound(m, y, weight, t, np.full(P, DECAY))(np.column_stack(again[::-1]))[1]
        assert np.linalg.norm(gradient) < 1e-6


def test_it_is_never_below_the_mean_loss_of_draws_and_equal_without_noise(case):
    m, y, weight, t = case
    rng = np.random.default_rng(2)
    for v in (np.column_stack(minimum(m, y, weight, t, DECAY)[::-1]), rng.normal(size=(C, 1 + P))):
        for k in (1.0, 0.0):
            noisy = [np.linalg.cholesky(k * one + 1e-12 * np.eye(P)) for one in t]
            draws = np.stack([m + np.stack([noisy[c] @ rng.normal(size=P) for c in y]) for _ in range(4000)])
            z = draws @ v[:, 1:].T + v[:, 0]
            losses = (logsumexp(z, axis=2) - z[:, np.arange(len(y)), y]) @ weight
            bound = Bound(m, y, weight, [k * one for one in t], np.zeros(P))(v)[0]
            assert losses.mean() <= bound + 4 * losses.std() / np.sqrt(len(losses)) + 1e-12
            if k == 0:
                assert losses.mean() == pytest.approx(bound, abs=1e-5)


def message(rng, n=60, classes=C):
    y = rng.integers(classes, size=n)
    return SiteStatistics.from_embeddings(rng.normal(size=(n, P)) + rng.normal(size=(classes, P))[y], y, classes)


def test_without_noise_it_is_logistic_regression_on_prototypes():
    rng = np.random.default_rng(3)
    total = FederationStatistics.of([(d, message(rng)) for d in range(3)], Breakdown("none"))
    found = resolve_closed_form("ggeur-limit", {"scale": 0.0, "decay": 0.01}).solve(total, Task(P, tuple("abcd")))
    units = total.units
    m, y, weight = class_prototypes(total.in_units(units))
    expected = LogisticRegression(C=1 / (0.01 * len(y)), tol=1e-10, max_iter=10_000).fit(m, y)
    np.testing.assert_allclose(found["W"] * units.scale, expected.coef_, atol=1e-4)
    assert weight == pytest.approx(1 / len(y))


def test_the_shapes_lean_on_the_pooled_one_where_rows_are_few():
    rng = np.random.default_rng(4)
    total = FederationStatistics.of([(0, message(rng, 200))], Breakdown("none"))
    sigma, n = total.covariance, total.count
    for c, t in enumerate(shapes(total, 4.0, 0.1, 2.0)):
        a = n[c] / (n[c] + 4 * P)
        mixed = a * sigma[c] + (1 - a) * total.within
        np.testing.assert_allclose(t, 2 * (0.9 * mixed + 0.1 * np.trace(mixed) / P * np.eye(P)), atol=1e-12)
    pooled = shapes(total.of_kind("pooled"), 4.0, 0.1, 1.0)
    np.testing.assert_allclose(pooled, [shrunk(total.within, 0.1)])


def test_one_domain_weighs_by_count_and_several_weigh_every_group_alike():
    rng = np.random.default_rng(5)
    one, other = message(rng), message(rng, 30, C).only(np.array([True, False, True, False]))
    m, y, weight = class_prototypes(FederationStatistics.of([(0, one), (0, other)], Breakdown("none")))
    both = one + other
    np.testing.assert_allclose(weight, both.count / both.count.sum())
    np.testing.assert_allclose(m, both.mean)
    m, y, weight = class_prototypes(FederationStatistics.of([(0, one), (1, other)], Breakdown("none")), "none")
    np.testing.assert_array_equal(y, [0, 1, 2, 3, 0, 2])
    np.testing.assert_allclose(weight, 1 / 6)


def test_from_means_it_needs_two_clients_of_a_domain_that_share_a_class():
    rng = np.random.default_rng(6)
    solved = resolve_closed_form("ggeur-limit", {}, "none")
    assert (solved.needs, solved.apart) == ("none", Breakdown("none", "client"))
    parts = [(0, message(rng).of_kind("none")), (0, message(rng).of_kind("none")), (1, message(rng).of_kind("none"))]
    found = solved.solve(FederationStatistics.of(parts, solved.apart), Task(P, tuple("abcd")))
    assert np.isfinite(found["W"]).all()
    with refused("covariance-not-estimable"):
        solved.solve(FederationStatistics.of(parts[1:], solved.apart), Task(P, tuple("abcd")))


@pytest.mark.parametrize("given", [{"decay": float("inf")}, {"scale": float("inf")}, {"kappa": float("nan")}])
def test_numbers_that_are_none_are_refused(given):
    with refused("hyperparameter-invalid: finite number"):
        resolve_closed_form("ggeur-limit", given)


def test_what_does_not_come_to_rest_is_said(case, monkeypatch):
    monkeypatch.setattr("ggeur.methods.oneshot.descent._STEPS", 0)
    m, y, weight, t = case
    with pytest.warns(UserWarning, match="gradient of `ggeur-limit` is still"):
        minimum(m * 50, y, weight, t[:1], 1e-9)


@pytest.mark.parametrize("kind", ["per-class", "pooled"])
@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_near_a_known_solution_it_is_found_as_far_as_a_fold_needs(kind, scale):
    rng = np.random.default_rng(8)
    messages = [message(rng).of_kind(kind) for _ in range(3)]
    total = FederationStatistics.of(enumerate(messages), Breakdown("none"))
    fewer = FederationStatistics.of(
        enumerate(m.only(np.arange(C) != 3) for m in messages[:2]), Breakdown("none")
    )  # a class less
    solved, task = resolve_closed_form("ggeur-limit", {"scale": scale}, kind), Task(P, tuple("abcd"))
    exact = solved.solve(total, task)
    standard, units = total.standard, total.units
    m, y, weight = class_prototypes(standard)
    t = shapes(standard, 4.0, 0.1, scale)
    for start in (None, exact, solved.solve(fewer, task), {"W": 0.1 * exact["W"], "b": exact["b"]}):
        afresh = FederationStatistics(total.count, total.sum, total.second, total.center, total.apart, total.domain)
        found = solved.approximate(afresh, task, start)
        w = found["W"].astype(float)
        v = np.column_stack([found["b"] + w @ units.shift, w * units.scale])
        place = Bound(m, y, weight, t, np.full(P, 1e-5))(v)
        assert np.linalg.norm(place.gradient) < 3e-4
        least = np.column_stack([exact["b"] + exact["W"].astype(float) @ units.shift, exact["W"] * units.scale])
        assert place.value - Bound(m, y, weight, t, np.full(P, 1e-5))(least).value < 1e-4
