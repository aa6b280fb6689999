"""Cells computed together: which, how many, and that it changes nothing."""

import numpy as np
import pytest

import ggeur
from ggeur import Experiment
from ggeur.experiments import computing, runner, trial_data
from ggeur.experiments.runner import _trials
from ggeur.stats.augmented_sets import BankPiece

SWEEP = {"train": {"learning_rate": [0.02, 0.05, 0.2], "rounds": 2}, "augment": {"kind": "ggeur"}}


def numbers(made):
    """The trials of each stack, by number."""
    groups = runner.stacks(_trials(made, None, None), trial_data.TrialData())
    return [[work.tracker.number for work in stack] for stack in groups]


def lines(folder):
    return (folder / "metrics.jsonl").read_text().splitlines()


def head(folder, trial):
    return dict(np.load(folder / "model" / f"trial-{trial:03d}" / "head.npz"))


# ---------------------------------------------------------------- which


def test_seeds_rates_and_ways_of_dealing_out_are_one_stack(tree):
    assert numbers(Experiment.of(tree(train={"learning_rate": [0.1, 0.2], "momentum": [0.5, 0.9]}))) == [list(range(8))]
    assert numbers(Experiment.of(tree(partition={"beta": [0.1, 0.5]}))) == [[0, 1, 2, 3]]
    assert numbers(Experiment.of(tree(augment={"kind": ["none", "resample", "prototypes"]}))) == [list(range(6))]


@pytest.mark.parametrize(
    "values",
    [
        {"rounds": [2, 3]},
        {"batch_size": [8, 9]},
        {"method": ["fedavg", "fedprox"]},
        {"head": ["linear", "mlp"]},
        {"optimiser": ["sgd", "adam"]},
        {"momentum": [0.0, 0.9]},
        {"broadcast": [True, False]},
    ],
)
def test_what_changes_the_program_begins_another(tree, values):
    assert numbers(Experiment.of(tree(train=values))) == [[0, 1], [2, 3]]


def test_noise_begins_another_because_steps_without_it_are_cheaper(tree):
    assert numbers(Experiment.of(tree(augment={"kind": ["none", "ggeur", "resample"]}))) == [[0, 1, 4, 5], [2, 3]]


def test_each_rank_of_an_expected_loss_begins_another(tree):
    ranks = [{"name": f"rank {r}", "augment": {"kind": "expected", "parameters": {"rank": r}}} for r in (1, 2)]
    plain = {"name": "plain", "augment": {"kind": "none"}}
    assert numbers(Experiment.of(tree(arm=[*ranks, plain]))) == [[0, 1], [2, 3], [4, 5]]


def test_seeds_without_draws_stack_each_with_its_own_shapes(tree, tmp_path):
    keys = {"augment": {"kind": "expected"}, "train": {"rounds": 2}}
    ggeur.run(Experiment.of(tree(**keys)), out=tmp_path / "both")
    for seed in (0, 1):
        ggeur.run(Experiment.of(tree(**keys, run={"seeds": [seed]})), out=tmp_path / str(seed))
        for name, leaf in head(tmp_path / str(seed), 0).items():
            np.testing.assert_allclose(head(tmp_path / "both", seed)[name], leaf, atol=1e-5)
    assert np.abs(head(tmp_path / "both", 0)["W"] - head(tmp_path / "both", 1)["W"]).max() > 1e-3


def test_another_number_of_clients_begins_another(tree):
    made = tree(partition={"kind": "dirichlet", "clients": [2, 3], "beta": 0.5, "min_per_class": 0})
    assert numbers(Experiment.of(made)) == [[0, 1], [2, 3]]


def test_a_solved_head_is_a_stack_of_its_own(tree):
    assert numbers(Experiment.of(tree(train={"method": ["ncm", "fedavg"]}))) == [[0], [1], [2, 3]]


def test_in_its_own_units_every_seed_is_a_stack_of_its_own(tree):
    made = tree(data={"standardise": True}, train={"learning_rate": [0.1, 0.2]}, augment={"kind": ["none", "resample"]})
    assert numbers(Experiment.of(made)) == [[0, 2, 4, 6], [1, 3, 5, 7]]


def test_no_more_trials_than_ten_and_no_more_noise_than_fits(tree, monkeypatch):
    many = Experiment.of(tree(train={"learning_rate": [0.1 * i for i in range(1, 13)]}, run={"seeds": [0]}))
    assert numbers(many) == [list(range(10)), [10, 11]]
    made = Experiment.of(tree(**SWEEP))
    assert numbers(made) == [list(range(6))]
    one = 4 * 5 * 4 * 3 * (12 + 3 * 4)  # float32, dimensions, classes, clients, draws
    monkeypatch.setattr(runner, "_COPIES", 0)
    monkeypatch.setattr(runner, "_STACK_BYTES", 2 * one)
    assert numbers(made) == [list(range(6))], "the three rates of a seed hold its noise once"
    monkeypatch.setattr(runner, "_STACK_BYTES", 2 * one - 1)
    assert numbers(made) == [[0], [1], [2], [3], [4], [5]]


def test_noise_around_every_row_is_counted_by_rows(tree, monkeypatch):
    made = Experiment.of(tree(augment={"kind": "ggeur", "per_sample": 7, "bank_mib": 1}, run={"seeds": [0, 1]}))
    one = 4 * 5 * (120 * 7 + 3 * 4 * 3 * 4)  # float32, dimensions; samples, and for each client, classes and domains
    monkeypatch.setattr(runner, "_COPIES", 0)
    for most, groups in ((2 * one, [[0, 1]]), (2 * one - 1, [[0], [1]])):
        monkeypatch.setattr(runner, "_STACK_BYTES", most)
        assert numbers(made) == groups


def test_no_more_heads_than_fit(tree, monkeypatch):
    made = Experiment.of(tree(train={"learning_rate": [0.1, 0.2, 0.3]}, run={"seeds": [0]}))
    one = 8 * 3 * 4 * (4 * 5 + 4)  # copies, clients, float32, weights and biases
    monkeypatch.setattr(runner, "_STACK_BYTES", 2 * one)
    assert numbers(made) == [[0, 1], [2]]


# ---------------------------------------------------------------- that it changes nothing


@pytest.fixture(scope="module")
def swept(tree, tmp_path_factory):
    folder = tmp_path_factory.mktemp("swept") / "run"
    return ggeur.run(Experiment.of(tree(**SWEEP)), out=folder), folder


def test_a_point_of_a_sweep_is_that_point_alone(tree, swept, tmp_path):
    result, folder = swept
    for i, learning_rate in enumerate(SWEEP["train"]["learning_rate"]):
        alone = tree(**SWEEP, run={"seeds": [1]})
        alone["train"] = alone["train"] | {"learning_rate": learning_rate}
        one = ggeur.run(Experiment.of(alone), out=tmp_path / str(i)).trials[0]
        trial, found = result.trials[2 * i + 1], head(folder, 2 * i + 1)
        assert (trial.seed, trial.settings) == (1, {"train.learning_rate": learning_rate})
        assert (trial.local_steps, trial.bytes_up, trial.bytes_down) == (one.local_steps, one.bytes_up, one.bytes_down)
        for name, leaf in head(tmp_path / str(i), 0).items():
            np.testing.assert_allclose(found[name], leaf, rtol=0, atol=1e-5 * np.abs(leaf).max())
    first, last = head(folder, 1)["W"], head(folder, 5)["W"]
    assert not np.allclose(first, last, atol=1e-2), "the test is too weak"


def test_noise_is_drawn_once_for_the_points_that_share_it(tree, monkeypatch):
    drawn = []
    noise = BankPiece.noise
    monkeypatch.setattr(BankPiece, "noise", lambda *a: drawn.append(a) or noise(*a))
    monkeypatch.setattr(trial_data, "_KEPT_BYTES", 0)
    ggeur.run(Experiment.of(tree(**SWEEP)))
    assert len(drawn) == 2, "one for each seed"


def test_test_rows_are_held_once_for_the_points_that_share_them(tree, monkeypatch):
    made = []
    usual = trial_data.TestSet
    monkeypatch.setattr(trial_data, "TestSet", lambda *a: made.append(a) or usual(*a))
    ggeur.run(Experiment.of(tree(**SWEEP)))
    assert len(made) == 2, "one for each seed"


def test_time_is_shared_out_by_steps(tree):
    trials = ggeur.run(Experiment.of(tree(augment={"kind": ["none", "resample"]}, run={"seeds": [0]}))).trials
    plain, more = (sum(trial.local_steps) for trial in trials)
    assert more > plain and trials[1].seconds / trials[0].seconds == pytest.approx(more / plain)


class Stop(Exception):
    pass


def stopped(made, folder, trial):
    """The run, up to that trial's second round."""

    def stop(event):
        if (event["trial"], event["round"]) == (trial, 2):
            raise Stop

    with pytest.raises(Stop):
        ggeur.run(made, out=folder, on_round=stop)


def test_a_sweep_that_was_stopped_goes_on_to_the_same_end(tree, swept, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    stopped(Experiment.of(tree(**SWEEP)), folder, trial=5)
    begun = []
    begin = computing._begin
    monkeypatch.setattr(computing, "_begin", lambda *a: begun.append(a) or begin(*a))
    resumed = ggeur.run(Experiment.of(tree(**SWEEP)), out=folder, resume=True)
    assert not begun, "it went on from the checkpoint"
    assert [c.rounds for c in resumed.trials] == [c.rounds for c in swept[0].trials]
    for trial in range(6):
        for name, leaf in head(swept[1], trial).items():
            np.testing.assert_array_equal(head(folder, trial)[name], leaf)


@pytest.mark.parametrize("trial", [1, 3])
def test_a_checkpoint_of_other_trials_is_not_gone_on_from(tree, swept, tmp_path, monkeypatch, trial):
    """Cells that were finished then, 0 and 1 if it stopped in the second stack, are not run again."""
    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(runner, "_STACK_TRIALS", 2)  # as another version might have stacked them
        stopped(Experiment.of(tree(**SWEEP)), folder, trial=trial)
    resumed = ggeur.run(Experiment.of(tree(**SWEEP)), out=folder, resume=True)
    assert [c.rounds for c in resumed.trials] == [c.rounds for c in swept[0].trials]
    assert sorted(lines(folder)) == sorted(lines(swept[1]))
