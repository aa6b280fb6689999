"""GGEUR, Algorithms 1 and 2: which draws are made, around what, and with which law."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ggeur.data.table import EmbeddingTable
from ggeur.stats.augment import Prototypes, augment, shape_noise
from ggeur.stats.augmented_sets import DrawRule, plan_draws
from ggeur.stats.errors import GgeurWarning
from ggeur.stats.geometry import Geometry
from ggeur.stats.statistics import ClassStatistics
from refusal import refused

P = 4
VALUES = np.array([4.0, 1.0, 0.25, 0.0])  # far from 0 and 1 on both sides, so that lambda and its root differ
SCALES = {"eigenvalue": VALUES, "sqrt-eigenvalue": np.sqrt(VALUES)}


def basis(seed):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(P, P)))[0]


def known_shape(n_classes=1, values=VALUES, **fields):
    """Eigenvalues that we chose, along random axes, another set of axes for each class."""
    vectors = np.stack([basis(c) for c in range(n_classes)])
    return Geometry(np.tile(values, (n_classes, 1)), vectors, np.ones(n_classes, bool), **fields)


def samples(*labels, seed=0, dtype=np.float32):
    y = np.array(labels)
    return np.random.default_rng(seed).normal(size=(len(y), P)).astype(dtype), y


def assert_law(noise, scale, c=0):
    """`noise` looks like n draws from N(0, V s(L)^2 V'), and not like draws of another scale.

    The sample covariance S of n Gaussian draws has E|S - Sigma|_F^2 = (tr(Sigma)^2 + |Sigma|_F^2) / n; we allow
    five times its root. Coordinate i of the mean has standard deviation sqrt(Sigma_ii / n); we allow five again.
    """
    v, n = basis(c), len(noise)
    sigma = {name: (v * s**2) @ v.T for name, s in SCALES.items()}
    expected = sigma.pop(scale)
    bound = 5 * np.sqrt((np.trace(expected) ** 2 + np.linalg.norm(expected) ** 2) / n)
    found = noise.T.astype(np.float64) @ noise / n
    assert np.linalg.norm(found - expected) < bound
    assert all(np.linalg.norm(other - expected) > 10 * bound for other in sigma.values()), "the test is too weak"
    assert (np.abs(noise.mean(axis=0)) < 5 * np.sqrt(np.diag(expected) / n)).all()


# ---------------------------------------------------------------- the law of the noise


@pytest.mark.parametrize("scale", SCALES)
def test_noise_has_the_covariance_that_the_scale_says(scale):
    noise = shape_noise(known_shape(), 0, 40_000, scale, np.random.default_rng(0))
    assert noise.shape == (40_000, P) and noise.dtype == np.float32
    assert_law(noise, scale)


@pytest.mark.parametrize("scale", SCALES)
def test_noise_is_gaussian_along_each_axis_and_absent_where_the_class_is_flat(scale):
    noise = shape_noise(known_shape(), 0, 20_000, scale, np.random.default_rng(1)).astype(np.float64) @ basis(0)
    for m in range(3):
        assert stats.kstest(noise[:, m] / SCALES[scale][m], "norm").pvalue > 1e-3
    np.testing.assert_allclose(noise[:, 3], 0, atol=1e-4)


@pytest.mark.parametrize("scale", SCALES)
def test_augment_adds_that_noise_to_its_rows_and_prototypes(scale):
    x, y = samples(0)
    prototype = np.full((1, 1, P), 3.0, np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the largest eigenvalue is 4: units are fine
        x2, _ = augment(x, y, known_shape(), target=40_001, prototypes=prototype, per_prototype=40_000, scale=scale)
    own, foreign = x2[1:40_001] - x[0], x2[40_001:] - prototype[0, 0]
    assert_law(own, scale)
    assert_law(foreign, scale)
    # Draws are independent: a correlation of n pairs has standard deviation 1 / sqrt(n).
    axis = basis(0)[:, 0]
    for a, b in ((own[1:], own[:-1]), (own, foreign)):
        assert abs(np.corrcoef(a @ axis, b @ axis)[0, 1]) < 5 / np.sqrt(len(a))


def test_each_class_is_drawn_along_its_own_shape_with_noise_of_its_own():
    x, y = samples(0, 1)
    same_axes = Geometry(np.tile(VALUES, (2, 1)), np.stack([basis(0)] * 2), np.ones(2, bool))
    x2, y2 = augment(x, y, known_shape(2), target=20_000)
    for c in range(2):
        assert_law(x2[y2 == c][1:] - x[c], "sqrt-eigenvalue", c)
    x2, y2 = augment(x, y, same_axes, target=20_000)
    a, b = ((x2[y2 == c][1:] - x[c]) @ basis(0)[:, 0] for c in range(2))
    assert abs(np.corrcoef(a, b)[0, 1]) < 5 / np.sqrt(20_000)


@pytest.mark.parametrize("scale", SCALES)
def test_draws_do_not_depend_on_the_sign_or_basis_of_the_eigenvectors(scale):
    values, v = np.array([[2.0, 2.0, 0.5, 0.1]]), basis(0)
    turn = np.eye(P)
    turn[:2, :2] = [[np.cos(1), -np.sin(1)], [np.sin(1), np.cos(1)]]  # in the plane of the equal values
    x, y = samples(0, 0)
    plain, flipped, turned = (
        augment(x, y, Geometry(values, w[None], np.array([True])), target=200, scale=scale, seed=3)[0]
        for w in (v, v * [-1, 1, 1, -1], v @ turn)
    )
    largest = np.abs(plain).max()
    np.testing.assert_allclose(flipped, plain, rtol=0, atol=1e-6 * largest)
    np.testing.assert_allclose(turned, plain, rtol=0, atol=1e-6 * largest)


def test_one_factorisation_per_class_however_many_draws(monkeypatch):
    calls = []
    factor = Geometry.factor
    monkeypatch.setattr(Geometry, "factor", lambda g, c, s: calls.append(c) or factor(g, c, s))
    x, y = samples(*[0] * 30, *[1] * 20)
    augment(x, y, known_shape(2), target=300, prototypes=np.zeros((3, 2, P)), per_prototype=50)
    assert sorted(calls) == [0, 1]


def test_a_class_with_one_sample_in_the_federation_is_drawn_without_noise():
    x, y = np.array([[1.0, 2.0, 3.0, 4.0]], np.float32), [0]
    g = Geometry.from_statistics(ClassStatistics.from_embeddings(x, y, 1))
    x2, _ = augment(x, y, g, target=50)
    np.testing.assert_allclose(x2, np.repeat(x, 50, axis=0), atol=1e-5)


# ---------------------------------------------------------------- which draws, around what


def test_own_rows_come_first_and_bit_for_bit():
    x, y = samples(1, 0, 1, 1, 0)
    x2, y2 = augment(x, y, known_shape(2), target=10, prototypes=np.zeros((1, 2, P)), per_prototype=4)
    assert x2[:5].tobytes() == x.tobytes()
    np.testing.assert_array_equal(y2[:5], y)
    assert np.bincount(y2).tolist() == [14, 14]
    assert not (x2[5:, None] == x).all(axis=2).any(), "every other sample is new"


@given(
    counts=st.lists(st.integers(0, 12), min_size=1, max_size=5),
    target=st.integers(1, 15),
    seed=st.integers(0, 99),
)
def test_each_held_class_reaches_the_target_by_its_own_rows_in_turn(counts, target, seed):
    y = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    x = np.random.default_rng(seed).normal(size=(len(y), P))
    x2, y2 = augment(x, y, known_shape(len(counts)), target=target, scale=None)
    for c, n in enumerate(counts):
        drawn = x2[len(x) :][y2[len(x) :] == c]
        assert len(drawn) == (max(target - n, 0) if n else 0)
        for i, sample in enumerate(drawn):
            np.testing.assert_array_equal(sample, x[y == c][i % n])


@pytest.mark.parametrize("target", [1, 3])
def test_a_class_at_or_above_the_target_is_left_whole(target):
    x, y = samples(0, 0, 0)
    x2, y2 = augment(x, y, known_shape(), target=target)
    np.testing.assert_array_equal(x2, x)
    np.testing.assert_array_equal(y2, y)


def test_per_sample_gives_every_row_its_n_draws_whatever_the_target():
    x, y = samples(0, 0, 0, 1)
    x2, y2 = augment(x, y, known_shape(2), target=2, per_sample=5, scale=None)
    assert np.bincount(y2).tolist() == [18, 6]
    for sample in x:
        assert (x2 == sample).all(axis=1).sum() == 6  # itself and its five


def test_each_prototype_gives_its_draws_also_for_classes_the_client_lacks():
    x, y = samples(0, 0)
    prototypes = np.arange(2 * 3 * P, dtype=float).reshape(2, 3, P)
    x2, y2 = augment(x, y, known_shape(3), target=2, prototypes=prototypes, per_prototype=7, scale=None)
    assert np.bincount(y2).tolist() == [16, 14, 14]
    for d in range(2):
        for c in range(3):
            at = (x2 == prototypes[d, c].astype(np.float32)).all(axis=1)
            assert at.sum() == 7 and (y2[at] == c).all()


def test_prototypes_are_the_class_means_of_the_other_domains_that_have_the_class():
    domains = [
        ClassStatistics.from_embeddings([[0, 2, 0, 0], [0, 4, 0, 0]], [0, 0], 2),
        ClassStatistics.from_embeddings([[6, 0, 0, 0], [8, 0, 0, 0], [1, 1, 1, 1]], [0, 0, 1], 2),
    ]
    prototypes = Prototypes.from_statistics(domains)
    assert prototypes.present.tolist() == [[True, False], [True, True]]
    x2, y2 = augment(np.zeros((0, P)), [], None, prototypes=prototypes, per_prototype=2, scale=None)
    expected = [[0, 3, 0, 0]] * 2 + [[7, 0, 0, 0]] * 2 + [[1, 1, 1, 1]] * 2
    assert x2.tolist() == expected and y2.tolist() == [0, 0, 0, 0, 1, 1]


@pytest.mark.parametrize(("empty_group", "expected"), [("all", [4, 4, 2]), ("first", [4, 2, 2])])
def test_a_class_the_client_lacks_may_use_the_first_prototype_only(empty_group, expected):
    mean = np.arange(3 * 3 * P, dtype=float).reshape(3, 3, P)
    here = np.array([[True, False, False], [True, True, False], [False, True, True]])
    x, y = samples(0)
    x2, y2 = augment(
        x,
        y,
        known_shape(3),
        target=1,
        prototypes=Prototypes(mean, here),
        per_prototype=2,
        empty_group=empty_group,
        scale=None,
    )
    assert np.bincount(y2[1:]).tolist() == expected
    if empty_group == "first":
        np.testing.assert_array_equal(x2[y2 == 1], [mean[1, 1]] * 2)  # the first domain that has the class


def test_a_plan_worked_by_hand():
    y, here = np.array([1, 0, 1]), np.array([[True, False, True]])
    plan = plan_draws(y, 3, DrawRule(4, None, 2), here)
    assert plan.sample.tolist() == [1, 1, 1, 3, 3, 0, 2, 5, 5]  # samples 3, 4, 5 are the prototypes
    assert plan.label.tolist() == [0, 0, 0, 0, 0, 1, 1, 2, 2]


def test_without_geometry_the_controls_still_work():
    x, y = samples(0, 1, 1)
    x2, y2 = augment(x, y, None, target=4, scale=None)
    assert np.bincount(y2).tolist() == [4, 4]
    assert {sample.tobytes() for sample in x2} == {sample.tobytes() for sample in x}


def test_a_client_without_samples_is_legal():
    x2, y2 = augment(np.zeros((0, P)), [], known_shape(2), target=5)
    assert x2.shape == (0, P) and len(y2) == 0
    _, y2 = augment(np.zeros((0, P)), [], known_shape(2), prototypes=np.zeros((1, 2, P)), per_prototype=3)
    assert np.bincount(y2).tolist() == [3, 3]


# ---------------------------------------------------------------- seeds and types


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others():
    x, y = samples(0, 1, 1)
    first, again, other = (augment(x, y, known_shape(2), target=9, seed=s)[0] for s in (5, 5, 6))
    assert first.tobytes() == again.tobytes()
    assert not np.isin(first[3:], other[3:]).any()


def test_clients_draw_noise_of_their_own_where_those_before_them_stopped():
    """The second client's noise is what comes next in the class's bank; the client's number decides its signs alone."""
    x, y = samples(0)
    first, second = (augment(x, y, known_shape(), target=9, seed=1, drawn_before=[n])[0][1:] - x for n in (0, 8))
    both = augment(x, y, known_shape(), target=17, seed=1)[0][1:] - x
    np.testing.assert_allclose(abs(np.concatenate([first, second])), abs(both), rtol=0, atol=1e-5)
    other = augment(x, y, known_shape(), target=9, seed=1, client=1)[0][1:] - x
    np.testing.assert_allclose(abs(other), abs(first), rtol=0, atol=1e-5)
    assert (np.sign(other[:, 0]) != np.sign(first[:, 0])).any()


def test_the_draws_of_a_class_do_not_depend_on_the_other_classes():
    x, y = samples(0, 1, 1, 2, 0)
    both, labels = augment(x, y, known_shape(3), target=20, seed=4)
    alone, _ = augment(x[y == 1], y[y == 1], known_shape(3), target=20, seed=4)
    near = [of_class[2:] - of_class[:2][np.arange(18) % 2] for of_class in (both[labels == 1], alone)]
    np.testing.assert_allclose(*map(abs, near), rtol=0, atol=1e-5)  # up to signs, which go by all draws of a client


def test_prototypes_leave_the_draws_around_own_rows_as_they_were():
    x, y = samples(0, 0)
    plain, _ = augment(x, y, known_shape(), target=20, seed=4)
    more, _ = augment(x, y, known_shape(), target=20, seed=4, prototypes=np.zeros((1, 1, P)), per_prototype=9)
    np.testing.assert_allclose(more[:20], plain, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("given", "returned"),
    [(np.float16, np.float32), (np.float32, np.float32), (np.float64, np.float64), (np.uint8, np.float32)],
)
def test_half_precision_and_integers_come_back_as_float32(given, returned):
    x, y = np.arange(8, dtype=given).reshape(2, P), [0, 0]
    x2, y2 = augment(x, y, known_shape(), target=5, prototypes=np.zeros((1, 1, P)), per_prototype=2)
    assert x2.dtype == returned and y2.dtype == np.int64
    np.testing.assert_array_equal(x2[:2], x)


# ---------------------------------------------------------------- what is warned about and refused


@pytest.mark.parametrize("top", [0.05, 50.0])
def test_the_printed_scale_warns_where_the_units_do_not_suit_it(top):
    x, y = samples(0)
    g = known_shape(values=VALUES / 4 * top)
    with pytest.warns(GgeurWarning, match="units") as caught:
        augment(x, y, g, target=3, scale="eigenvalue")
    assert caught[0].filename == __file__, "the warning points at the caller"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        augment(x, y, g, target=3, scale="sqrt-eigenvalue")


@pytest.mark.parametrize("top", [0.1, 1.0, 10.0])
def test_the_printed_scale_is_silent_in_its_own_units(top):
    x, y = samples(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        augment(x, y, known_shape(values=VALUES / 4 * top), target=3, scale="eigenvalue")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"target": 0}, "argument-not-whole-number: target"),
        ({"target": -3}, "argument-not-whole-number: target"),
        ({"per_sample": 0}, "argument-not-whole-number: per_sample"),
        ({"per_prototype": 0}, "argument-not-whole-number: per_prototype"),
        ({"x": [[np.nan] * P]}, "embeddings-not-finite"),
        ({"x": [[np.inf] * P]}, "embeddings-not-finite"),
        ({"x": [[0.0] * P, [0.0]], "y": [0, 0]}, "samples-ragged"),
        ({"y": [1]}, "labels-out-of-range"),
        ({"y": [0, 0]}, "labels-shape"),
        ({"y": [np.nan], "geometry": None, "scale": None}, "labels-not-integers"),
        ({"geometry": None}, "geometry-missing"),
        ({"x": [[0.0] * (P + 1)]}, "geometry-dimension-mismatch"),
        ({"scale": "root"}, "argument-not-choice: scale...root"),
        ({"empty_group": "last"}, "argument-not-choice: empty_group...last"),
        ({"prototypes": np.zeros((1, 2, P))}, "prototypes-shape"),
        ({"prototypes": np.zeros((1, P))}, "prototypes-shape"),
        ({"prototypes": np.full((1, 1, P), np.nan)}, "embeddings-not-finite: prototypes"),
        ({"geometry": Geometry(np.ones((1, P)), np.eye(P)[None], np.array([False]))}, "geometry-class-absent: class 0"),
        ({"geometry": known_shape(centred=False)}, "geometry-uncentred"),
    ],
)
def test_bad_requests_are_refused_in_one_sentence(change, says):
    request = {"x": [[0.0] * P], "y": [0], "geometry": known_shape(), "target": 5} | change
    with refused(says) as error:
        augment(request.pop("x"), request.pop("y"), request.pop("geometry"), **request)
    assert "\n" not in str(error.value)


def test_a_class_without_shape_is_no_trouble_to_those_who_do_not_draw_it():
    x, y = samples(0)
    g = Geometry(np.ones((2, P)), np.stack([np.eye(P)] * 2), np.array([True, False]))
    assert augment(x, y, g, target=3)[0].shape == (3, P)


@pytest.mark.real
def test_on_real_embeddings_draws_spread_as_their_centres_and_the_shape_together(shared):
    table = EmbeddingTable.load(shared / "data/embeddings/office_caltech10.tinyvit.npz")
    statistics = ClassStatistics.from_embeddings(table.x, table.y, 10)
    own = table.subset((table.domains == 2) & (table.y == 3))  # a small class of the smallest domain
    x2, y2 = augment(own.x, own.y, Geometry.from_statistics(statistics), target=1500)
    assert x2.dtype == np.float32 and np.bincount(y2).tolist() == [0, 0, 0, 1500]
    drawn, centres = x2[len(own) :].astype(np.float64), own.x.astype(np.float64)
    sigma = np.cov(table.x[table.y == 3].T.astype(np.float64), bias=True)
    expected = np.trace(sigma) + centres.var(axis=0).sum()
    # tr of a Gaussian sample covariance: standard deviation sqrt(2 |Sigma|_F^2 / n); the centres come in turn
    bound = 5 * np.sqrt(2 * np.linalg.norm(sigma) ** 2 / len(drawn)) + 0.01 * expected
    assert abs(drawn.var(axis=0).sum() - expected) < bound < 0.2 * expected
