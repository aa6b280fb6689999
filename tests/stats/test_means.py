"""Covariances from means alone: right on average where clients are alike, within domains, or refused; and pooled."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from ggeur.stats.geometry import Geometry
from ggeur.stats.moments import class_sums, covariance_from_means
from ggeur.stats.statistics import ClassStatistics
from refusal import refused

P = 3
FACTOR = np.array([[1.0, 0.0, 0.0], [0.7, 0.5, 0.0], [-0.3, 0.2, 0.8]])
SIGMA = FACTOR @ FACTOR.T


def samples(rng, n, mean=0.0):
    return mean + rng.normal(size=(n, P)) @ FACTOR.T


def sent(x, y, owner, n_classes):
    """What clients send: counts (K, C) and means (K, C, p)."""
    each = [class_sums(x[owner == k], y[owner == k], n_classes) for k in range(owner.max() + 1)]
    return np.stack([n for n, _ in each]), np.stack([total / np.maximum(n, 1)[:, None] for n, total in each])


def test_class_sums_are_those_of_the_rows():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, P)).astype(np.float16), rng.choice([0, 2], 20)
    count, total = class_sums(x, y, 3)
    assert count.tolist() == [(y == 0).sum(), 0, (y == 2).sum()] and total.dtype == np.float64
    for c in (0, 2):
        np.testing.assert_allclose(total[c], x[y == c].astype(np.float64).sum(axis=0), rtol=1e-12)
    assert not total[1].any()


def test_it_is_the_papers_formula():
    """Sigma_c = 1/(K_c - 1) sum_k n_kc (mu_kc - mu_c)(mu_kc - mu_c)', over the clients that hold the class."""
    rng = np.random.default_rng(1)
    y, owner = rng.integers(2, size=60), rng.integers(4, size=60)
    owner[(y == 1) & (owner == 3)] = 2  # client 3 lacks class 1
    x = samples(rng, 60, mean=5.0)
    found = covariance_from_means(*sent(x, y, owner, 2), shrinkage=0)
    for c in (0, 1):
        expected, clients = np.zeros((P, P)), np.unique(owner[y == c])
        for k in clients:
            own = x[(y == c) & (owner == k)]
            d = own.mean(axis=0) - x[y == c].mean(axis=0)
            expected += len(own) * np.outer(d, d) / (len(clients) - 1)
        np.testing.assert_allclose(found[c], expected, rtol=1e-10, atol=1e-12)


def test_it_is_unbiased_where_clients_are_iid():
    """Each class here is one federation of its own: six clients of unlike sizes, drawing from one Gaussian."""
    rng, trials, sizes = np.random.default_rng(2), 1500, np.array([1, 2, 3, 5, 8, 13])
    x = samples(rng, trials * sizes.sum(), mean=4.0).reshape(trials, sizes.sum(), P)
    parts = np.split(x, np.cumsum(sizes)[:-1], axis=1)
    mean = np.stack([part.mean(axis=1) for part in parts])  # (6, trials, p)
    found = covariance_from_means(np.repeat(sizes[:, None], trials, axis=1).astype(float), mean, shrinkage=0)
    error = found.std(axis=0) / np.sqrt(trials)
    assert error.max() < 0.05
    assert (np.abs(found.mean(axis=0) - SIGMA) < 4 * error).all()


def test_shrinkage_moves_it_towards_a_sphere_of_the_same_trace():
    rng = np.random.default_rng(3)
    count, mean = np.full((5, 2), 10.0), rng.normal(size=(5, 2, P))
    raw, some, default, all_ = (covariance_from_means(count, mean, shrinkage=s) for s in (0, 0.3, 0.1, 1))
    np.testing.assert_allclose(covariance_from_means(count, mean), default)
    np.testing.assert_allclose(all_, np.trace(raw, axis1=1, axis2=2)[:, None, None] / P * np.eye(P))
    np.testing.assert_allclose(some, 0.7 * raw + 0.3 * all_)


def test_a_class_with_one_client_takes_the_estimate_pooled_over_classes():
    rng = np.random.default_rng(4)
    y, owner = np.repeat([0, 1, 2], [40, 60, 20]), rng.integers(5, size=120)
    owner[y == 2] = 1
    count, mean = sent(samples(rng, 120), y, owner, 4)
    found = covariance_from_means(count, mean, shrinkage=0)
    held = (count > 0).sum(axis=0)
    assert held[2] == 1 and held[3] == 0
    freedom = held[:2] - 1
    pooled = (freedom[0] * found[0] + freedom[1] * found[1]) / freedom.sum()
    np.testing.assert_allclose(found[2], pooled)
    np.testing.assert_allclose(found[3], pooled)


def test_within_domains_it_does_not_see_how_far_domains_lie_apart():
    rng = np.random.default_rng(5)
    y, owner = rng.integers(2, size=240), rng.integers(6, size=240)
    count, mean = sent(samples(rng, 240), y, owner, 2)
    domain = np.array([0, 0, 1, 1, 1, 2])  # the last client is alone in its domain
    shift = 100 * rng.normal(size=(3, 2, P))
    near, far = (covariance_from_means(count, m, domain, shrinkage=0) for m in (mean, mean + shift[domain]))
    np.testing.assert_allclose(near, far, atol=1e-9)
    assert np.trace(covariance_from_means(count, mean + shift[domain])[0]) > 1000, "across domains it would"
    one, two = (covariance_from_means(count[k], mean[k], shrinkage=0) for k in (slice(0, 2), slice(2, 5)))
    np.testing.assert_allclose(near, (1 * one + 2 * two) / 3, atol=1e-12)


@pytest.mark.parametrize(
    ("count", "domain"),
    [
        (np.ones((3, 2)), np.array([0, 1, 2])),  # each domain has one client
        (np.array([[3.0, 0.0], [0.0, 3.0]]), None),  # no class in common
    ],
)
def test_without_two_clients_to_compare_it_is_refused(count, domain):
    with refused("covariance-not-estimable") as caught:
        covariance_from_means(count, np.zeros((len(count), 2, P)), domain)
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------- one covariance for all classes


def test_the_pooled_covariance_is_scikit_learns_within_class_covariance():
    rng = np.random.default_rng(6)
    y = rng.integers(3, size=80)
    x = samples(rng, 80) + 10 * rng.normal(size=(3, P))[y]
    expected = LinearDiscriminantAnalysis(solver="lsqr", store_covariance=True).fit(x, y).covariance_
    s = ClassStatistics.from_embeddings(x[:30], y[:30], 4) + ClassStatistics.from_embeddings(x[30:], y[30:], 4)
    np.testing.assert_allclose(s.within, expected, rtol=1e-9)


def test_one_covariance_may_serve_all_classes():
    present = np.array([True, True, False])
    g = Geometry.from_covariance(SIGMA[None], present)
    assert g.eigenvalues.shape == (3, P) and g.eigenvectors.shape == (3, P, P)
    assert not np.any(g.present ^ present)
    for c in (0, 1):
        np.testing.assert_allclose(g.factor(c, "sqrt-eigenvalue") @ g.factor(c, "sqrt-eigenvalue"), SIGMA, rtol=1e-10)
    assert g.eigenvectors.strides[0] == 0, "it is held once"
    with refused("geometry-class-absent: class 2"):
        g.factor(2, "sqrt-eigenvalue")


def test_the_same_covariance_for_each_class_is_the_same_geometry():
    shared, each = (Geometry.from_covariance(s, np.ones(2, bool)) for s in (SIGMA[None], np.stack([SIGMA, SIGMA])))
    for c in (0, 1):
        np.testing.assert_allclose(shared.factor(c, "eigenvalue"), each.factor(c, "eigenvalue"))
