"""`kernel` is scikit-learn's Ridge on landmark features of the pooled samples, however they are parted."""

import tracemalloc
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.linear_model import Ridge

from ggeur.federation.local_federation import LocalFederation
from ggeur.federation.one_shot import one_shot
from ggeur.heads import resolve as resolve_head
from ggeur.heads.head import double_logits
from ggeur.methods import resolve_closed_form
from ggeur.methods.algorithm import Task
from ggeur.methods.oneshot.kernel import Groups
from ggeur.privacy.gaussian import gaussian
from ggeur.stats.features import FeatureMap, FeatureQuery
from ggeur.stats.site_statistics import StatisticsQuery
from ggeur.stats.streaming import Piece
from ggeur.stats.units import Units
from refusal import refused

C, P = 4, 6
TASK = Task(P, tuple("abcd"))
HEAD = resolve_head("kernel")
EXACT = {"precision": "float64", "features": 60, "more": True}


def samples(n=400, seed=0, domains=1, held=None):
    """Samples of four classes in several domains, far from zero; `held` (S, C) are shares of the groups."""
    rng = np.random.default_rng(seed)
    share = np.ones((domains, C)) if held is None else np.array(held, float)
    group = rng.choice(share.size, n, p=share.ravel() / share.sum())
    d, y = group // C, group % C
    mix = np.eye(P) + 0.4 * rng.normal(size=(P, P))
    bent = np.sin(2 * rng.normal(size=(n, P)) @ mix)
    return 3 * (bent + rng.normal(size=(C, P))[y] + 0.5 * rng.normal(size=(domains, P))[d]) + 50, y, d


def federation(x, y, d, owner=None):
    owner = np.zeros(len(y), int) if owner is None else np.asarray(owner)
    return LocalFederation.of(x, y, d, C, [np.flatnonzero(owner == k) for k in np.unique(owner)])


def solve(clients, **parameters):
    return one_shot(clients, resolve_closed_form("kernel", EXACT | parameters), "kernel", TASK, 0)


def scores(found, x):
    return double_logits(HEAD, found.params, x)


def explicit(x, found):
    """The features, in SciPy's words."""
    units, landmarks = found.statistics.features.asked.map
    z = (x - units.shift) / units.scale
    return np.hstack([0.1 * z, np.sqrt(P) * np.exp(-cdist(z, landmarks.astype(float), "sqeuclidean") / P)])


def ridge(f, y, w, alpha):
    mean = np.average(f, axis=0, weights=w)
    penalty = alpha * (w[:, None] * (f - mean) ** 2).sum() / f.shape[1]
    return Ridge(alpha=penalty, solver="cholesky").fit(f, np.eye(C)[y], sample_weight=w)


@pytest.mark.parametrize("landmarks", ["public", "class"])
@pytest.mark.parametrize("alpha", [1e-4, 1e-2])
def test_one_domain_is_ridge_on_the_features(landmarks, alpha):
    x, y, d = samples()
    found = solve(federation(x, y, d), landmarks=landmarks, alpha=alpha)
    f = explicit(x, found)
    expected = ridge(f, y, np.ones(len(y)), alpha).predict(f)
    np.testing.assert_allclose(scores(found, x) / 10, expected, atol=1e-6)


def test_seldom_seen_groups_weigh_alike_with_draws_of_all_and_the_limit_added():
    x, y, d = samples(domains=3, held=[[3, 1, 0, 1], [0, 2, 2, 0.05], [2, 0, 1, 1]], seed=1)
    clients = federation(x, y, d, owner=d)
    found = solve(clients)
    groups, units = Groups.of(found.statistics), found.statistics.units
    assert groups.form == "limit"
    rng = np.random.default_rng(np.random.SeedSequence([0, *_streams("group draws")]))
    count = np.zeros((3, C))
    np.add.at(count, (d, y), 1)
    parts, labels, weights = [x], [y], [1 / count[d, y]]
    within = sum(((x[y == c] - x[y == c].mean(0)).T @ (x[y == c] - x[y == c].mean(0))) for c in range(C)) / len(x)
    within = within / units.scale**2
    t = 0.9 * within + 0.1 * np.trace(within) / P * np.eye(P)
    for s in range(3):
        z = np.repeat(groups.means[s], 200, axis=0) + rng.normal(size=(200 * C, P)) @ np.linalg.cholesky(t).T
        parts.append(z * units.scale + units.shift)
        labels.append(np.repeat(np.arange(C), 200))
        weights.append(np.repeat(10 / (count[s] + 10) / 200, 200))
    f = explicit(np.concatenate(parts), found)
    k = ridge(f, np.concatenate(labels), np.concatenate(weights), 1e-3).predict(f[: len(x)])
    limit = resolve_closed_form("ggeur-limit", {}, "pooled")
    linear = limit.solve(clients.statistics(limit.query), TASK)
    expected = 10 * k + x @ linear["W"].T.astype(float) + linear["b"]
    np.testing.assert_allclose(scores(found, x), expected, atol=1e-5)


def _streams(*names):
    from zlib import crc32

    return [crc32(name.encode()) for name in names]


def test_well_filled_groups_of_several_domains_add_the_mixture():
    x, y, d = samples(n=600, domains=2)
    clients = federation(x, y, d, owner=d)
    found = solve(clients)
    f = explicit(x, found)
    k = ridge(f, y, np.ones(len(y)), 1e-4).predict(f)
    mixture = resolve_closed_form("mixture", {})
    g = double_logits(resolve_head("mixture"), mixture.solve(clients.statistics(mixture.query), TASK), x)
    np.testing.assert_allclose(scores(found, x), 10 * k + 0.25 * g, atol=1e-5)
    np.testing.assert_allclose(
        HEAD.logits(jax.tree.map(jnp.asarray, found.params), jnp.asarray(x)), scores(found, x), atol=0.05
    )


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=300, max_size=300), st.sampled_from([1, 2]), st.booleans())
def test_any_partition_gives_the_same_scores(owner, domains, unseen):
    held = [[1, 1, 0, 1], [1, 1, 1, 1]][:domains] if unseen else None
    x, y, d = samples(n=300, domains=domains, held=held)
    whole, parted = (scores(solve(federation(x, y, d, of)), x) for of in (None, owner))
    np.testing.assert_allclose(parted, whole, atol=1e-7)


def test_the_smallest_penalty_bears_sums_in_float32():
    x, y, d = samples(n=500)
    kind = {"features": 750, "alpha": 1e-5}  # more features than samples: half of the eigenvalues are rounding
    exact, rounded = (scores(solve(federation(x, y, d), **kind, precision=p), x) for p in ("float64", "float32"))
    assert np.abs(rounded - exact).max() < 0.1  # where two classes differ by 10
    assert (rounded.argmax(axis=1) == exact.argmax(axis=1)).mean() > 0.99
    with refused("hyperparameter-invalid: alpha"):
        resolve_closed_form("kernel", {"alpha": 9e-6})


def test_features_are_formed_in_blocks_and_rounded_once():
    x, y, d = samples(n=5000)
    of = FeatureMap(Units(x.mean(axis=0), 4.0), np.random.default_rng(0).normal(size=(30, P)).astype(np.float32))
    weights = np.random.default_rng(1).uniform(size=(1, C))
    s = FeatureQuery(of, weights, "float64").statistics(x, y, d, C)
    w, f = weights[0, y], of(x) - of.center
    np.testing.assert_allclose(s.second[0], (w[:, None] * f).T @ f, atol=1e-9)
    np.testing.assert_allclose(s.sum[2], (w[:, None] * f)[y == 2].sum(axis=0), atol=1e-9)
    np.testing.assert_allclose(s.count, np.bincount(y, weights=w), atol=1e-12)
    pieces = [Piece(*(part[i:j] for part in (x, y, d))) for i, j in ((0, 3), (3, 2500), (2500, 2500), (2500, 5000))]
    assert (FeatureQuery(of, weights, "float64").of_pieces(pieces, C).second == s.second).all()
    sent = FeatureQuery(of, weights, "float32").statistics(x, y, d, C).second
    assert (sent == sent.astype(np.float32)).all()
    np.testing.assert_allclose(sent, s.second, rtol=1e-5, atol=1e-5 * np.abs(s.second).max())


def test_memory_does_not_grow_with_the_number_of_samples():
    rng, d = np.random.default_rng(0), 100
    asked = FeatureQuery(FeatureMap(Units(np.zeros(P), 1.0), rng.normal(size=(d, P)).astype(np.float32)))
    peak = []
    for n in (5_000, 50_000):
        x, y = rng.normal(size=(n, P)).astype(np.float32), rng.integers(C, size=n)
        tracemalloc.start()
        asked.statistics(x, y, 0 * y, C)
        peak.append(tracemalloc.get_traced_memory()[1] - (0 * y).nbytes)
        tracemalloc.stop()
    assert peak[1] < 1.2 * peak[0] < 4 * 50_000 * d


def test_the_center_is_the_mean_feature_of_a_sphere():
    landmarks = np.random.default_rng(0).normal(size=(3, P)).astype(np.float32)
    of = FeatureMap(Units(np.full(P, 7.0), 2.0), landmarks)
    draws = of(7 + 2 * np.random.default_rng(1).normal(size=(200_000, P)))
    np.testing.assert_allclose(draws.mean(axis=0), of.center, atol=5 * draws.std(axis=0).max() / np.sqrt(200_000))


def test_landmarks_are_public_or_of_the_groups():
    x, y, d = samples(n=400, domains=2, held=[[5, 1, 1, 1], [1, 1, 0, 1]])
    clients = federation(x, y, d)
    public, again, of_class, one = (
        solve(clients, **kind).params["landmarks"]
        for kind in ({}, {}, {"landmarks": "class"}, {"landmarks": "class", "form": "alone"})
    )
    assert (public == again).all() and (of_class == one).all() and not np.allclose(public, of_class)
    groups = Groups.of(clients.statistics(resolve_closed_form("kernel", {}).query))
    far = replace_means(groups, 100 * np.arange(2 * C, dtype=float).reshape(2, C, 1) * np.ones(P))
    drawn = far.landmarks(80, np.random.default_rng(0))
    assert (np.bincount(np.round(drawn.mean(axis=1) / 100).astype(int)) == 10).all()  # as many of every group


class _Placed(Groups):
    @property
    def means(self):
        return self.placed


def replace_means(groups, means):
    placed = type("Placed", (_Placed,), {"placed": means})
    return placed(*groups)


def test_how_many_landmarks_there_are():
    x, y, d = samples(n=2600)

    def landmarks(**given):
        return len(solve(federation(x, y, d), **{"features": None, "more": False} | given).params["landmarks"])

    assert landmarks() == 500
    assert landmarks(features=300) == 300
    with refused("features-too-few: 4 classes"):
        landmarks(features=3)
    with refused("features-too-many: 500"):
        landmarks(features=501)
    assert landmarks(features=501, more=True) == 501


@pytest.mark.parametrize("domains", [1, 2])
def test_a_class_that_nobody_holds_is_never_the_answer(domains):
    x, y, d = samples(domains=domains, held=np.ones((domains, C)) * [1, 1, 0, 1])
    for form in ("alone", "limit", "mixture"):
        found = scores(solve(federation(x, y, d, owner=d), form=form), x)
        assert set(found.argmax(axis=1)) == {0, 1, 3}


def test_groups_of_one_sample_and_samples_all_alike():
    x, y, d = samples(n=8, domains=2)
    y, d = np.arange(8) % C, np.arange(8) // C
    found = solve(federation(x, y, d, owner=d))
    assert (scores(found, x).argmax(axis=1) == y).all()
    alike = scores(solve(federation(np.ones_like(x), y, d, owner=d)), x)
    assert np.isfinite(alike).all()
    one = scores(solve(federation(x, np.zeros(8, int), d * 0)), x)
    assert (one.argmax(axis=1) == 0).all()


def test_no_features_from_noisy_or_stored_statistics():
    x, y, d = samples()
    noisy = replace(federation(x, y, d), release=gaussian(epsilon=1.0, delta=1e-5, radius=1.0))
    asked = FeatureQuery(FeatureMap(Units(np.zeros(P), 1.0), np.zeros((3, P), np.float32)))
    with refused("statistics-features-exact"):
        noisy.statistics(StatisticsQuery("pooled", features=asked))
    with refused("method-candidate-features: kernel"):
        from ggeur.methods.auto import auto

        auto(candidates=["kernel"])
