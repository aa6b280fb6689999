"""Virtual sets: indices into a shared bank of noise are the augmented set, with Algorithm 1's law."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggeur.stats.augment import augment
from ggeur.stats.augmented_sets import (
    AugmentedSet,
    BankLayout,
    BankPiece,
    DrawRule,
    Draws,
    NoisePlace,
    augmented_set,
    plan_draws,
    training_set,
)
from ggeur.stats.geometry import Geometry
from ggeur.stats.statistics import ClassStatistics

P, C = 3, 3
ROOM = 4 * P  # bytes of one sample of the bank


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    y = rng.integers(0, C, 90)
    mixing = rng.normal(size=(C, P, P))
    x = np.einsum("npq,nq->np", mixing[y], rng.normal(size=(90, P))) + 3 * y[:, None]
    return x.astype(np.float32), y


@pytest.fixture(scope="module")
def geometry(table):
    return Geometry.from_statistics(ClassStatistics.from_embeddings(*table, C))


CLIENTS = [np.arange(0, 20), np.arange(20, 23), np.zeros(0, np.int64), np.arange(23, 80)]


def noise_bank(geometry, layout, scale, seed):
    return layout.whole.noise(geometry.factors(scale).astype(np.float32), np.arange(C), seed)


def federation(table, geometry, *, bank_bytes=2**20, target=40, prototypes=None, per_prototype=7, seed=0):
    """Every client's virtual set, the base they index and the bank."""
    x, y = table
    present = None if prototypes is None else np.ones(prototypes.shape[:2], bool)
    rule, present = DrawRule(target, None, per_prototype), np.zeros((0, C), bool) if present is None else present
    counts = np.stack([rule.draws(np.bincount(y[own], minlength=C), present) for own in CLIENTS])
    layout = BankLayout.of(counts, P, bank_bytes)
    places = [NoisePlace(layout.whole, layout.offset[k], k, seed) for k in range(len(CLIENTS))]
    sets = [training_set(own, y[own], rule, present, at, len(x)) for own, at in zip(CLIENTS, places, strict=True)]
    base = x if prototypes is None else np.concatenate([x, prototypes.reshape(-1, P)])
    return sets, base, noise_bank(geometry, layout, "sqrt-eigenvalue", seed)


# ---------------------------------------------------------------- what a set is


def test_a_sample_is_its_base_row_plus_the_signed_noise_row():
    base = np.array([[1.0, 2.0], [10.0, 20.0]], np.float16)
    bank = np.array([[0.0, 0.0], [0.5, 0.25], [3.0, 4.0]], np.float32)
    indices = AugmentedSet(np.array([1, 0, 0, 1]), np.array([0, 1, -1, -2]), np.array([0, 0, 0, 0]), 1)
    x = indices.materialise(base, bank)
    assert x.dtype == np.float32
    np.testing.assert_array_equal(x, [[10, 20], [1.5, 2.25], [0.5, 1.75], [7, 16]])
    np.testing.assert_array_equal(indices.materialise(base, None), base[[1, 0, 0, 1]])


def test_draws_are_around_own_rows_in_turn_and_then_around_prototypes():
    own, y = np.array([10, 12, 15]), np.array([1, 0, 1])
    draws = plan_draws(y, 2, DrawRule(4, None, 2), np.array([[True, True]]))
    s = augmented_set(own, y, draws, None, prototypes_at=100)
    # Own samples; class 0: three more around sample 12, two around prototype 0; class 1: samples 10 and 15, then
    # prototype 1.
    np.testing.assert_array_equal(s.sample, [10, 12, 15, 12, 12, 12, 100, 100, 10, 15, 101, 101])
    np.testing.assert_array_equal(s.y, [1, 0, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1])
    np.testing.assert_array_equal(s.noise, 0)
    assert s.originals == 3


def test_a_client_without_rows_and_prototypes_has_an_empty_set():
    none = np.zeros(0, np.int64)
    s = augmented_set(none, none, Draws(none, none), None, prototypes_at=5)
    assert len(s.sample) == len(s.noise) == len(s.y) == s.originals == 0


def test_originals_come_first_and_carry_no_noise(table, geometry):
    sets, base, bank = federation(table, geometry)
    assert not bank[0].any()
    for own, s in zip(CLIENTS, sets, strict=True):
        assert s.originals == len(own)
        np.testing.assert_array_equal(s.noise[: len(own)], 0)
        assert (s.noise[len(own) :] != 0).all()
        np.testing.assert_array_equal(s.materialise(base, bank)[: len(own)], table[0][own])


# ---------------------------------------------------------------- the same law as augment


def test_counts_and_centres_are_those_of_augment(table, geometry):
    x, y = table
    prototypes = np.random.default_rng(1).normal(size=(2, C, P)).astype(np.float32)
    sets, base, _ = federation(table, geometry, prototypes=prototypes)
    for own, s in zip(CLIENTS, sets, strict=True):
        centres, labels = augment(
            x[own], y[own], geometry, target=40, prototypes=prototypes, per_prototype=7, scale=None
        )
        np.testing.assert_array_equal(s.y, labels)
        np.testing.assert_array_equal(s.materialise(base, None), centres)


def test_noise_has_the_covariance_of_its_class(table, geometry):
    """E|S - Sigma|_F^2 over n Gaussian draws is (tr(Sigma)^2 + |Sigma|_F^2) / n; we allow five times its root."""
    x, y = table
    sets, base, bank = federation(table, geometry, target=4000)
    for s in (sets[0], sets[3]):
        noise = s.materialise(base, bank) - base[s.sample]
        for c in range(C):
            own = noise[s.originals :][s.y[s.originals :] == c].astype(np.float64)
            sigma = np.cov(x[y == c].T.astype(np.float64), ddof=0)
            n = len(own)
            assert n > 3900
            bound = np.sqrt((np.trace(sigma) ** 2 + np.linalg.norm(sigma) ** 2) / n)
            assert np.linalg.norm(own.T @ own / n - sigma) < 5 * bound
            assert (np.abs(own.mean(axis=0)) < 5 * np.sqrt(np.diag(sigma) / n)).all()


def test_noise_of_two_clients_is_uncorrelated(table, geometry):
    sets, base, bank = federation(table, geometry, target=4000)
    a, b = (
        (s.materialise(base, bank) - base[s.sample])[s.originals :][s.y[s.originals :] == 0] for s in (sets[0], sets[3])
    )
    n = min(len(a), len(b))
    a, b = (part[:n] / part.std(axis=0) for part in (a, b))
    assert np.abs(a.T @ b / n).max() < 5 / np.sqrt(n)


def test_signs_are_fair_and_differ_between_clients():
    draws = np.full((2, 1), 5000)
    layout = BankLayout.of(draws, P)
    label = np.zeros(5000, np.int64)
    signs = np.stack([np.sign(layout.whole.noise_rows(layout.offset[k], k, label, 0)) for k in (0, 1)])
    assert (np.abs(signs.mean(axis=1)) < 5 / np.sqrt(5000)).all()
    assert abs((signs[0] * signs[1]).mean()) < 5 / np.sqrt(5000)


def test_the_bank_depends_on_the_seed_alone(geometry):
    layout = BankLayout.of(np.array([[300, 0, 5]]), P)
    first = noise_bank(geometry, layout, "sqrt-eigenvalue", 0)
    np.testing.assert_array_equal(first, noise_bank(geometry, layout, "sqrt-eigenvalue", 0))
    assert not np.isclose(first[1:], noise_bank(geometry, layout, "sqrt-eigenvalue", 1)[1:]).all(axis=1).any()


def test_a_larger_bank_begins_with_the_smaller(geometry):
    """So a site that needs few samples need not make the rest."""
    small, large = (
        noise_bank(geometry, BankLayout.of(np.array([[n, 0, 10]]), P), "eigenvalue", 0) for n in (100, 1000)
    )
    np.testing.assert_allclose(small[1:101], large[1:101], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(small[101:], large[1001:], rtol=1e-5, atol=1e-6)


# ---------------------------------------------------------------- who may share noise


@given(
    st.integers(1, 6).flatmap(
        lambda k: st.lists(st.lists(st.integers(0, 12), min_size=k, max_size=k), min_size=1, max_size=4)
    ),
    st.integers(0, 80),
    st.integers(0, 5),
)
def test_noise_rows_are_distinct_within_a_client_and_across_clients_while_the_bank_fits(by_class, room, seed):
    draws = np.array(by_class).T  # (K, C)
    layout = BankLayout.of(draws, P, room * ROOM)
    fits = draws.sum() <= room
    ends = 1 + np.cumsum(layout.size)
    used = [[] for _ in by_class]
    for k, sample in enumerate(draws):
        label = np.repeat(np.arange(len(by_class)), sample)
        noise = np.abs(layout.whole.noise_rows(layout.offset[k], k, label, seed))
        for c, samples in enumerate(used):
            own = noise[label == c]
            assert len(np.unique(own)) == len(own), "a client draws without replacement"
            assert ((own >= ends[c] - layout.size[c]) & (own < ends[c])).all(), "each class has its own part"
            samples.extend(own)
    if fits:
        assert all(len(np.unique(samples)) == len(samples) for samples in used), "no sample serves two clients"
        np.testing.assert_array_equal(layout.size, draws.sum(axis=0))
    else:
        assert layout.size.sum() <= room + draws.max(axis=0).sum(), "past its room only for a single client's sake"


def test_a_bank_that_wraps_around_stays_in_its_room_and_keeps_one_clients_draws_distinct(table, geometry):
    room = 3 * 45  # fewer samples than the clients' draws, more than any one client needs of a class
    sets, _, bank = federation(table, geometry, bank_bytes=room * ROOM)
    assert len(bank) <= 1 + room < 1 + sum(len(s.y) - s.originals for s in sets)
    shared = 0
    for s in sets:
        samples = np.abs(s.noise[s.originals :])
        assert len(np.unique(samples)) == len(samples)
        assert samples.max(initial=0) < len(bank)
        shared += len(samples)
    assert shared > len(bank) - 1, "the test is too weak"


def test_bank_rows_of_both_steps_are_distinct(table, geometry):
    prototypes = np.zeros((2, C, P), np.float32)
    sets, _, _ = federation(table, geometry, prototypes=prototypes)
    for s in sets:
        samples = np.abs(s.noise[s.originals :])
        assert len(np.unique(samples)) == len(samples) > 0


@given(st.lists(st.integers(0, 6), min_size=3, max_size=3), st.booleans(), st.sampled_from([None, 2]))
def test_the_rule_counts_the_draws_that_are_planned(held, first, per_sample):
    rule = DrawRule(4, per_sample, 2, "first" if first else "all")
    present = np.array([[True, True, False], [True, False, True], [False, True, True]])
    y = np.repeat(np.arange(3), held)
    planned = np.bincount(plan_draws(y, 3, rule, present).label, minlength=3)
    np.testing.assert_array_equal(rule.draws(np.array(held), present), planned)
    both = rule.draws(np.array([held, held]), np.stack([present, present & False]))
    np.testing.assert_array_equal(both, [planned, np.bincount(plan_draws(y, 3, rule).label, minlength=3)])


@pytest.mark.parametrize("bank_bytes", [2**30, 4 * P * 900], ids=["a bank for all", "a bank that wraps around"])
def test_a_site_makes_its_own_rows_of_the_whole_bank(geometry, bank_bytes):
    draws = np.array([[300, 0, 20], [10, 0, 700], [280, 5, 0]])
    layout = BankLayout.of(draws, P, bank_bytes)
    factors = geometry.factors("sqrt-eigenvalue").astype(np.float32), np.arange(3)
    bank = layout.whole.noise(*factors, 4)
    for k, counts in enumerate(draws):
        label = np.repeat(np.arange(3), counts)
        piece = BankPiece(layout.offset[k], counts, layout.size)
        own, noise = piece.noise(*factors, 4), piece.noise_rows(np.zeros(3, int), k, label, 4)
        assert len(own) == 1 + counts.sum(), "no sample of another site"
        signed = layout.whole.noise_rows(layout.offset[k], k, label, 4)
        theirs = np.sign(signed)[:, None] * bank[np.abs(signed)]
        np.testing.assert_allclose(np.sign(noise)[:, None] * own[np.abs(noise)], theirs, rtol=1e-5, atol=1e-6)
