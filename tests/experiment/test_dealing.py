"""From table to run: who holds what, what augmentation makes of it, weights, and arms that share all but the arm."""

import warnings

import numpy as np
import pytest

from ggeur.core.errors import GgeurError, GgeurWarning
from ggeur.core.statistics import ClassStatistics
from ggeur.data.table import EmbeddingTable
from ggeur.experiment import sums as shapes
from ggeur.experiment.dealing import (
    augment_clients,
    build_run,
    client_weights,
    partition_rows,
)
from ggeur.experiment.source import load_table
from ggeur.experiment.sums import federation_statistics
from ggeur.settings.schema import settings

C = 4
KINDS = ("none", "resample", "prototypes", "ggeur")


@pytest.fixture
def point(tree):
    def build(**sections):
        return settings(tree(**sections))

    return build


def held(table, part):
    return np.bincount(table.y[part], minlength=C)


# ---------------------------------------------------------------- partitions


@pytest.mark.parametrize(
    "partition, clients",
    [
        ({"kind": "dirichlet", "clients": 5}, 5),
        ({"kind": "domain", "share": 0.5}, 3),
        ({"kind": "label-and-domain"}, 3),
    ],
)
def test_clients_hold_training_rows_each_once(table, partition, clients):
    split = table.split(0)
    parts = partition_rows(split, settings({"data": {"table": "t"}, "partition": partition}), 0)
    rows = np.concatenate(parts)
    assert len(parts) == clients
    assert len(np.unique(rows)) == len(rows) and not split.test[rows].any()
    if partition["kind"] != "dirichlet":
        assert all((split.domains[part] == k).all() for k, part in enumerate(parts))


def test_a_share_that_a_table_says_was_taken_is_not_taken_twice(build_table):
    by_domain = settings({"data": {"table": "t"}, "partition": {"kind": "domain", "share": 0.2}})
    whole = build_table(test=np.zeros(120, bool))
    taken = build_table(test=np.zeros(120, bool), meta={"share": 0.2})
    assert [len(p) for p in partition_rows(whole, by_domain, 0)] == [8, 8, 8]
    assert [len(p) for p in partition_rows(taken, by_domain, 0)] == [40, 40, 40]


def test_a_federation_without_training_rows_is_an_error(build_table, point):
    with pytest.raises(GgeurError, match="no training samples at all"):
        build_run(build_table(test=np.ones(120, bool)), point(), 0)


# ---------------------------------------------------------------- augmentation

PARTS = [np.arange(0, 15), np.array([40, 41, 50]), np.zeros(0, np.int64)]  # classes 0, 1 of art; 0, 1 of photo; nothing


def augmented(table, point, parts=PARTS, seed=0, **augment):
    a = point(augment={"target": 12, "per_prototype": 4} | augment).augment
    made = augment_clients(table, parts, a, seed)
    base = np.concatenate([table.x, made.prototypes])
    return made, base


def test_none_leaves_every_client_its_own_rows(table, point):
    made, _ = augmented(table, point, kind="none")
    assert made.bank is None and len(made.prototypes) == 0
    for own, s in zip(PARTS, made.sets, strict=True):
        np.testing.assert_array_equal(s.row, own)
        np.testing.assert_array_equal(s.y, table.y[own])
        assert s.originals == len(own) and not s.noise.any()


def test_resample_tops_up_the_classes_held_and_leaves_missing_ones_missing(table, point):
    made, _ = augmented(table, point, kind="resample")
    assert made.bank is None
    for own, s in zip(PARTS, made.sets, strict=True):
        n = held(table, own)
        np.testing.assert_array_equal(np.bincount(s.y, minlength=C), np.where(n, np.maximum(n, 12), 0))
        assert set(s.row) == set(own) and not s.noise.any()


@pytest.mark.parametrize("kind", ["prototypes", "ggeur"])
def test_step_2_adds_draws_around_the_means_of_the_other_domains_also_for_missing_classes(table, point, kind):
    made, base = augmented(table, point, kind=kind, steps=2)
    art, photo, empty = made.sets
    # Art and photo hold classes 0 and 1, so each has two prototypes for the other; the empty client has no domain.
    np.testing.assert_array_equal(np.bincount(art.y, minlength=C), [16, 16, 0, 0])
    np.testing.assert_array_equal(np.bincount(photo.y, minlength=C), [16, 16, 0, 0])
    assert len(empty.y) == 0
    for s, other in ((art, PARTS[1]), (photo, PARTS[0])):
        for c in (0, 1):
            rows = s.row[(s.row >= len(table)) & (s.y == c)]
            mean = table.x[other][table.y[other] == c].astype(np.float64).mean(axis=0)
            assert len(rows) == 4
            np.testing.assert_allclose(base[rows], np.tile(mean, (4, 1)), rtol=1e-5, atol=1e-6)
    assert (made.bank is None) == (kind == "prototypes")


def test_a_class_the_client_lacks_takes_every_prototype_or_only_the_first(table, point):
    parts = [np.arange(0, 10), np.arange(50, 60), np.arange(90, 100)]  # art: class 0; photo and sketch: class 1
    for cells, counts in (("all", 8), ("first", 4)):
        made, _ = augmented(table, point, parts, kind="prototypes", steps=2, empty_cell=cells)
        np.testing.assert_array_equal(np.bincount(made.sets[0].y, minlength=C), [12, counts, 0, 0])
        np.testing.assert_array_equal(np.bincount(made.sets[1].y, minlength=C), [4, 16, 0, 0])


def test_ggeur_draws_along_the_covariance_of_all_clients_together(table, point):
    made, base = augmented(table, point, kind="ggeur", steps=1, target=6000)
    s = made.sets[0]
    noise = (s.materialise(base, made.bank) - base[s.row])[s.originals :]
    rows = np.concatenate(PARTS)
    for c in (0, 1):
        own = noise[s.y[s.originals :] == c].astype(np.float64)
        sigma = np.cov(table.x[rows][table.y[rows] == c].T.astype(np.float64), ddof=0)
        bound = np.sqrt((np.trace(sigma) ** 2 + np.linalg.norm(sigma) ** 2) / len(own))
        assert np.linalg.norm(own.T @ own / len(own) - sigma) < 5 * bound


def test_per_sample_replaces_the_target(table, point):
    made, _ = augmented(table, point, kind="resample", per_sample=3)
    np.testing.assert_array_equal(np.bincount(made.sets[0].y, minlength=C), [40, 20, 0, 0])


def test_a_class_with_one_sample_has_no_spread_and_is_repeated(table, point):
    made, base = augmented(table, point, [np.array([0]), np.array([55])], kind="ggeur", steps=1)
    x = made.sets[0].materialise(base, made.bank)
    np.testing.assert_array_equal(x, np.tile(table.x[0], (12, 1)))


def test_guided_takes_the_shape_from_the_largest_clients_of_a_class_alone(build_table, point):
    x = np.zeros((120, 5), np.float32)
    x[8:10] = [[9, 0, 0, 0, 0], [0, 9, 0, 0, 0]]
    table = build_table(x=x)
    parts = [np.arange(0, 6), np.arange(6, 8), np.arange(8, 10)]  # six, two and two rows of class 0
    shapes = {}
    for guided in (1.0, 0.8, 0.81):
        made, _ = augmented(table, point, parts, kind="ggeur", steps=1, guided=guided)
        shapes[guided] = np.abs(made.bank).max()
    assert shapes[1.0] > 0
    assert shapes[0.8] == 0, "the first two hold 0.8 of the class, and their rows are all alike"
    assert shapes[0.81] > 0, "two clients do not hold 0.81"


def test_one_domain_has_no_prototypes_and_step_2_says_so(build_table, point):
    table = build_table(domains=("all",))
    parts = [np.arange(0, 15), np.arange(20, 25)]
    with pytest.warns(GgeurWarning, match="Step 2 adds nothing: the table has one domain"):
        two, _ = augmented(table, point, parts, kind="ggeur", steps=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one, _ = augmented(table, point, parts, kind="ggeur", steps=1)
    np.testing.assert_array_equal(one.bank, two.bank)
    for a, b in zip(one.sets, two.sets, strict=True):
        np.testing.assert_array_equal(a.row, b.row)
        np.testing.assert_array_equal(a.noise, b.noise)


def test_clients_that_mix_domains_take_step_1_only(table, point):
    mixed = np.array([0, 1, 40, 41])
    with pytest.warns(GgeurWarning, match="mix domains"):
        made, _ = augmented(table, point, [mixed, mixed + 2], kind="prototypes", steps=2)
    assert len(made.prototypes) == 0
    made, _ = augmented(table, point, [mixed, np.arange(10, 20), np.arange(50, 60)], kind="prototypes", steps=2)
    assert (made.sets[0].row < len(table)).all(), "a mixed client among pure ones"
    assert (made.sets[1].row >= len(table)).any()


# ---------------------------------------------------------------- weights and first heads


def test_weights_are_the_rows_trained_on_the_original_rows_or_one(table, point):
    made, _ = augmented(table, point, kind="resample")
    np.testing.assert_array_equal(client_weights(made.sets, "samples"), [24, 24, 0])
    np.testing.assert_array_equal(client_weights(made.sets, "original"), [15, 3, 0])
    np.testing.assert_array_equal(client_weights(made.sets, "equal"), [1, 1, 1])


@pytest.mark.parametrize("weights", ["samples", "original", "equal"])
def test_a_run_weighs_its_clients_as_the_settings_say(table, point, weights):
    run = build_run(table.split(0), point(augment={"kind": "resample"}, train={"weights": weights}), 0)
    expected = {
        "samples": [len(s.y) for s in run.sets],
        "original": [s.originals for s in run.sets],
        "equal": [1, 1, 1],
    }
    np.testing.assert_array_equal(run.weights, expected[weights])


def test_all_arms_share_partition_and_first_head(table, point):
    split = table.split(3)
    runs = [build_run(split, point(augment={"kind": kind}), 3) for kind in KINDS]
    runs.append(build_run(split, point(train={"weights": "equal", "rate": 1.0, "optimiser": "adam"}), 3))
    for run in runs[1:]:
        np.testing.assert_array_equal(run.params["W"], runs[0].params["W"])
        np.testing.assert_array_equal(run.params["b"], runs[0].params["b"])
        for s, first in zip(run.sets, runs[0].sets, strict=True):
            np.testing.assert_array_equal(s.row[: s.originals], first.row)


def test_another_seed_has_another_partition_head_and_noise(table, point):
    split = table.split(0)
    a, b = (build_run(split, point(augment={"kind": "ggeur"}), seed) for seed in (0, 1))
    assert not np.array_equal(a.sets[0].row[: a.sets[0].originals], b.sets[0].row[: b.sets[0].originals])
    assert not np.isclose(a.params["W"], b.params["W"]).any()
    assert not np.isin(np.abs(a.bank[1:50, 0]), np.abs(b.bank[1:50, 0])).any()


def test_without_broadcast_every_client_has_a_head_of_its_own(table, point):
    run = build_run(table.split(0), point(train={"broadcast": False}), 0)
    heads = run.own_params["W"]
    assert heads.shape == (3, C, 5)
    assert not np.isclose(heads[0], heads[1]).any() and not np.isclose(heads[0], run.params["W"]).any()


# ---------------------------------------------------------------- statistics


@pytest.mark.parametrize("rows", [1, 7, 40, 1000])
def test_small_clients_are_summed_up_together_and_nobody_is_left_out(table, monkeypatch, rows):
    monkeypatch.setattr(shapes, "_LOT_ROWS", rows)
    parts = np.split(np.random.default_rng(0).permutation(100), [0, 3, 3, 40, 41, 90, 100])  # the last 20 are nobody's
    one_by_one = [ClassStatistics.from_embeddings(table.x[p], table.y[p], C) for p in parts if len(p)]
    found, expected = federation_statistics(table, parts), ClassStatistics.merge(one_by_one)
    for name in ("count", "mean", "covariance"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-12, atol=1e-14)


def test_many_small_clients_are_not_a_matrix_each(monkeypatch):
    made = []
    usual = ClassStatistics.from_embeddings
    monkeypatch.setattr(ClassStatistics, "from_embeddings", lambda *a, **k: made.append(a) or usual(*a, **k))
    table = EmbeddingTable(x=np.random.default_rng(0).normal(size=(6000, 2)).astype(np.float32), y=np.arange(6000) % 3)
    federation_statistics(table, np.split(np.arange(6000), 3000))
    assert len(made) == 3


# ---------------------------------------------------------------- where the table comes from


def test_a_table_that_is_written_again_is_read_again(build_table, tmp_path):
    path = tmp_path / "t.npz"
    data = settings({"data": {"table": str(path)}}).data
    build_table(seed=1).save(path)
    first = load_table(data)
    assert load_table(data) is first, "runs of one stack share one table"
    build_table(domains=("a", "b"), seed=2).save(path)
    assert len(load_table(data)) == 80 < len(first)


@pytest.mark.parametrize("data", [{"dataset": "imagenet-22k"}, {"dataset": "mini-digits", "encoder": "vgg"}])
def test_an_unknown_dataset_or_encoder_is_named_with_what_there_is(data):
    with pytest.raises(GgeurError, match="imagenet-22k.*mini-digits|builtin"):
        load_table(settings({"data": data}).data)


@pytest.mark.parametrize("offset", [0.0, 5e3, 1e5])
def test_shapes_keep_their_precision_however_far_the_mean_is_from_zero(offset):
    """A float32 table holds 1e5 +- 1 to two digits; what it holds must come out, not what cancellation leaves."""
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2
    table = EmbeddingTable(x=(offset + rng.normal(size=(400, 3))).astype(np.float32), y=y)
    parts = [np.arange(0, 200), np.arange(200, 400)]
    statistics = federation_statistics(table, parts)
    expected = [np.cov(table.x[y == c].astype(np.float64).T, bias=True) for c in (0, 1)]
    np.testing.assert_allclose(statistics.covariance, expected, rtol=1e-9, atol=1e-10)
    assert statistics.center.any() == (offset > 0)
