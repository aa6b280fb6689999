"""Partitions: who gets which samples, exactly, reproducibly, and with the skew that was asked for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ggeur.data.partition import by_domain, dirichlet, label_and_domain, share_matrix
from ggeur.data.table import EmbeddingTable
from refusal import refused

ANY_BETA = [1e-300, 1e-5, 1e-3, 0.1, 1.0, 1e6]


def labels(n=600, n_classes=5, seed=0):
    return np.random.default_rng(seed).integers(n_classes, size=n)


def table_like(seed=0, n=400):
    """Labels, domains and a test mask with 30 % of the samples."""
    rng = np.random.default_rng(seed)
    return rng.integers(4, size=n), rng.integers(3, size=n), rng.random(n) < 0.3


def counts(parts, y):
    return np.array([np.bincount(y[samples], minlength=y.max() + 1) for samples in parts])


# ---------------------------------------------------------------- dirichlet


@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=5),
    clients=st.integers(1, 8),
    power=st.floats(-6, 6),
    least=st.integers(0, 4),
    seed=st.integers(0, 2**31),
)
def test_dirichlet_gives_every_row_once_and_every_client_its_least_or_says_why_not(sizes, clients, power, least, seed):
    y = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    if any(0 < n < clients * least for n in sizes):
        with refused("partition-samples-too-few"):
            dirichlet(y, clients, 10.0**power, min_per_class=least, seed=seed)
        return
    parts = dirichlet(y, clients, 10.0**power, min_per_class=least, seed=seed)
    assert len(parts) == clients
    assert np.sort(np.concatenate(parts)).tolist() == list(range(len(y)))
    for c, n in enumerate(sizes):
        assert n == 0 or min((y[samples] == c).sum() for samples in parts) >= least


@pytest.mark.parametrize("beta", ANY_BETA)
def test_no_beta_hangs_loses_a_row_or_makes_nan(beta):
    y = labels()
    parts = dirichlet(y, clients=10, beta=beta)
    assert np.sort(np.concatenate(parts)).tolist() == list(range(len(y)))
    shares = share_matrix(10, 5, beta)
    assert (shares >= 0).all()
    np.testing.assert_allclose(shares.sum(axis=0), 1)


def test_the_extremes_are_one_owner_per_class_and_equal_shares():
    y = np.repeat(np.arange(5), 100)
    one_owner = counts(dirichlet(y, clients=4, beta=1e-300), y)
    assert np.sort(one_owner, axis=0).tolist() == [[1] * 5, [1] * 5, [1] * 5, [97] * 5]
    equal = counts(dirichlet(y, clients=4, beta=1e12), y)
    assert (equal == 25).all()


@pytest.mark.parametrize("beta", [1e-4, 0.01, 0.1, 1.0, 10.0])
def test_shares_have_the_mean_and_variance_of_a_dirichlet(beta):
    shares = share_matrix(4, 5000, beta, seed=1)
    law = stats.dirichlet(np.full(4, beta))
    sd = np.sqrt(law.var()[0])
    np.testing.assert_allclose(shares.mean(axis=1), law.mean(), atol=5 * sd / np.sqrt(5000))
    np.testing.assert_allclose(shares.var(axis=1), law.var(), rtol=0.1)


def test_a_smaller_beta_is_more_skewed():
    y = np.tile(np.arange(20), 100)
    largest = [counts(dirichlet(y, 10, beta), y).max(axis=0).mean() for beta in (0.01, 0.1, 0.5, 5, 500)]
    assert largest == sorted(largest, reverse=True)
    assert largest[0] > 80 and largest[-1] < 15


def test_rows_of_a_class_are_dealt_at_random_and_not_in_table_order():
    y = np.zeros(1000, int)
    parts = dirichlet(y, clients=2, beta=1e6)
    assert abs(parts[0].mean() - 500) < 5 * 1000 / np.sqrt(12 * 500)  # blocks in order would be 250 away


def test_dirichlet_says_which_class_is_too_small():
    with refused("partition-samples-too-few: Class 1...3 training...4 clients") as error:
        dirichlet([0] * 10 + [1] * 3, clients=4)
    assert "\n" not in str(error.value)
    with refused("partition-samples-too-few: Class 0...1 training"):  # the test samples do not count
        dirichlet([0, 0], clients=2, test=[True, False])


def test_without_a_least_a_client_may_stay_empty():
    parts = dirichlet([0, 0, 0], clients=5, beta=0.1, min_per_class=0)
    assert len(parts) == 5 and sum(map(len, parts)) == 3
    assert min(map(len, parts)) == 0 and all(samples.dtype == np.int64 for samples in parts)


# ---------------------------------------------------------------- by_domain


def test_by_domain_takes_the_share_of_all_rows_of_the_domain_from_its_training_rows():
    domain = np.repeat([0, 1], [100, 50])
    test = np.tile([False] * 7 + [True] * 3, 15)
    parts = by_domain(domain, share=0.3, test=test)
    assert [len(samples) for samples in parts] == [30, 15]
    for d, samples in enumerate(parts):
        assert (domain[samples] == d).all() and not test[samples].any()


def test_by_domain_never_takes_more_than_the_training_rows():
    domain, test = np.repeat([0, 1], 50), np.tile([False, True], 50)
    for share in (0.5, 0.9, 1.0):
        assert [len(samples) for samples in by_domain(domain, share=share, test=test)] == [25, 25]


@pytest.mark.parametrize(("share", "kept"), [(0.1, 100), (0.05, 50), (0.3, 100)])
def test_a_share_already_taken_is_not_taken_twice(share, kept):
    domain = np.zeros(150, int)  # 100 training samples are the tenth that someone took; 50 test samples are whole
    test = np.arange(150) >= 100
    assert [len(samples) for samples in by_domain(domain, share=share, taken=0.1, test=test)] == [kept]


def test_a_domain_without_training_rows_is_an_empty_client():
    parts = by_domain([0, 2, 2], test=[False, False, False])
    assert [samples.tolist() for samples in parts] == [[0], [], [1, 2]]


# ---------------------------------------------------------------- label_and_domain


@pytest.mark.parametrize("beta", [1e-300, 0.1, 1.0, 1e6])
def test_each_client_holds_its_share_of_each_class_of_one_domain(beta):
    y, domain, test = table_like()
    shares = share_matrix(3, 4, beta, seed=2)
    np.testing.assert_allclose(shares.sum(axis=0), 1)
    parts = label_and_domain(y, domain, beta, test=test, seed=2)
    for d, samples in enumerate(parts):
        assert (domain[samples] == d).all() and not test[samples].any()
        exact = shares[d] * np.bincount(y[(domain == d) & ~test], minlength=4)
        count = np.bincount(y[samples], minlength=4)
        assert (exact - 1 < count).all() and (count <= exact + 1e-6).all()  # floor


def test_a_share_of_one_keeps_the_whole_group():
    y, domain, test = table_like()
    shares = share_matrix(3, 4, 1e-300, seed=0)
    parts = label_and_domain(y, domain, 1e-300, test=test, seed=0)
    for d in range(3):
        whole = np.flatnonzero((domain == d) & ~test & (shares[d, y] == 1))
        np.testing.assert_array_equal(parts[d], whole)


# ---------------------------------------------------------------- all of them

COVARIANCES = {
    "dirichlet": lambda y, domain, test, seed: dirichlet(y, 6, 0.5, test=test, seed=seed),
    "by_domain": lambda y, domain, test, seed: by_domain(domain, share=0.3, test=test, seed=seed),
    "label_and_domain": lambda y, domain, test, seed: label_and_domain(y, domain, 0.5, test=test, seed=seed),
}


@pytest.mark.parametrize("kind", COVARIANCES)
def test_rows_are_sorted_whole_numbers_without_overlap_and_never_of_the_test_part(kind):
    y, domain, test = table_like()
    parts = COVARIANCES[kind](y, domain, test, 0)
    together = np.concatenate(parts)
    assert len(set(together.tolist())) == len(together) > 0
    assert not test[together].any()
    for samples in parts:
        assert samples.dtype == np.int64 and (np.diff(samples) > 0).all()


@pytest.mark.parametrize("kind", COVARIANCES)
def test_the_seed_alone_decides(kind):
    y, domain, test = table_like()
    first, again, other = (COVARIANCES[kind](y, domain, test, seed) for seed in (7, 7, 8))
    assert [samples.tolist() for samples in first] == [samples.tolist() for samples in again]
    assert [samples.tolist() for samples in first] != [samples.tolist() for samples in other]


@pytest.mark.parametrize("kind", COVARIANCES)
def test_lists_are_as_good_as_arrays(kind):
    y, domain, test = table_like()
    ours = COVARIANCES[kind](y.tolist(), domain.tolist(), test.tolist(), 0)
    assert [samples.tolist() for samples in ours] == [
        samples.tolist() for samples in COVARIANCES[kind](y, domain, test, 0)
    ]


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda: dirichlet([0, 1], beta=0), "partition-beta-invalid"),
        (lambda: dirichlet([0, 1], beta=-1), "partition-beta-invalid"),
        (lambda: dirichlet([0, 1], beta=np.nan), "partition-beta-invalid"),
        (lambda: dirichlet([0, 1], beta=1.7e308), "partition-beta-invalid"),
        (lambda: dirichlet([0, 1], clients=10**15), "partition-samples-too-few"),
        (lambda: label_and_domain([0, 1], [0, 1], beta=np.inf), "partition-beta-invalid"),
        (lambda: dirichlet([0, 1], clients=0), "argument-not-whole-number: clients"),
        (lambda: dirichlet([0, 1], clients=1, min_per_class=-1), "argument-not-whole-number: min_per_class"),
        (lambda: dirichlet([0, 1], test=[True]), "array-shape: test"),
        (lambda: dirichlet([0, -1], clients=1), "labels-out-of-range: label -1...sample 1"),
        (lambda: dirichlet([0, 0.5], clients=1), "labels-not-integers"),
        (lambda: dirichlet([0, np.nan], clients=1), "labels-not-integers"),
        (lambda: dirichlet([[0, 1]], clients=1), "labels-shape"),
        (lambda: by_domain([0, 1], share=0), "argument-not-fraction: share"),
        (lambda: by_domain([0, 1], share=1.5), "argument-not-fraction: share"),
        (lambda: by_domain([0, 1], share=np.nan), "argument-not-fraction: share"),
        (lambda: by_domain([0, 1], taken=0), "argument-not-fraction: taken"),
        (lambda: by_domain([-1, 1]), "labels-out-of-range: label -1"),
        (lambda: by_domain(["art", "photo"]), "labels-not-integers"),
        (lambda: by_domain([0, 10**15]), "labels-out-of-range"),
        (lambda: label_and_domain([0, 1], [0]), "labels-domains-mismatch"),
    ],
)
def test_bad_requests_are_refused_in_one_sentence(ask, says):
    with refused(says) as error:
        ask()
    assert "\n" not in str(error.value)


def test_no_rows_make_no_trouble():
    assert [samples.tolist() for samples in dirichlet([], clients=2)] == [[], []]
    assert by_domain([]) == [] and label_and_domain([], []) == []


@pytest.mark.real
def test_office_caltech_has_the_papers_sizes(shared):
    table = EmbeddingTable.load(shared / "data/embeddings/office_caltech10.tinyvit.npz").split(seed=0)
    assert table.domain_names == ("amazon", "caltech", "dslr", "webcam")
    assert np.bincount(table.domains[table.test]).tolist() == [288, 337, 48, 89]
    parts = by_domain(table.domains, share=0.3, test=table.test, seed=0)
    assert [len(samples) for samples in parts] == [287, 336, 47, 88]  # 30 % of 958, 1123, 157 and 295
    skewed = label_and_domain(table.y, table.domains, 0.1, test=table.test, seed=0)
    assert [set(table.domains[samples].tolist()) for samples in skewed] == [{0}, {1}, {2}, {3}]
    assert not table.test[np.concatenate(parts + skewed)].any()
    train = np.bincount(table.domains[~table.test])
    assert sum(map(len, skewed)) < 0.6 * train.sum()  # a quarter on average: the rest stays unused
