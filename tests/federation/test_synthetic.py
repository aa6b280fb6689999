"""Synthetic samples have every group's moments exactly, whatever its size, and the law of a Gaussian's samples."""

import numpy as np
import pytest
from scipy.stats import kstest, norm

from ggeur.federation.synthetic import GroupCovariances, exact_residuals, square_root, synthetic_samples
from ggeur.stats.errors import GgeurError
from ggeur.stats.site_statistics import Breakdown, FederationStatistics, SiteStatistics

P, C = 6, 4


def site(rng, sizes, shift=0.0):
    """Embeddings of one domain, of so many samples of every class, which scatter differently."""
    y = np.repeat(np.arange(C), sizes)
    mixes = rng.normal(size=(C, P, P))
    return np.einsum("np,npq->nq", rng.normal(size=(len(y), P)), mixes[y]) + 3 * y[:, None] + shift, y


def messages(kind, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    samples = [site(rng, sizes, s + shift) for s, sizes in enumerate([(1, 4, 7, 300), (0, 6, 40, 8), (2, 3, 0, 0)])]
    return samples, [
        SiteStatistics.from_embeddings(x, y, C, center=np.full(P, shift)).of_kind(kind) for x, y in samples
    ]


def scatter(x, y):
    return sum((x[y == c] - x[y == c].mean(axis=0)).T @ (x[y == c] - x[y == c].mean(axis=0)) for c in np.unique(y))


@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_per_class_every_group_has_its_count_mean_and_scatter(shift):
    samples, sent = messages("per-class", shift=shift)
    made = synthetic_samples(sent, 0)
    for d, (x, y) in enumerate(samples):
        for c in np.unique(y):
            own = made.samples((made.domain == d) & (made.y == c))
            assert len(own) == (y == c).sum()  # of one sample, of fewer than dimensions, of more
            np.testing.assert_allclose(own.mean(axis=0), x[y == c].mean(axis=0), atol=1e-10)
            real = scatter(x[y == c], y[y == c])
            np.testing.assert_allclose(scatter(own, np.zeros(len(own))) / len(own), real / len(own), atol=1e-10)
    np.testing.assert_array_equal(made.made, [np.bincount(y, minlength=C) for _, y in samples])


def test_pooled_every_group_has_its_mean_and_every_domain_its_scatter_within_classes():
    samples, sent = messages("pooled")
    made = synthetic_samples(sent, 0)
    for d, (x, y) in enumerate(samples):
        own = made.domain == d
        synthetic = scatter(made.samples(own), made.y[own])
        np.testing.assert_allclose(synthetic / len(y), scatter(x, y) / len(y), atol=1e-10)
        for c in np.unique(y):
            one = made.samples(own & (made.y == c))
            np.testing.assert_allclose(one.mean(axis=0), x[y == c].mean(axis=0), atol=1e-10)


@pytest.mark.parametrize("kind", ["per-class", "pooled"])
@pytest.mark.parametrize("most", [8, 2000])
def test_weighted_they_add_up_to_the_statistics_and_without_some_to_those_of_the_rest(kind, most):
    _, sent = messages(kind)
    made = synthetic_samples(sent, 0, most=most)
    assert made.made.max() <= max(most, 2 * P)
    left = made.folds(4, 0) == 1
    left |= (made.domain == 1) & (made.y == 3)  # and a whole group
    for gone in (np.zeros_like(left), left, (made.domain == 2)):
        total = made.without(gone, kind, Breakdown("pooled"))
        parts = []
        for d in range(3):
            mine = ~gone & (made.domain == d)
            w, x, y = made.weight[mine], made.x[mine], made.y[mine]
            count, sums = np.bincount(y, w, C), np.stack([w[y == c] @ x[y == c] for c in range(C)])
            second = np.stack([(w[y == c, None] * x[y == c]).T @ x[y == c] for c in range(C)])
            parts.append((d, SiteStatistics(count, sums, second, sent[0].center)))
        expected = FederationStatistics.of(((d, m.of_kind(kind)) for d, m in parts), Breakdown("pooled"))
        assert total.domain == expected.domain
        assert (total.count == 0).tolist() == (expected.count == 0).tolist()
        for mine, theirs in ((total, expected), *zip(total.apart, expected.apart, strict=True)):
            for name in ("count", "sum", "second"):
                np.testing.assert_allclose(getattr(mine, name), getattr(theirs, name), atol=1e-9)
                emptied = theirs.count == 0
            assert (mine.sum[emptied] == 0).all()


def test_folds_are_even_within_groups_and_do_not_all_begin_with_the_same():
    _, sent = messages("per-class")
    made = synthetic_samples(sent, 0)
    fold = made.folds(4, 0)
    for d, c in np.argwhere(made.made > 0):
        sizes = np.bincount(fold[(made.domain == d) & (made.y == c)], minlength=4)
        assert sizes.max() - sizes.min() <= 1
    ones = [int(made.folds(4, seed)[0]) for seed in range(20)]
    assert set(ones) == {0, 1, 2, 3}


def test_the_seed_and_the_making_decide_and_another_domain_changes_nothing():
    _, sent = messages("per-class")
    first = synthetic_samples(sent, 3)
    np.testing.assert_array_equal(first.x, synthetic_samples(sent, 3).x)
    alone = synthetic_samples(sent[:1], 3)
    np.testing.assert_array_equal(first.x[first.domain == 0], alone.x)
    for other in (synthetic_samples(sent, 4), synthetic_samples(sent, 3, making=1)):
        assert np.abs(other.x - first.x).max() > 0.1


def test_two_samples_worked_by_hand():
    # Scatter 2 d d' about the mean m: the samples are m + d and m - d, in one order or the other.
    m = SiteStatistics.from_embeddings([[1.0, 2.0], [3.0, 8.0], [5.0, 5.0]], [0, 0, 1], 2)
    found = synthetic_samples([m], 0)
    np.testing.assert_allclose(found.x[np.argsort(found.x[:, 0])], [[1, 2], [3, 8], [5, 5]], atol=1e-12)


def test_residuals_are_orthogonal_to_the_indicators_also_where_there_are_as_many_as_dimensions():
    rng = np.random.default_rng(0)
    for p, sizes in ((40, [41]), (40, [42]), (40, [20, 21, 1]), (40, [3, 5]), (3, [500, 2])):
        a = rng.normal(size=(p, p))
        found = exact_residuals(a @ a.T, np.array(sizes), rng)
        for part in np.split(found, np.cumsum(sizes)[:-1]):
            np.testing.assert_allclose(part.sum(axis=0), 0, atol=1e-10)
        if sum(sizes) - len(sizes) >= p:
            np.testing.assert_allclose(found.T @ found, a @ a.T, atol=1e-10)


def test_a_root_of_a_singular_covariance_has_its_rank():
    a = np.random.default_rng(0).normal(size=(3, 8))
    a[:, 4] = 0  # a dead coordinate
    f = square_root(a.T @ a)
    assert f.shape == (3, 8)
    np.testing.assert_allclose(f.T @ f, a.T @ a, atol=1e-12)
    assert square_root(np.zeros((4, 4))).shape == (0, 4)


def test_a_single_sample_given_the_moments_has_the_law_of_a_gaussian_groups():
    """Of n Gaussian samples, (x_1 - m)' S^-1 (x_1 - m) n / (n - 1) is Beta(p / 2, (n - 1 - p) / 2)."""
    n, p, rng = 9, 3, np.random.default_rng(1)
    a = rng.normal(size=(p, p))
    s = a @ a.T
    first = np.stack([exact_residuals(s, np.array([n]), rng)[0] for _ in range(2000)])
    square = np.einsum("np,np->n", first, np.linalg.solve(s, first.T).T) * n / (n - 1)
    assert kstest(square, "beta", (p / 2, (n - 1 - p) / 2)).pvalue > 0.01
    u = first @ np.linalg.inv(np.linalg.cholesky(s)).T
    direction = u / np.linalg.norm(u, axis=1, keepdims=True)
    assert kstest((direction[:, 0] + 1) / 2, "uniform").pvalue > 0.01  # Archimedes: in three dimensions, of any axis


def test_draws_of_a_group_lean_on_its_domain_by_ten_samples_and_that_on_all_by_fifty():
    _, sent = messages("per-class")
    found = GroupCovariances.of(sent)
    freedom = [m.count.sum() - m.present.sum() for m in sent]
    scatters = [sum(m.scatter_of(c) for c in range(C) if m.count[c]) for m in sent]
    within = sum(scatters) / sum(freedom)
    for d, c in ((0, 2), (0, 3), (2, 0), (0, 0)):
        n = sent[d].count[c]
        like = (scatters[d] + 50 * within) / (freedom[d] + 50)
        a = (n - 1) / (n - 1 + 10)
        expected = a * sent[d].scatter_of(c) / max(n - 1, 1) + (1 - a) * like
        x = found.draws(d, c, 60_000, np.random.default_rng(0))
        np.testing.assert_allclose(x.mean(axis=0), sent[d].mean[c], atol=0.1)
        np.testing.assert_allclose(np.cov(x.T), expected, atol=0.03 * np.abs(expected).max())
        whole = square_root(expected)
        white = (x - sent[d].mean[c]) @ np.linalg.inv(whole.T @ whole) @ whole.T
        assert kstest(white[:5000, 0], norm.cdf).pvalue > 1e-3


def test_class_means_alone_are_refused():
    _, sent = messages("none")
    with pytest.raises(GgeurError, match="need second moments"):
        synthetic_samples(sent, 0)
    with pytest.raises(GgeurError, match="no samples at all"):
        synthetic_samples([], 0)


def test_draws_do_not_depend_on_rounding_where_groups_have_fewer_samples_than_dimensions():
    """The same statistics, added up in another order or about another center, give the same draws."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x, other = 10 + rng.normal(size=(2 + seed % (P - 1), P)), 10 + rng.normal(size=(3 * P, P))
        y, center = np.zeros(len(x), int), x.mean(axis=0)
        first = SiteStatistics.from_embeddings(np.concatenate([x, other]), np.append(y, np.ones(3 * P, int)), 2)
        second = SiteStatistics.from_embeddings(x[::-1], y, 2, center=center)
        second += SiteStatistics.from_embeddings(other, np.ones(3 * P, int), 2, center=center)
        draws = [GroupCovariances.of([s]).draws(0, 0, 50, np.random.default_rng(1)) for s in (first, second)]
        np.testing.assert_allclose(*draws, atol=1e-4)  # a row of mere rounding moves all draws that follow
