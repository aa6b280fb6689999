"""ClassStatistics: an additive monoid whose mean and covariance are those of the pooled data (Eq. 4)."""

import warnings
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.covariance import EmpiricalCovariance

from ggeur.data.partition import dirichlet
from ggeur.data.table import EmbeddingTable
from ggeur.stats.errors import GgeurWarning
from ggeur.stats.geometry import Geometry
from ggeur.stats.site_statistics import SiteStatistics
from ggeur.stats.statistics import ClassStatistics
from refusal import refused

SEEDS = st.integers(0, 2**32 - 1)


@st.composite
def labelled(draw):
    """Samples, labels and their number of classes, with means up to 30 spreads from zero in any units."""
    rng = np.random.default_rng(draw(SEEDS))
    n, p, n_classes = draw(st.integers(1, 50)), draw(st.integers(1, 6)), draw(st.integers(1, 4))
    spread = 10.0 ** draw(st.integers(-4, 4))
    offset = draw(st.floats(-30, 30))
    return spread * (rng.normal(size=(n, p)) + offset), rng.integers(n_classes, size=n), n_classes, spread


def parts_of(x, y, n_classes, owner, center=None):
    return [
        ClassStatistics.from_embeddings(x[owner == k], y[owner == k], n_classes, center=center)
        for k in range(owner.max() + 1)
    ]


def numpy_covariance(x, y, c):
    return np.atleast_2d(np.cov(x[y == c].T, bias=True))


def close(a, b, tolerance):
    """Element by element; `tolerance` is absolute, and the caller says of what it is a share."""
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


@given(data=labelled(), clients=st.integers(1, 6), seed=SEEDS)
def test_merging_any_split_in_any_tree_gives_the_pooled_mean_and_covariance(data, clients, seed):
    x, y, n_classes, spread = data
    rng = np.random.default_rng(seed)
    parts = parts_of(x, y, n_classes, rng.integers(clients, size=len(x)))
    while len(parts) > 1:  # a random tree: merge two of what is left, wherever they stand
        i, j = rng.choice(len(parts), size=2, replace=False)
        merged = parts[i] + parts[j]
        parts = [part for k, part in enumerate(parts) if k not in (i, j)] + [merged]
    total = parts[0]
    np.testing.assert_array_equal(total.count, np.bincount(y, minlength=n_classes))
    for c in np.unique(y):
        close(total.covariance[c], numpy_covariance(x, y, c), 1e-9 * spread**2)
        close(total.mean[c], x[y == c].mean(axis=0), 1e-9 * spread)


@given(data=labelled(), clients=st.integers(1, 6), seed=SEEDS)
def test_the_total_is_equation_4_of_the_paper(data, clients, seed):
    x, y, n_classes, spread = data
    owner = np.random.default_rng(seed).integers(clients, size=len(x))
    total = ClassStatistics.merge(parts_of(x, y, n_classes, owner))
    for c in np.unique(y):
        mu, sigma = x[y == c].mean(axis=0), 0.0
        for k in np.unique(owner[y == c]):
            own = x[(y == c) & (owner == k)]
            gap = own.mean(axis=0) - mu
            sigma = sigma + len(own) * (np.atleast_2d(np.cov(own.T, bias=True)) + np.outer(gap, gap))
        close(total.covariance[c], sigma / (y == c).sum(), 1e-9 * spread**2)


@given(data=labelled(), seed=SEEDS, magnitude=st.integers(-6, 6))
def test_removing_a_client_undoes_adding_it(data, seed, magnitude):
    x, y, n_classes, _ = data
    a = ClassStatistics.from_embeddings(x, y, n_classes)
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(20, x.shape[1])) * 10.0**magnitude * np.abs(x).max()
    b = ClassStatistics.from_embeddings(z, rng.integers(n_classes, size=20), n_classes)
    back = (a + b) - b
    np.testing.assert_array_equal(back.count, a.count)
    close(back.sum, a.sum, 1e-9 * np.abs((a + b).sum).max())
    close(back.second, a.second, 1e-9 * np.abs((a + b).second).max())


def test_a_class_whose_last_client_leaves_is_exactly_empty():
    rng = np.random.default_rng(0)
    stays = ClassStatistics.from_embeddings(rng.normal(size=(9, 3)), np.zeros(9, int), 2)
    leave = [ClassStatistics.from_embeddings(rng.normal(size=(5, 3)), np.ones(5, int), 2) for _ in range(6)]
    left, rest = ClassStatistics.merge([stays, *leave]), sum(client.second[1] for client in leave)
    for client in leave:
        left, rest = left - client, rest - client.second[1]
    assert rest.any(), "this data cancels by itself"
    assert left.present.tolist() == [True, False]
    assert not left.sum[1].any() and not left.second[1].any()


@given(data=labelled(), seed=SEEDS)
def test_moments_about_any_center_give_the_same_mean_and_covariance(data, seed):
    x, y, n_classes, spread = data
    center = np.random.default_rng(seed).normal(size=x.shape[1]) * 30 * spread
    about_zero = ClassStatistics.from_embeddings(x, y, n_classes)
    about_center = ClassStatistics.from_embeddings(x, y, n_classes, center=center)
    for s in (about_center, about_zero.about(center), about_center.about(np.zeros_like(center))):
        close(s.mean, about_zero.mean, 1e-9 * spread)
        close(s.covariance, about_zero.covariance, 1e-9 * spread**2)
    close(about_zero.about(center).second, about_center.second, 1e-9 * np.abs(about_center.second).max())


def test_a_center_keeps_the_digits_of_a_mean_far_above_the_spread():
    steps = np.random.default_rng(0).integers(-32, 33, size=(500, 4)) / 1024  # exact in binary at 1e6 too
    x, y = 1e6 + steps, np.zeros(500, int)
    exact = np.cov(steps.T, bias=True)
    owner = np.arange(500) % 7
    s = ClassStatistics.merge(parts_of(x, y, 1, owner, center=np.full(4, 1e6)))
    close(s.covariance[0], exact, 1e-9 * np.abs(exact).max())
    close(s.mean[0], 1e6 + steps.mean(axis=0), 1e-9)
    without = ClassStatistics.from_embeddings(x, y, 1).covariance[0]
    assert np.abs(without - exact).max() > 0.01 * np.abs(exact).max(), "this data does not need a center"


def test_a_case_worked_by_hand():
    s = ClassStatistics.from_embeddings([[1, 0], [3, 4], [10, 10]], [0, 0, 2], 3)
    assert s.count.tolist() == [2, 0, 1]
    assert s.sum.tolist() == [[4, 4], [0, 0], [10, 10]]
    assert s.second[0].tolist() == [[10, 12], [12, 16]]
    assert s.mean.tolist() == [[2, 2], [0, 0], [10, 10]]
    assert s.covariance[0].tolist() == [[1, 2], [2, 4]]
    assert (s.n_classes, s.dimension) == (3, 2)


def test_covariance_agrees_with_scikit_learn():
    x = np.random.default_rng(1).normal(size=(40, 5)) @ np.diag([3, 2, 1, 0.5, 0.1])
    ours = ClassStatistics.from_embeddings(x, np.zeros(40, int), 1).covariance[0]
    np.testing.assert_allclose(ours, EmpiricalCovariance().fit(x).covariance_, rtol=1e-9, atol=1e-12)


def test_covariance_is_exactly_symmetric():
    x = np.random.default_rng(2).normal(size=(33, 17)).astype(np.float32)
    sigma = ClassStatistics.from_embeddings(x, np.arange(33) % 2, 2).about(np.arange(17) / 3).covariance
    np.testing.assert_array_equal(sigma, sigma.swapaxes(1, 2))


def test_classes_without_samples_are_marked_and_never_nan():
    s = ClassStatistics.from_embeddings(np.ones((2, 3)), [1, 1], 3, center=np.ones(3))
    assert s.present.tolist() == [False, True, False]
    assert not s.mean[[0, 2]].any() and not s.covariance[[0, 2]].any()


def test_a_client_without_samples_adds_nothing():
    nobody = ClassStatistics.from_embeddings(np.zeros((0, 3)), [], 2)
    s = ClassStatistics.from_embeddings(np.eye(3), [0, 1, 1], 2)
    assert not nobody.present.any()
    np.testing.assert_array_equal((s + nobody).second, s.second)


def test_a_class_with_one_sample_has_zero_covariance():
    x = np.random.default_rng(3).normal(size=(1, 6)) * 7
    s = ClassStatistics.from_embeddings(x, [0], 1)
    assert np.abs(s.covariance).max() <= 1e-14 * (x**2).max()


def test_uncentred_is_equation_1_whatever_the_center():
    x = np.random.default_rng(4).normal(size=(20, 3)) + 5
    for center in (None, [1.0, 2.0, 3.0]):
        s = ClassStatistics.from_embeddings(x, np.zeros(20, int), 1, center=center)
        np.testing.assert_allclose(s.uncentred[0], x.T @ x / 20, rtol=1e-12)


@pytest.mark.parametrize(("dtype", "value"), [(np.float16, 60000), (np.uint8, 255), (np.float32, 3e38)])
def test_sums_do_not_overflow_the_type_of_the_embeddings(dtype, value):
    x = np.full((10, 2), value, dtype)
    s = ClassStatistics.from_embeddings(x, np.zeros(10, int), 1)
    np.testing.assert_allclose(s.sum[0], 10 * x[0].astype(np.float64), rtol=1e-12)
    np.testing.assert_allclose(s.second[0], 10 * x[0, 0].astype(np.float64) ** 2, rtol=1e-12)


def test_many_clients_are_folded_and_never_held_at_once():
    alive, most = weakref.WeakSet(), 0

    def clients():
        nonlocal most
        for k in range(20):
            s = ClassStatistics.from_embeddings(np.full((1, 2), k), [0], 1)
            alive.add(s)
            most = max(most, len(alive))
            yield s

    assert ClassStatistics.merge(clients()).sum[0].tolist() == [190, 190]
    assert most <= 3


@pytest.mark.parametrize(
    ("x", "y", "says"),
    [
        ([[0.0, np.nan]], [0], "embeddings-not-finite: sample 0"),
        ([[0.0, 1.0], [np.inf, 0.0]], [0, 0], "embeddings-not-finite: sample 1"),
        ([[1.0, 2.0], [3.0]], [0, 0], "samples-ragged"),
        ([1.0, 2.0], [0, 0], "embeddings-shape"),
        (np.zeros((2, 0)), [0, 0], "embeddings-shape"),
        ([["a", "b"]], [0], "embeddings-type"),
        ([[1.0]], [0, 1], "labels-shape"),
        ([[1.0]], [[0]], "labels-shape"),
        ([[1.0], [1.0]], [0, [1]], "samples-ragged"),
        ([[1.0]], [3], "labels-out-of-range: label 3 in sample 0"),
        ([[1.0], [2.0]], [0, -1], "labels-out-of-range: label -1 in sample 1"),
        ([[1.0]], [0.5], "labels-not-integers"),
        ([[1.0]], [np.nan], "labels-not-integers"),
        ([[1.0]], [np.inf], "labels-not-integers"),
        ([[1.0]], ["cat"], "labels-not-integers"),
        ([[1.0]], [1e300], "labels-out-of-range"),
    ],
)
def test_bad_embeddings_and_labels_are_refused_in_one_sentence(x, y, says):
    with refused(says) as error:
        ClassStatistics.from_embeddings(x, y, 3)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("center", "code"),
    [([0.0], "array-shape: center"), ([0.0, np.nan], "array-not-finite: center"), (0.0, "array-shape: center")],
)
def test_a_center_must_be_a_finite_point_of_the_space(center, code):
    with refused(code):
        ClassStatistics.from_embeddings(np.eye(2), [0, 0], 1, center=center)


def test_statistics_of_different_worlds_do_not_merge():
    def of(p=2, n_classes=2, center=None):
        return ClassStatistics.from_embeddings(np.ones((1, p)), [0], n_classes, center=center)

    with refused("statistics-mismatch"):
        of() + of(p=3)
    with refused("statistics-mismatch"):
        of() - of(n_classes=3)
    with refused("statistics-center-mismatch"):
        of() + of(center=[1.0, 0.0])
    with refused("argument-type: added to statistics"):
        of() + 1
    with refused("argument-type: taken from statistics"):
        of() - None
    with refused("statistics-operand-type"):
        sum([of(), of()])


def test_what_was_never_added_cannot_be_removed():
    a, b = (ClassStatistics.from_embeddings(np.ones((n, 2)), np.zeros(n, int), 1) for n in (2, 3))
    with refused("statistics-not-added"):
        a - b


def test_a_federation_without_clients_is_an_error():
    with refused("statistics-missing"):
        ClassStatistics.merge([])


@pytest.mark.real
def test_real_embeddings_merged_over_a_skewed_partition_equal_the_pooled_ones(shared):
    table = EmbeddingTable.load(shared / "data/embeddings/office_caltech10.tinyvit.npz")
    x, y = table.x[:, :64].astype(np.float64), table.y
    parts = dirichlet(y, clients=10, beta=0.1, seed=0)
    total = ClassStatistics.merge(ClassStatistics.from_embeddings(x[r], y[r], 10) for r in parts)
    for c in range(10):
        exact = numpy_covariance(x, y, c)
        close(total.covariance[c], exact, 1e-9 * np.linalg.norm(exact, 2))


def test_a_mean_far_from_the_center_is_warned_of():
    x = np.random.default_rng(0).normal(size=(50, 3)) + 1e6
    with pytest.warns(GgeurWarning, match="center near the mean"):
        ClassStatistics.from_embeddings(x, np.zeros(50, int), 1)


# ---------------------------------------------------------------- files, and what does not belong together


def two_sites(seed=0, n=60, p=5):
    rng = np.random.default_rng(seed)
    x, y = 3 * rng.normal(size=(n, p)) + 2, rng.integers(0, 3, n)
    return (ClassStatistics.from_embeddings(x[i::2], y[i::2], 3) for i in (0, 1))


@pytest.mark.parametrize("kind", ["none", "pooled", "per-class", None])
def test_statistics_come_back_from_a_file_to_the_bit(tmp_path, kind):
    a, b = two_sites()
    a = a + b
    if kind is not None:
        a = SiteStatistics(a.count, a.sum, a.second, a.center).of_kind(kind)
    a.save(tmp_path / "site.npz")
    again = type(a).load(tmp_path / "site.npz")
    for name in ("count", "sum", "second", "center"):
        np.testing.assert_array_equal(getattr(again, name), getattr(a, name))
    with np.load(tmp_path / "site.npz") as file:
        assert sorted(file.files) == ["center", "count", "second", "sum"], "what travels, and nothing else"


def test_a_file_of_something_else_is_refused_by_its_name(tmp_path):
    a, _ = two_sites()
    np.savez(tmp_path / "other.npz", count=a.count)
    np.savez(tmp_path / "odd.npz", count=a.count, sum=a.sum[:2], second=a.second, center=a.center)
    (tmp_path / "text.npz").write_text("no")
    for name, code in (
        ("other", "file-not-statistics: sum, second, center"),
        ("odd", "array-shape: sum"),
        ("text", "file-not-npz"),
    ):
        with refused(code) as told:
            ClassStatistics.load(tmp_path / f"{name}.npz")
        assert f"{name}.npz" in str(told.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"count": [1.0, 2.0]}, "array-shape: sum"),
        ({"count": [-1.0, 2.0, 3.0]}, "statistics-count-negative: class 0"),
        ({"sum": np.full((3, 5), np.nan)}, "array-not-finite: sum"),
        ({"second": np.zeros((1, 5, 5))}, "statistics-moments-shape: holds 1"),
        ({"second": np.zeros((3, 5, 4))}, "array-shape: second"),
        ({"center": np.zeros(4)}, "array-shape: center"),
        ({"count": "many"}, "argument-not-numbers: count...many"),
    ],
)
def test_the_constructor_checks(change, says):
    a, _ = two_sites()
    whole = {"count": a.count, "sum": a.sum, "second": a.second, "center": a.center}
    with refused(says):
        ClassStatistics(**(whole | change))


@pytest.mark.parametrize("kind", ["pooled", "per-class", None])
def test_what_was_never_added_cannot_be_taken_away(kind):
    """The counts allow it; the covariance that would be left has a negative eigenvalue, which was clipped before."""
    a, b = two_sites()
    far, _ = two_sites(seed=1)
    far = ClassStatistics(far.count.clip(max=3), far.sum, far.second, far.center)  # few samples, of another site
    if kind is not None:
        a, b, far = (SiteStatistics(s.count, s.sum, s.second, s.center).of_kind(kind) for s in (a, b, far))
    left = (a + b) - b
    np.testing.assert_allclose(left.sum, a.sum, atol=1e-9)
    with refused("statistics-not-added"):
        a - far


def test_taking_away_is_refused_for_no_rounding():
    """One sample, constant coordinates, a mean a million spreads from zero: what is left is singular, or noise."""
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.normal(size=(40, 3)), np.full((40, 3), 7.0)], axis=1) + 1e6
    y = np.zeros(40, np.int64)
    with pytest.warns(GgeurWarning):
        parts = [ClassStatistics.from_embeddings(x[i : i + 4], y[:4], 1) for i in range(0, 40, 4)]
        one = ClassStatistics.from_embeddings(x[:1], y[:1], 1)
    total = ClassStatistics.merge([*parts, one])
    for part in [one, *parts]:
        total = total - part
    assert total.count[0] == 0 and not total.second.any()


def test_a_shape_of_moments_that_do_not_belong_together_is_refused():
    a, _ = two_sites()
    odd = ClassStatistics(a.count, 5 * a.sum, a.second, a.center)
    with refused("covariance-not-positive"):
        Geometry.from_statistics(odd)


def test_overflow_is_one_error_and_no_warning():
    x = np.full((6, 3), 1e200)
    x[::2] = -1e300
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with refused("embeddings-overflow"):
            ClassStatistics.from_embeddings(x, [0, 1, 0, 1, 0, 1], 2)
