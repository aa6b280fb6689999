"""Round 0 in a simulation: what augmentation makes of the clients' samples, and what their messages add up to."""

import warnings

import numpy as np
import pytest

from ggeur.data.table import EmbeddingTable
from ggeur.federation import local_federation
from ggeur.federation.augmentation import build
from ggeur.federation.local_federation import LocalFederation
from ggeur.federation.start import client_weights
from ggeur.stats.errors import GgeurWarning
from ggeur.stats.site_statistics import SiteStatistics, StatisticsQuery
from ggeur.stats.statistics import ClassStatistics

C = 4


def held(table, part):
    return np.bincount(table.y[part], minlength=C)


def clients_of(table, parts):
    return LocalFederation.of(table.x, table.y, table.domains, table.n_classes, parts)


# ---------------------------------------------------------------- augmentation

PARTS = [np.arange(0, 15), np.array([40, 41, 50]), np.zeros(0, np.int64)]  # classes 0, 1 of art; 0, 1 of photo; nothing


def augmented(table, parts=PARTS, seed=0, *, kind, **values):
    made = clients_of(table, parts).prepare(build(kind, {"target": 12, "per_prototype": 4} | values, {}), seed)
    base = np.concatenate([table.x, made.prototypes])
    return made, base


def test_none_leaves_every_client_its_own_rows(table):
    made, _ = augmented(table, kind="none")
    assert made.bank is None and len(made.prototypes) == 0
    for own, s in zip(PARTS, made.sets, strict=True):
        np.testing.assert_array_equal(s.sample, own)
        np.testing.assert_array_equal(s.y, table.y[own])
        assert s.originals == len(own) and not s.noise.any()


def test_resample_tops_up_the_classes_held_and_leaves_missing_ones_missing(table):
    made, _ = augmented(table, kind="resample")
    assert made.bank is None
    for own, s in zip(PARTS, made.sets, strict=True):
        n = held(table, own)
        np.testing.assert_array_equal(np.bincount(s.y, minlength=C), np.where(n, np.maximum(n, 12), 0))
        assert set(s.sample) == set(own) and not s.noise.any()


@pytest.mark.parametrize("kind", ["prototypes", "ggeur"])
def test_step_2_adds_draws_around_the_means_of_the_other_domains_also_for_missing_classes(table, kind):
    made, base = augmented(table, kind=kind, steps=2)
    art, photo, empty = made.sets
    # Art and photo hold classes 0 and 1, so each has two prototypes for the other; the empty client has no domain.
    np.testing.assert_array_equal(np.bincount(art.y, minlength=C), [16, 16, 0, 0])
    np.testing.assert_array_equal(np.bincount(photo.y, minlength=C), [16, 16, 0, 0])
    assert len(empty.y) == 0
    for s, other in ((art, PARTS[1]), (photo, PARTS[0])):
        for c in (0, 1):
            samples = s.sample[(s.sample >= len(table)) & (s.y == c)]
            mean = table.x[other][table.y[other] == c].astype(np.float64).mean(axis=0)
            assert len(samples) == 4
            np.testing.assert_allclose(base[samples], np.tile(mean, (4, 1)), rtol=1e-5, atol=1e-6)
    assert (made.bank is None) == (kind == "prototypes")


def test_a_class_the_client_lacks_takes_every_prototype_or_only_the_first(table):
    parts = [np.arange(0, 10), np.arange(50, 60), np.arange(90, 100)]  # art: class 0; photo and sketch: class 1
    for groups, counts in (("all", 8), ("first", 4)):
        made, _ = augmented(table, parts, kind="prototypes", steps=2, empty_group=groups)
        np.testing.assert_array_equal(np.bincount(made.sets[0].y, minlength=C), [12, counts, 0, 0])
        np.testing.assert_array_equal(np.bincount(made.sets[1].y, minlength=C), [4, 16, 0, 0])


def test_ggeur_draws_along_the_covariance_of_all_clients_together(table):
    made, base = augmented(table, kind="ggeur", steps=1, target=6000)
    s = made.sets[0]
    noise = (s.materialise(base, made.bank) - base[s.sample])[s.originals :]
    samples = np.concatenate(PARTS)
    for c in (0, 1):
        own = noise[s.y[s.originals :] == c].astype(np.float64)
        sigma = np.cov(table.x[samples][table.y[samples] == c].T.astype(np.float64), ddof=0)
        bound = np.sqrt((np.trace(sigma) ** 2 + np.linalg.norm(sigma) ** 2) / len(own))
        assert np.linalg.norm(own.T @ own / len(own) - sigma) < 5 * bound


def test_per_sample_replaces_the_target(table):
    made, _ = augmented(table, kind="resample", per_sample=3)
    np.testing.assert_array_equal(np.bincount(made.sets[0].y, minlength=C), [40, 20, 0, 0])


def test_a_class_with_one_sample_has_no_spread_and_is_repeated(table):
    made, base = augmented(table, [np.array([0]), np.array([55])], kind="ggeur", steps=1)
    x = made.sets[0].materialise(base, made.bank)
    np.testing.assert_array_equal(x, np.tile(table.x[0], (12, 1)))


def test_guided_takes_the_shape_from_the_largest_clients_of_a_class_alone(build_table):
    x = np.zeros((120, 5), np.float32)
    x[8:10] = [[9, 0, 0, 0, 0], [0, 9, 0, 0, 0]]
    table = build_table(x=x)
    parts = [np.arange(0, 6), np.arange(6, 8), np.arange(8, 10)]  # six, two and two samples of class 0
    shapes = {}
    for guided in (1.0, 0.8, 0.81):
        made, _ = augmented(table, parts, kind="ggeur", steps=1, guided=guided)
        shapes[guided] = np.abs(made.bank).max()
    assert shapes[1.0] > 0
    assert shapes[0.8] == 0, "the first two hold 0.8 of the class, and their samples are all alike"
    assert shapes[0.81] > 0, "two clients do not hold 0.81"


def test_one_domain_has_no_prototypes_and_step_2_says_so(build_table):
    table = build_table(domains=("all",))
    parts = [np.arange(0, 15), np.arange(20, 25)]
    with pytest.warns(GgeurWarning, match="Step 2 adds nothing: the table has one domain"):
        two, _ = augmented(table, parts, kind="ggeur", steps=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one, _ = augmented(table, parts, kind="ggeur", steps=1)
    np.testing.assert_array_equal(one.bank, two.bank)
    for a, b in zip(one.sets, two.sets, strict=True):
        np.testing.assert_array_equal(a.sample, b.sample)
        np.testing.assert_array_equal(a.noise, b.noise)


def test_clients_that_mix_domains_take_step_1_only(table):
    mixed = np.array([0, 1, 40, 41])
    with pytest.warns(GgeurWarning, match="mix domains"):
        made, _ = augmented(table, [mixed, mixed + 2], kind="prototypes", steps=2)
    assert len(made.prototypes) == 0
    made, _ = augmented(table, [mixed, np.arange(10, 20), np.arange(50, 60)], kind="prototypes", steps=2)
    assert (made.sets[0].sample < len(table)).all(), "a mixed client among pure ones"
    assert (made.sets[1].sample >= len(table)).any()


def test_weights_are_the_rows_trained_on_the_original_rows_or_one(table):
    made, _ = augmented(table, kind="resample")
    samples, originals = [len(s.y) for s in made.sets], [s.originals for s in made.sets]
    np.testing.assert_array_equal(client_weights(samples, originals, "samples"), [24, 24, 0])
    np.testing.assert_array_equal(client_weights(samples, originals, "original"), [15, 3, 0])
    np.testing.assert_array_equal(client_weights(samples, originals, "equal"), [1, 1, 1])


# ---------------------------------------------------------------- statistics


@pytest.mark.parametrize("samples", [1, 7, 40, 1000])
def test_small_clients_are_summed_up_together_and_nobody_is_left_out(table, monkeypatch, samples):
    monkeypatch.setattr(local_federation, "_LOT_ROWS", samples)
    parts = np.split(np.random.default_rng(0).permutation(100), [0, 3, 3, 40, 41, 90, 100])  # the last 20 are nobody's
    one_by_one = [ClassStatistics.from_embeddings(table.x[p], table.y[p], C) for p in parts if len(p)]
    found, expected = (
        clients_of(table, parts).statistics(StatisticsQuery("per-class")).of_kind("per-class"),
        ClassStatistics.merge(one_by_one),
    )
    for name in ("count", "mean", "covariance"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-12, atol=1e-14)


def test_many_small_clients_are_not_a_matrix_each(monkeypatch):
    made = []
    usual = SiteStatistics.from_embeddings
    monkeypatch.setattr(SiteStatistics, "from_embeddings", lambda *a, **k: made.append(a) or usual(*a, **k))
    table = EmbeddingTable(x=np.random.default_rng(0).normal(size=(6000, 2)).astype(np.float32), y=np.arange(6000) % 3)
    clients_of(table, np.split(np.arange(6000), 3000)).statistics(StatisticsQuery("per-class"))
    assert len(made) == 3


@pytest.mark.parametrize("offset", [0.0, 5e3, 1e5])
def test_shapes_keep_their_precision_however_far_the_mean_is_from_zero(offset):
    """A float32 table holds 1e5 +- 1 to two digits; what it holds must come out, not what cancellation leaves."""
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2
    table = EmbeddingTable(x=(offset + rng.normal(size=(400, 3))).astype(np.float32), y=y)
    parts = [np.arange(0, 200), np.arange(200, 400)]
    statistics = clients_of(table, parts).statistics(StatisticsQuery("per-class"))
    expected = [np.cov(table.x[y == c].astype(np.float64).T, bias=True) for c in (0, 1)]
    np.testing.assert_allclose(statistics.covariance, expected, rtol=1e-9, atol=1e-10)
    assert statistics.center.any() == (offset > 0)
