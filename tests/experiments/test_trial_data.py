"""From table to run: who holds what, what augmentation makes of it, weights, and arms that share all but the arm."""

import numpy as np
import pytest

from ggeur.experiments.partitions import load_table, partition_samples
from ggeur.experiments.settings import settings
from ggeur.experiments.setup import Setup
from ggeur.experiments.trial_data import TrialData
from ggeur.stats.errors import GgeurError

C = 4
COVARIANCES = ("none", "resample", "prototypes", "ggeur")


@pytest.fixture
def point(tree):
    def build(**sections):
        return settings(tree(**sections))

    return build


def run_of(split, point, seed):
    """What a group trains on, of a table that lies at hand."""
    setup, trial_data = Setup.of(point), TrialData()
    trial_data._splits[point.data, seed] = split
    return trial_data.run(setup, seed, trial_data.augmented(setup, seed))


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
    parts = partition_samples(split, settings({"data": {"table": "t"}, "partition": partition}).partition, 0)
    samples = np.concatenate(parts)
    assert len(parts) == clients
    assert len(np.unique(samples)) == len(samples) and not split.test[samples].any()
    if partition["kind"] != "dirichlet":
        assert all((split.domains[part] == k).all() for k, part in enumerate(parts))


def test_a_share_that_a_table_says_was_taken_is_not_taken_twice(build_table):
    by_domain = settings({"data": {"table": "t"}, "partition": {"kind": "domain", "share": 0.2}})
    whole = build_table(test=np.zeros(120, bool))
    taken = build_table(test=np.zeros(120, bool), meta={"share": 0.2})
    assert [len(p) for p in partition_samples(whole, by_domain.partition, 0)] == [8, 8, 8]
    assert [len(p) for p in partition_samples(taken, by_domain.partition, 0)] == [40, 40, 40]


def test_a_federation_without_training_rows_is_an_error(build_table, point):
    with pytest.raises(GgeurError, match="no training samples at all"):
        run_of(build_table(test=np.ones(120, bool)), point(), 0)


# ---------------------------------------------------------------- weights and first heads


@pytest.mark.parametrize("weights", ["samples", "original", "equal"])
def test_a_run_weighs_its_clients_as_the_settings_say(table, point, weights):
    run = run_of(table.split(0), point(augment={"kind": "resample"}, train={"weights": weights}), 0)
    expected = {
        "samples": [len(s.y) for s in run.sets],
        "original": [s.originals for s in run.sets],
        "equal": [1, 1, 1],
    }
    np.testing.assert_array_equal(run.weights, expected[weights])


def test_all_arms_share_partition_and_first_head(table, point):
    split = table.split(3)
    runs = [run_of(split, point(augment={"kind": kind}), 3) for kind in COVARIANCES]
    runs.append(run_of(split, point(train={"weights": "equal", "learning_rate": 1.0, "optimiser": "adam"}), 3))
    for run in runs[1:]:
        np.testing.assert_array_equal(run.params["W"], runs[0].params["W"])
        np.testing.assert_array_equal(run.params["b"], runs[0].params["b"])
        for s, first in zip(run.sets, runs[0].sets, strict=True):
            np.testing.assert_array_equal(s.sample[: s.originals], first.sample)


def test_another_seed_has_another_partition_head_and_noise(table, point):
    split = table.split(0)
    a, b = (run_of(split, point(augment={"kind": "ggeur"}), seed) for seed in (0, 1))
    assert not np.array_equal(a.sets[0].sample[: a.sets[0].originals], b.sets[0].sample[: b.sets[0].originals])
    assert not np.isclose(a.params["W"], b.params["W"]).any()
    assert not np.isin(np.abs(a.bank[1:50, 0]), np.abs(b.bank[1:50, 0])).any()


def test_without_broadcast_every_client_has_a_head_of_its_own(table, point):
    run = run_of(table.split(0), point(train={"broadcast": False}), 0)
    heads = run.client_params["W"]
    assert heads.shape == (3, C, 5)
    assert not np.isclose(heads[0], heads[1]).any() and not np.isclose(heads[0], run.params["W"]).any()


# ---------------------------------------------------------------- where the table comes from


def test_a_table_that_is_written_again_is_read_again(build_table, tmp_path):
    path = tmp_path / "t.npz"
    data = settings({"data": {"table": str(path)}}).data
    build_table(seed=1).save(path)
    trial_data = TrialData()
    first = trial_data.table(data)
    assert trial_data.table(data) is first, "runs of one stack share one table"
    build_table(domains=("a", "b"), seed=2).save(path)
    assert len(TrialData().table(data)) == 80 < len(first)


@pytest.mark.parametrize(
    "data",
    [
        {"dataset": "imagenet-22k"},
        pytest.param({"dataset": "mini-digits", "encoder": "vgg"}, marks=pytest.mark.needs("hf")),
    ],
)
def test_an_unknown_dataset_or_encoder_is_named_with_what_there_is(data):
    with pytest.raises(GgeurError, match="imagenet-22k.*mini-digits|builtin"):
        load_table(settings({"data": data}).data)
