"""Heads solved from merged statistics are those that scikit-learn fits to the pooled rows, however they are parted."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.neighbors import NearestCentroid

from ggeur.core.errors import GgeurError
from ggeur.core.message import Message
from ggeur.methods import names, resolve_solved
from ggeur.methods.algorithm import Solved, Task
from ggeur.methods.zeroshot import zeroshot

N, P, CLASSES = 40, 4, 4

partitions = st.lists(st.integers(0, 5), min_size=N, max_size=N)  # each row's client; some clients may be empty
tables = st.builds(
    lambda seed, classes, offset: table(np.random.default_rng(seed), classes, offset),
    st.integers(0, 2**31),
    st.integers(3, CLASSES),  # scikit-learn treats two classes apart
    st.sampled_from([0.0, 3.0]),
)


def table(rng, classes, offset=0.0):
    """Rows of `classes` of the four classes, correlated, every class with two rows at least."""
    y = rng.permutation(np.concatenate([np.repeat(np.arange(classes), 2), rng.integers(classes, size=N - 2 * classes)]))
    mix = np.eye(P) + 0.5 * rng.normal(size=(P, P))
    return rng.normal(size=(N, P)) @ mix + rng.normal(size=(CLASSES, P))[y] + offset, y


def merged(x, y, owner=None, n_classes=CLASSES):
    owner = np.zeros(len(y), int) if owner is None else np.array(owner)
    parts = [owner == k for k in np.unique(owner)]
    return Message.merge(Message.from_embeddings(x[m], y[m], n_classes) for m in parts)


def solve(name, s, seed=0, **parameters):
    task = Task(s.dimension, tuple(map(str, range(s.n_classes))), None, jax.random.key(seed))
    solved = resolve_solved(name, parameters)
    return solved.solve(s.of_kind(solved.needs), task)


def decide(params, x):
    return (x @ np.asarray(params["W"], np.float64).T + params["b"]).argmax(axis=1)


def assert_head(params, coef, intercept):
    """Of the classes that exist; float32 keeps seven digits, so 1e-6 of the largest number can be asked for."""
    for found, expected in ((params["W"][: len(coef)], coef), (params["b"][: len(coef)], intercept)):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


@settings(max_examples=40)
@given(tables, partitions, st.sampled_from([0.05, 1.0, 20.0]))
def test_ridge_is_scikit_learns_with_one_hot_targets_and_intercept(rows, owner, alpha):
    x, y = rows
    expected = Ridge(alpha=alpha).fit(x, np.eye(y.max() + 1)[y])
    assert_head(solve("ridge", merged(x, y, owner), alpha=alpha), expected.coef_, expected.intercept_)


@settings(max_examples=40)
@given(tables, partitions, st.sampled_from([0.1, 0.5, 1.0]))
def test_lda_is_scikit_learns_with_fixed_shrinkage(rows, owner, shrinkage):
    x, y = rows
    expected = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage).fit(x, y)
    assert_head(solve("lda", merged(x, y, owner), shrinkage=shrinkage), expected.coef_, expected.intercept_)


@settings(max_examples=40)
@given(tables, partitions)
def test_ncm_is_scikit_learns_nearest_centroid(rows, owner):
    x, y = rows
    np.testing.assert_array_equal(decide(solve("ncm", merged(x, y, owner)), x), NearestCentroid().fit(x, y).predict(x))


def test_the_defaults_are_a_shrinkage_of_a_tenth_and_a_penalty_of_one():
    x, y = table(np.random.default_rng(0), 3)
    for name, default in (("lda", {"shrinkage": 0.1}), ("ridge", {"alpha": 1.0})):
        found, expected = solve(name, merged(x, y)), solve(name, merged(x, y), **default)
        np.testing.assert_array_equal(found["W"], expected["W"])


@pytest.fixture(scope="module")
def gaussians():
    """Three Gaussians with one covariance, for which the Bayes classifier is linear; class 1 has no rows."""
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
    found = decide(solve("ccvr", merged(x, y, np.arange(600) % 5), draws=1000, rate=0.05), x_new)
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


@pytest.mark.parametrize("name", names(Solved))
def test_a_class_without_samples_is_never_the_answer(gaussians, name):
    draw, _ = gaussians
    params = solve(name, merged(*draw(100)), **({"draws": 100, "epochs": 1} if name == "ccvr" else {}))
    everywhere = np.random.default_rng(1).uniform(-50, 50, size=(2000, 2))
    assert set(decide(params, everywhere)) == {0, 2, 3}
    assert all(leaf.dtype == np.float32 and np.isfinite(leaf).all() for leaf in params.values())


def test_no_samples_at_all_is_one_sentence():
    with pytest.raises(GgeurError, match="no samples at all"):
        solve("ncm", Message.from_embeddings(np.zeros((0, 2)), np.zeros(0, int), 3))


def test_a_lone_class_or_a_direction_without_spread_is_no_trouble():
    x, y = np.c_[np.arange(6.0), np.ones(6)], np.array([0, 0, 0, 1, 1, 1])
    for name in ("ncm", "lda", "ridge"):
        assert (decide(solve(name, merged(x, y, n_classes=2)), x) == y).all()
        assert (decide(solve(name, merged(x[:3], y[:3], n_classes=2)), x) == 0).all()


@settings(max_examples=20)
@given(st.integers(0, 2**31))
def test_zeroshot_is_the_class_with_the_greatest_cosine(seed):
    rng = np.random.default_rng(seed)
    text, x = rng.normal(size=(5, 6)) * rng.uniform(0.1, 10, (5, 1)), rng.normal(size=(20, 6))
    cosine = x @ text.T / np.linalg.norm(x, axis=1)[:, None] / np.linalg.norm(text, axis=1)
    np.testing.assert_array_equal(decide(zeroshot().solve(Task(text.shape[1], (), text)), x), cosine.argmax(axis=1))
