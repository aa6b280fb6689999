"""A temperature by samples left out: against a grid, against scikit-learn's curve, and a head that it does not
change.
"""

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

import ggeur
from ggeur.federation.temperature import CrossValidatedScores, calibration_error, coverage, temperature

RNG = np.random.default_rng(0)


def scores(n=400, classes=5, sharpness=2.5):
    z = sharpness * RNG.normal(size=(n, classes))
    y = np.array([RNG.choice(classes, p=p) for p in softmax(z / 2, axis=1)])
    return CrossValidatedScores(z, y, RNG.dirichlet(np.ones(n)))


def test_the_temperature_has_the_least_loss_of_a_grid():
    s = scores()
    e = 1 / (len(s.y) + 2)
    target = np.full(s.logits.shape, e / 4)
    target[np.arange(len(s.y)), s.y] = 1 - e
    grid = np.exp(np.linspace(-2, 2, 2001))
    loss = [-(s.weight @ (target * log_softmax(s.logits / t, axis=1)).sum(axis=1)) for t in grid]
    assert temperature(s) == pytest.approx(grid[np.argmin(loss)], rel=3e-3)


def test_where_all_are_right_it_stays_above_zero():
    z = 10 * np.eye(3)[np.tile([0, 1, 2], 20)]
    t = temperature(CrossValidatedScores(z, z.argmax(axis=1), np.full(60, 1 / 60)))
    sure = softmax(z / t, axis=1).max()
    assert sure == pytest.approx(1 - 1 / 62, abs=1e-3), "as sure as sixty right answers allow"


def test_the_calibration_error_by_hand():
    p = np.array([[0.95, 0.05], [0.95, 0.05], [0.6, 0.4], [0.4, 0.6]])
    y, even = np.array([0, 1, 0, 0]), np.ones(4)
    # one bin with 0.95 twice, half right; one with 0.6 twice, half right
    assert calibration_error(p, y, even) == pytest.approx(100 * (0.5 * 0.45 + 0.5 * 0.1))
    assert calibration_error(p, y, np.array([1.0, 0, 0, 0])) == pytest.approx(5)


def test_coverage_by_hand():
    p = np.array([[0.9, 0.1], [0.3, 0.7], [0.45, 0.55], [0.2, 0.8]])
    found = coverage(p, np.array([0, 0, 1, 1]), np.ones(4), (0.0, 0.6, 0.85, 0.95))
    assert found == [[0.0, 100.0, 75.0], [0.6, 75.0, pytest.approx(200 / 3)], [0.85, 25.0, 100.0]]


def sites(n=60, p=6, seed=0):
    rng = np.random.default_rng(seed)
    found = {}
    for name, shift in (("north", 0.0), ("south", 0.6)):
        y = np.arange(n) % 3
        x = rng.normal(size=(n, p)) + shift + 1.2 * np.eye(p)[y]
        test = np.arange(n) % 4 == 0
        found[name] = ggeur.EmbeddingTable(x=x, y=y, class_names=("ant", "bee", "cat"), test=test)
    return found


def test_fit_calibrates_without_changing_the_head_and_says_on_what(tmp_path):
    plain, warm = (ggeur.fit(sites(), method="ridge", calibrate=c, out=tmp_path / str(c)) for c in (False, True))
    np.testing.assert_allclose(plain.params_["W"], warm.params_["W"], rtol=1e-4, atol=1e-6)
    t, test = warm.calibration_["temperature"], warm.calibration_["test"]
    assert plain.calibration_ == {} and t < 0.7, "ridge's scores are far too flat as they are"
    assert warm.calibration_["source"] == "statistics" and test["samples"] == 30
    assert test["error"] < test["error_before"]
    x = sites()["north"].x
    np.testing.assert_allclose(
        warm.predict_proba(x), ggeur.load_model(tmp_path / "True").predict(x).probabilities, atol=1e-6
    )
    assert (warm.predict(x) == plain.predict(x)).all()
    told = [(tmp_path / str(c) / "card.md").read_text() for c in (False, True)]
    assert "uncalibrated" in told[0] and "uncalibrated" not in told[1] and "calibration error" in told[1]


def test_pooled_covariances_calibrate_by_test_samples_or_not_at_all(tmp_path):
    blind = {name: (table.x[~table.test], table.y[~table.test]) for name, table in sites().items()}
    assert "per-class covariances" in ggeur.fit(blind, method="lda", covariance="pooled").calibration_["why"]
    tested = ggeur.fit(sites(), method="ridge", covariance="pooled").calibration_
    assert tested["source"] == "test samples" and tested["test"]["error"] < tested["test"]["error_before"]


@pytest.mark.parametrize("method", ["ridge", "auto"])
def test_after_a_site_has_left_or_joined_the_temperature_is_that_of_a_fresh_fit(tmp_path, method):
    from ggeur.models.joining import add_site, forget_site

    paths = {}
    for name, table in {**sites(), "west": sites(seed=2)["south"]}.items():
        paths[name] = tmp_path / f"{name}.npz"
        table.save(paths[name])
    options = {"method": method, "parameters": {"candidates": ["lda", "ridge"]} if method == "auto" else {}}
    ggeur.fit([paths["north"], paths["south"]], out=tmp_path / "m", **options)
    add_site(tmp_path / "m", paths["west"], choose_again=method == "auto")
    anew = ggeur.fit(list(paths.values()), **options)
    assert ggeur.load_model(tmp_path / "m").calibration["temperature"] == anew.calibration_["temperature"]
    forget_site(tmp_path / "m", "south", choose_again=method == "auto")
    anew = ggeur.fit([paths["north"], paths["west"]], **options)
    assert ggeur.load_model(tmp_path / "m").calibration["temperature"] == anew.calibration_["temperature"]
    assert "uncalibrated" not in (tmp_path / "m" / "card.md").read_text()
    ggeur.fit([paths["north"], paths["south"]], out=tmp_path / "plain", calibrate=False, **options)
    add_site(tmp_path / "plain", paths["west"])
    assert ggeur.load_model(tmp_path / "plain").calibration == {}, "nobody asked for one"


def one_more_class(single, seed=0):
    """Two sites of three far classes; the first has `single` samples of a fourth."""
    rng = np.random.default_rng(seed)
    mean = 3 * rng.normal(size=(4, 6))
    y = [rng.integers(0, 3, 150) for _ in range(2)]
    y[0] = np.append(y[0], np.full(single, 3))
    return [(mean[own] + rng.normal(size=(len(own), 6)), own) for own in y]


@pytest.mark.parametrize("method", ["ridge", "mixture"])
def test_a_class_that_a_fold_would_leave_out_whole_does_not_make_all_alike(method):
    """No head has ever seen it then, and the best temperature would be without bound."""
    with_it, without = (ggeur.fit(one_more_class(single), method=method).calibration_ for single in (1, 0))
    assert 1 / 3 < with_it["temperature"] / without["temperature"] < 3


def test_a_temperature_at_its_bound_is_none():
    rng = np.random.default_rng(0)
    noise = [(rng.normal(size=(200, 3)) * 1e60, rng.integers(0, 3, 200)) for _ in range(2)]
    assert "chance" in ggeur.fit(noise, method="lda").calibration_["why"]


def test_a_class_without_rows_does_not_count_among_the_others():
    z, y, weight = scores()
    wide = CrossValidatedScores(np.concatenate([z, np.full((len(z), 1), -1e9)], axis=1), y, weight)
    assert temperature(wide) == pytest.approx(temperature(CrossValidatedScores(z, y, weight)), rel=1e-3)


@pytest.mark.real
def test_of_few_rows_the_temperature_is_that_of_a_head_of_all(shared):
    """400 samples in 320 dimensions: a head of three fourths of them is far less sure of new samples than that of
    all.
    """
    whole = ggeur.EmbeddingTable.load(shared / "data/embeddings/cifar10.tinyvit.npz")
    rng = np.random.default_rng(0)
    samples = np.concatenate(
        [rng.permutation(np.flatnonzero(whole.test == t))[:n] for t, n in ((False, 400), (True, 2000))]
    )
    found = ggeur.fit([whole.subset(samples)], method="mixture").calibration_
    assert found["test"]["error"] < 6 and found["test"]["error_before"] > 12


@pytest.mark.real
def test_of_real_sites_that_join_and_leave_the_error_is_that_of_a_fresh_fit(shared, tmp_path):
    """Constants are kept where sites join and leave, and a fresh fit selects its own: two points between them."""
    from ggeur.models.joining import add_site, forget_site

    whole = ggeur.EmbeddingTable.load(shared / "data/embeddings/digits.tinyvit.npz")
    rng, paths = np.random.default_rng(0), {}
    for d, name in enumerate(whole.domain_names):
        parts = [rng.permutation(np.flatnonzero((whole.domains == d) & (whole.test == t))) for t in (False, True)]
        table = whole.subset(np.concatenate([parts[0][:1000], parts[1][:400]]))
        paths[name] = tmp_path / f"{name}.npz"
        names = tuple(f"digit {c}" for c in range(10))
        ggeur.EmbeddingTable(x=table.x, y=table.y, test=table.test, class_names=names).save(paths[name])
    first, *others = paths
    ggeur.fit([paths[name] for name in others], out=tmp_path / "m")
    add_site(tmp_path / "m", paths[first], [paths[name] for name in others])
    left = [name for name in paths if name != others[0]]
    for now in (list(paths), left):
        if now == left:
            forget_site(tmp_path / "m", others[0], [paths[name] for name in left])
        changed = ggeur.load_model(tmp_path / "m").calibration
        fresh = ggeur.fit([paths[name] for name in now]).calibration_
        assert changed["source"] == fresh["source"] == "statistics"
        assert changed["test"]["samples"] == fresh["test"]["samples"] == 400 * len(now)
        assert abs(changed["test"]["error"] - fresh["test"]["error"]) < 2
        assert changed["test"]["error"] < changed["test"]["error_before"]
