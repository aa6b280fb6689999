"""Geometry: the eigenpairs of each class's covariance (Eq. 2) and their similarity (Eq. 3)."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ggeur.data.table import EmbeddingTable
from ggeur.stats.geometry import Geometry, similarity
from ggeur.stats.statistics import ClassStatistics
from refusal import refused

SEEDS = st.integers(0, 2**32 - 1)


def sample(seed=0, n=60, p=6, n_classes=3):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, p)) @ rng.normal(size=(p, p)) + rng.normal(size=p)
    return x, np.arange(n) % n_classes


def shape_of(x, y, n_classes=3, **options):
    return Geometry.from_statistics(ClassStatistics.from_embeddings(x, y, n_classes), **options)


def axes(*variances):
    """Two samples out along each axis, so that the covariance is exactly diag(variances)."""
    reach = np.sqrt(len(variances) * np.array(variances, float))
    return np.concatenate([np.diag(reach), -np.diag(reach)])


@given(seed=SEEDS, n=st.integers(6, 40), p=st.integers(1, 8))
@example(seed=3628800, n=6, p=1)  # a spread of a ten-thousandth of the mean
def test_the_eigenpairs_are_the_singular_pairs_of_the_centred_data(seed, n, p):
    x, y = sample(seed, n, p, n_classes=2)
    g = shape_of(x, y, 2)
    for c in range(2):
        own = x[y == c] - x[y == c].mean(axis=0)
        singular = np.linalg.svd(own, compute_uv=False) ** 2 / len(own)
        expected = np.concatenate([singular, np.zeros(max(p - len(singular), 0))])
        digits = 1e-9 * expected[0] + 1e-14 * (x**2).max()  # moments about zero round by the mean's square
        np.testing.assert_allclose(g.eigenvalues[c], expected, rtol=1e-9, atol=digits)
        v = g.eigenvectors[c]
        np.testing.assert_allclose(v.T @ v, np.eye(p), atol=1e-10)
        np.testing.assert_allclose((own.T @ own / len(own)) @ v, v * g.eigenvalues[c], atol=digits)


@given(seed=SEEDS, n=st.integers(1, 5))
def test_eigenvalues_descend_and_are_never_negative(seed, n):
    x, y = sample(seed, 3 * n, p=8)  # fewer samples than dimensions: rounding leaves tiny negatives
    g = shape_of(x, y)
    assert (g.eigenvalues >= 0).all()
    assert (np.diff(g.eigenvalues, axis=1) <= 0).all()


def test_axes_of_known_lengths_are_found():
    g = shape_of(axes(1, 4, 2, 3), np.zeros(8, int), 1)
    np.testing.assert_allclose(g.eigenvalues, [[4, 3, 2, 1]], atol=1e-12)
    np.testing.assert_allclose(np.abs(g.eigenvectors[0]), np.eye(4)[:, [1, 3, 2, 0]], atol=1e-12)


def test_rank_keeps_the_leading_directions():
    x, y = sample()
    whole, cut = shape_of(x, y), shape_of(x, y, rank=2)
    assert cut.eigenvalues.shape == (3, 2) and cut.eigenvectors.shape == (3, 6, 2)
    assert (cut.n_classes, cut.dimension) == (3, 6)
    np.testing.assert_array_equal(cut.eigenvalues, whole.eigenvalues[:, :2])
    np.testing.assert_array_equal(cut.eigenvectors, whole.eigenvectors[:, :, :2])


@pytest.mark.parametrize(("energy", "kept"), [(1e-6, 1), (0.39, 1), (0.41, 2), (0.69, 2), (0.71, 3), (1.0, 4)])
def test_energy_keeps_as_many_directions_as_carry_that_share(energy, kept):
    g = shape_of(axes(4, 3, 2, 1), np.zeros(8, int), 1, energy=energy)
    np.testing.assert_allclose(g.eigenvalues[0], [4, 3, 2, 1][:kept] + [0] * (4 - kept), atol=1e-12)


def test_energy_is_counted_class_by_class():
    x = np.concatenate([axes(100, 1, 1, 1), axes(1, 1, 1, 1)])
    g = shape_of(x, np.repeat([0, 1], 8), 2, energy=0.9)
    assert np.count_nonzero(g.eigenvalues, axis=1).tolist() == [1, 4]


def test_a_class_with_one_sample_has_a_flat_shape():
    g = shape_of([[3.0, 4.0, 5.0]], [0], 1)
    assert g.present.all()
    np.testing.assert_allclose(g.factor(0, "sqrt-eigenvalue"), 0, atol=1e-6)


def test_the_factors_are_the_covariance_and_its_square_root():
    x, y = sample()
    g = shape_of(x, y)
    for c in range(3):
        sigma = np.cov(x[y == c].T, bias=True)
        root = g.factor(c, "sqrt-eigenvalue")
        np.testing.assert_allclose(g.factor(c, "eigenvalue"), sigma, atol=1e-10 * np.abs(sigma).max())
        np.testing.assert_allclose(root @ root.T, sigma, atol=1e-10 * np.abs(sigma).max())


def test_the_factor_of_a_cut_shape_is_the_best_approximation_of_that_rank():
    x, y = sample()
    u, s, vt = np.linalg.svd(np.cov(x[y == 1].T, bias=True))
    best = (u[:, :2] * s[:2]) @ vt[:2]
    np.testing.assert_allclose(shape_of(x, y, rank=2).factor(1, "eigenvalue"), best, atol=1e-9 * s[0])


@pytest.mark.parametrize("scale", ["eigenvalue", "sqrt-eigenvalue"])
def test_the_factor_does_not_depend_on_the_sign_or_basis_of_the_eigenvectors(scale):
    v = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    turn = np.eye(4)
    turn[:2, :2] = [[np.cos(1), -np.sin(1)], [np.sin(1), np.cos(1)]]  # in the plane of the equal values
    values, here = np.array([[2.0, 2.0, 0.5, 0.1]]), np.array([True])
    plain = Geometry(values, v[None], here).factor(0, scale)
    for other in (v * [-1, 1, -1, 1], v @ turn):
        np.testing.assert_allclose(Geometry(values, other[None], here).factor(0, scale), plain, atol=1e-12)


def test_only_the_square_root_scale_is_free_of_units():
    x, y = sample()
    g, tenfold = shape_of(x, y), shape_of(10 * x, y)
    np.testing.assert_allclose(tenfold.factor(0, "sqrt-eigenvalue"), 10 * g.factor(0, "sqrt-eigenvalue"), atol=1e-6)
    np.testing.assert_allclose(tenfold.factor(0, "eigenvalue"), 100 * g.factor(0, "eigenvalue"), atol=1e-6)


def test_an_absent_class_is_marked_and_raises_only_when_its_shape_is_asked_for():
    x, y = sample(n_classes=2)
    g = shape_of(x, 2 * y, 3)  # classes 0 and 2
    assert g.present.tolist() == [True, False, True]
    assert np.isfinite(g.eigenvalues).all() and np.isfinite(g.eigenvectors).all()
    g.require([0, 2])
    np.testing.assert_allclose(g.factor(2, "eigenvalue"), np.cov(x[y == 1].T, bias=True), atol=1e-10)
    with refused("geometry-class-absent: class 1"):
        g.factor(1, "eigenvalue")
    for pair in ((g, shape_of(*sample())), (shape_of(*sample()), g)):
        with refused("geometry-class-absent: Class 1"):
            similarity(*pair)


def test_uncentred_geometry_is_equation_1_and_serves_similarity_only():
    x, y = sample()
    g = shape_of(x, y, centred=False)
    for c in range(3):
        moment = x[y == c].T @ x[y == c] / (y == c).sum()
        np.testing.assert_allclose(g.eigenvalues[c], np.linalg.eigvalsh(moment)[::-1], rtol=1e-8, atol=1e-10)
        v = g.eigenvectors[c]
        np.testing.assert_allclose(moment @ v, v * g.eigenvalues[c], atol=1e-9 * g.eigenvalues[c, 0])
    np.testing.assert_allclose(np.diag(similarity(g, g)), 5)
    with refused("geometry-uncentred"):
        g.factor(0, "sqrt-eigenvalue")


def test_similarity_is_equation_3_written_out():
    a, b = shape_of(*sample(1)), shape_of(*sample(2, n_classes=2), n_classes=2)
    s = similarity(a, b, top=4)
    assert s.shape == (3, 2)
    for i in range(3):
        for j in range(2):
            total = 0.0
            for m in range(4):
                total += abs(float(a.eigenvectors[i][:, m] @ b.eigenvectors[j][:, m]))
            assert s[i, j] == pytest.approx(total, rel=1e-12)


@given(seed=SEEDS, top=st.integers(1, 6))
def test_similarity_is_symmetric_bounded_and_largest_with_oneself(seed, top):
    a, b = shape_of(*sample(seed)), shape_of(*sample(seed + 1))
    s = similarity(a, b, top)
    np.testing.assert_allclose(similarity(b, a, top), s.T)
    assert (s >= 0).all() and (s <= top + 1e-9).all()
    np.testing.assert_allclose(np.diag(similarity(a, a, top)), top)


def test_similarity_ignores_signs_and_is_zero_where_ranks_are_orthogonal():
    g = shape_of(axes(4, 3, 2, 1), np.zeros(8, int), 1)
    flipped = Geometry(g.eigenvalues, -g.eigenvectors, g.present)
    assert similarity(g, flipped, top=4)[0, 0] == pytest.approx(4)
    other = shape_of(axes(1, 2, 3, 4), np.zeros(8, int), 1)  # the same axes in the opposite order
    assert similarity(g, other, top=4)[0, 0] == pytest.approx(0)


@pytest.mark.parametrize("options", [{"rank": 0}, {"rank": 7}, {"energy": 0.0}, {"energy": 1.1}, {"energy": np.nan}])
def test_cuts_that_keep_nothing_or_too_much_are_refused(options):
    with refused("geometry-rank-range" if "rank" in options else "argument-not-fraction: energy"):
        shape_of(*sample(), **options)


def test_an_unknown_scale_is_refused_by_name():
    with refused("argument-not-choice: sqrt...eigenvalue, sqrt-eigenvalue"):
        shape_of(*sample()).factor(0, "sqrt")


def test_geometries_that_cannot_be_compared_are_refused():
    g = shape_of(*sample())
    for other, top in ((shape_of(*sample(p=5)), 5), (g, 7), (g, 0), (shape_of(*sample(), rank=3), 5)):
        with refused("geometry-not-comparable"):
            similarity(g, other, top)


@pytest.mark.real
def test_one_class_in_two_domains_has_similar_shapes_as_the_paper_found(shared):
    table = EmbeddingTable.load(shared / "data/embeddings/office_caltech10.tinyvit.npz")
    amazon, caltech = (shape_of(table.x[table.domains == d], table.y[table.domains == d], 10) for d in (0, 1))
    s = similarity(amazon, caltech)
    different = s[~np.eye(10, dtype=bool)].mean()
    assert np.diag(s).mean() > 2 * different  # 1.25 against 0.35; the bright diagonal of the paper's Figure 6
    assert (s.argmax(axis=1) == np.arange(10)).sum() >= 8
