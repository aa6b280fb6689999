"""Heads solved from merged statistics are those that scikit-learn fits to the pooled samples, however they are
parted.
"""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.neighbors import NearestCentroid

import ggeur
from ggeur.heads import resolve as resolve_head
from ggeur.heads.head import double_logits
from ggeur.methods import names, resolve_closed_form
from ggeur.methods.algorithm import ClosedForm, Task
from ggeur.methods.zeroshot import zeroshot
from ggeur.stats.site_statistics import FederationStatistics, SiteStatistics
from refusal import refused

N, P, CLASSES = 40, 4, 4
OF_ROWS = [
    name for name in names(ClosedForm) if name not in ("text-prior", "kernel", "safle")
]  # of these statistics alone
AS_PUBLISHED = ("afl", "fed3r")  # in the embedding's own units, not about its mean
FEW = {"ccvr": {"draws": 100, "epochs": 2}, "fedpft": {"epochs": 2}}

partitions = st.lists(st.integers(0, 5), min_size=N, max_size=N)  # each sample's client; some clients may be empty
tables = st.builds(
    lambda seed, classes, offset: table(np.random.default_rng(seed), classes, offset),
    st.integers(0, 2**31),
    st.integers(3, CLASSES),  # scikit-learn treats two classes apart
    st.sampled_from([0.0, 3.0]),
)


def table(rng, classes, offset=0.0):
    """Samples of `classes` of the four classes, correlated, every class with two samples at least."""
    y = rng.permutation(np.concatenate([np.repeat(np.arange(classes), 2), rng.integers(classes, size=N - 2 * classes)]))
    mix = np.eye(P) + 0.5 * rng.normal(size=(P, P))
    return rng.normal(size=(N, P)) @ mix + rng.normal(size=(CLASSES, P))[y] + offset, y


def merged(x, y, owner=None, n_classes=CLASSES):
    owner = np.zeros(len(y), int) if owner is None else np.array(owner)
    parts = [owner == k for k in np.unique(owner)]
    return SiteStatistics.merge(SiteStatistics.from_embeddings(x[m], y[m], n_classes) for m in parts)


def solve(name, s, seed=0, **parameters):
    task = Task(s.dimension, tuple(map(str, range(s.n_classes))), None, (seed,))
    solved = resolve_closed_form(name, parameters)
    return solved.solve(FederationStatistics.of([(0, s.of_kind(solved.needs))], solved.apart), task)


def decide(params, x, name="lda"):
    params = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)
    return double_logits(resolve_head(resolve_closed_form(name, {}).head), params, x).argmax(axis=1)


def assert_head(params, coef, intercept, common=False):
    """Of the classes that exist, but for what is `common` to all; float32 keeps seven digits, so 1e-6 can be asked.

    An intercept takes part in the rounding of the weights, from which it is moved back.
    """
    for found, expected in ((params["W"][: len(coef)], coef), (params["b"][: len(coef)], intercept)):
        if common:
            found, expected = found - found.mean(axis=0), expected - expected.mean(axis=0)
        largest = max(np.abs(expected).max(), np.abs(coef).max())
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6 * largest)


@settings(max_examples=40)
@given(tables, partitions, st.sampled_from([1e-3, 0.1, 1.0]))
def test_ridge_is_scikit_learns_with_one_hot_targets_and_intercept(samples, owner, alpha):
    x, y = samples
    mean_eigenvalue = ((x - x.mean(axis=0)) ** 2).sum() / P
    expected = Ridge(alpha=alpha * mean_eigenvalue).fit(x, np.eye(y.max() + 1)[y])
    assert_head(solve("ridge", merged(x, y, owner), alpha=alpha), expected.coef_, expected.intercept_)


@settings(max_examples=40)
@given(tables, partitions, st.sampled_from([0.1, 0.5, 1.0]))
def test_lda_is_scikit_learns_with_fixed_shrinkage(samples, owner, shrinkage):
    x, y = samples
    expected = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage).fit(x, y)
    found = solve("lda", merged(x, y, owner), shrinkage=shrinkage)
    assert_head(found, expected.coef_, expected.intercept_, common=True)


@settings(max_examples=40)
@given(tables, partitions)
def test_ncm_is_scikit_learns_nearest_centroid(samples, owner):
    x, y = samples
    np.testing.assert_array_equal(decide(solve("ncm", merged(x, y, owner)), x), NearestCentroid().fit(x, y).predict(x))


def test_ridge_divides_every_class_by_the_length_of_its_column_where_that_is_asked(gaussians):
    draw, _ = gaussians
    x, y = draw(300)
    plain, found = solve("ridge", merged(x, y)), solve("ridge", merged(x, y), normalise=True)
    held, spread = [0, 2, 3], np.sqrt(x.var(axis=0).mean())
    length = spread * np.linalg.norm(plain["W"][held], axis=1)  # of samples in units of their spread
    np.testing.assert_allclose(spread * np.linalg.norm(found["W"][held], axis=1), 1, rtol=1e-6)
    for name in ("W", "b"):
        np.testing.assert_allclose((found[name][held].T * length).T, plain[name][held], rtol=1e-5, atol=1e-6)


def test_the_defaults_are_a_shrinkage_of_a_tenth_and_a_penalty_of_a_thousandth():
    x, y = table(np.random.default_rng(0), 3)
    for name, default in (("lda", {"shrinkage": 0.1}), ("ridge", {"alpha": 1e-3})):
        found, expected = solve(name, merged(x, y)), solve(name, merged(x, y), **default)
        np.testing.assert_array_equal(found["W"], expected["W"])


@pytest.fixture(scope="module")
def gaussians():
    """Three Gaussians with one covariance, for which the Bayes classifier is linear; class 1 has no samples."""
    rng = np.random.default_rng(0)
    factor = np.array([[1.0, 0.0], [0.8, 0.5]])
    mu = np.array([[0.0, 0.0], [9.0, 9.0], [2.5, 0.0], [0.0, 2.5]])

    def draw(n):
        y = rng.choice([0, 2, 3], n)
        return mu[y] + rng.normal(size=(n, 2)) @ factor.T, y

    precision = np.linalg.inv(factor @ factor.T)
    w = mu @ precision
    bayes = {"W": w, "b": np.where(np.arange(4) == 1, -1e9, -(w * mu).sum(axis=1) / 2)}
    return draw, bayes


def test_ccvr_comes_close_to_the_bayes_classifier(gaussians):
    draw, bayes = gaussians
    (x, y), (x_new, y_new) = draw(600), draw(4000)
    found = decide(solve("ccvr", merged(x, y, np.arange(600) % 5), draws=1000, learning_rate=0.05), x_new)
    best = decide(bayes, x_new)
    assert (best == y_new).mean() > 0.9
    assert (found == y_new).mean() > (best == y_new).mean() - 0.01
    assert (found == best).mean() > 0.97


def test_ccvr_is_its_keys_alone_and_needs_no_row_but_the_statistics(gaussians):
    draw, _ = gaussians
    s = merged(*draw(100))
    a, b, c = (solve("ccvr", s, seed, draws=100, epochs=1) for seed in (1, 1, 2))
    np.testing.assert_array_equal(a["W"], b["W"])
    assert np.abs(a["W"] - c["W"]).max() > 1e-3


@pytest.mark.parametrize("name", OF_ROWS)
def test_a_class_without_samples_is_never_the_answer(gaussians, name):
    draw, _ = gaussians
    params = solve(name, merged(*draw(100)), **FEW.get(name, {}))
    everywhere = np.random.default_rng(1).uniform(-50, 50, size=(2000, 2))
    assert set(decide(params, everywhere, name)) == {0, 2, 3}
    if "W" in params:
        assert (params["W"].dtype, params["b"].dtype) == (np.float32, np.float64)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(params))


@pytest.mark.parametrize("name", [name for name in OF_ROWS if name not in AS_PUBLISHED])
@pytest.mark.parametrize("scale, shift", [(1e-6, 0.0), (1e6, 0.0), (1.0, 1e4), (1e-6, -1e4), (1e3, 1e6)])
def test_no_head_depends_on_the_units_of_the_rows_or_on_where_they_lie(gaussians, name, scale, shift):
    draw, _ = gaussians
    (x, y), (x_new, _) = draw(300), draw(2000)

    def moved(samples):
        return scale * (samples + shift * np.array([1.0, -0.7]))

    center = moved(x).mean(axis=0) if abs(shift) > 1e3 else np.zeros(2)  # as `far_center` would have it
    parameters = FEW.get(name, {})
    far = SiteStatistics.from_embeddings(moved(x), y, CLASSES, center=center)
    found, near = solve(name, far, **parameters), solve(name, merged(x, y), **parameters)
    if "W" in near:
        np.testing.assert_allclose(scale * found["W"], near["W"], rtol=1e-4, atol=1e-4 * np.abs(near["W"]).max())
    assert (decide(found, moved(x_new), name) == decide(near, x_new, name)).mean() > 0.999


def test_no_samples_at_all_is_one_sentence():
    with refused("training-samples-missing"):
        solve("ncm", SiteStatistics.from_embeddings(np.zeros((0, 2)), np.zeros(0, int), 3))


def test_a_lone_class_or_a_direction_without_spread_is_no_trouble():
    x, y = np.c_[np.arange(6.0), np.ones(6)], np.array([0, 0, 0, 1, 1, 1])
    for name in ("ncm", "lda", "ridge", "ggeur-limit", "mixture", "blend"):
        assert (decide(solve(name, merged(x, y, n_classes=2)), x, name) == y).all()
        assert (decide(solve(name, merged(x[:3], y[:3], n_classes=2)), x, name) == 0).all()
        alike = merged(np.ones_like(x), y, n_classes=2)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(solve(name, alike)))


@settings(max_examples=20)
@given(st.integers(0, 2**31))
def test_zeroshot_is_the_class_with_the_greatest_cosine(seed):
    rng = np.random.default_rng(seed)
    text, x = rng.normal(size=(5, 6)) * rng.uniform(0.1, 10, (5, 1)), rng.normal(size=(20, 6))
    cosine = x @ text.T / np.linalg.norm(x, axis=1)[:, None] / np.linalg.norm(text, axis=1)
    params = zeroshot().solve(Task(text.shape[1], (), {"single": text}))
    found = np.asarray(resolve_head("cosine").logits(params, x.astype(np.float32)))
    np.testing.assert_allclose(found, 100 * cosine, rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(found.argmax(axis=1), cosine.argmax(axis=1))


def test_one_row_a_class_has_no_shape():
    """The scatter within classes is then rounding alone, of either sign, and once turned answers round."""
    rng = np.random.default_rng(0)
    for seed in range(3):
        x = np.random.default_rng(seed).normal(size=(8, 20)) + 5
        new = x + 0.1 * rng.normal(size=x.shape)
        found = ggeur.fit([(x, np.arange(8))], method="lda", calibrate=False)
        np.testing.assert_array_equal(found.predict(new), np.arange(8))
