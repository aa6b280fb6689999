"""The bounds: `central` is one client with all samples, `local` the mean over clients of training alone."""

import numpy as np
import pytest

import ggeur
from ggeur import Experiment
from ggeur.engine.simulate import Simulation
from ggeur.engine.training import LocalOptimiser, Training
from ggeur.experiments.computing import central_run, local_runs
from ggeur.experiments.setup import Setup
from ggeur.experiments.trial_data import TrialData
from ggeur.federation import evaluation as evaluate
from ggeur.heads import resolve as resolve_head
from ggeur.methods import resolve

ALL_ROWS = 512  # a batch that takes all samples at once, so that their order has no say
TRAIN = {"rounds": 3, "local_epochs": 2, "batch_size": ALL_ROWS, "learning_rate": 0.3}
HEAD = resolve_head("linear")
FEDAVG = resolve("fedavg", HEAD, {})


@pytest.fixture(scope="module")
def experiment(tree):
    def build(**sections):
        sections = {"train": TRAIN, "run": {"seeds": [0]}} | sections
        return Experiment.of(tree(**sections))

    return build


def build_run(split, point, seed):
    setup, trial_data = Setup.of(point), TrialData()
    trial_data._splits[point.data, seed] = split
    return trial_data.run(setup, seed, trial_data.augmented(setup, seed))


def alone(run, s):
    """The heads of FedAvg in a federation of one client that holds the set `s`, round by round."""
    run = run._replace(sets=[s], weights=np.ones(1))
    optimiser = LocalOptimiser("sgd", 0.9, 1e-5)
    training = Training(TRAIN["rounds"], ALL_ROWS, TRAIN["learning_rate"], local_epochs=2, optimiser=optimiser)
    return [r.params[0] for r in Simulation([run], FEDAVG, training).rounds()]


def scores(table, heads):
    """The accuracy in each domain, mean over rounds, and the average after every round."""
    test = evaluate.TestSet(table, HEAD)
    each = [test.accuracy(head) for head in heads]
    domains = {name: np.mean([one[name] for one in each]) for name in each[0]}
    return domains, [np.mean(list(one.values())) for one in each]


@pytest.mark.parametrize("kind", ["none", "ggeur"])
def test_local_is_the_mean_over_clients_of_training_alone(experiment, table, kind):
    made = experiment(train={**TRAIN, "method": "local"}, augment={"kind": kind, "target": 12, "per_prototype": 4})
    (trial,) = ggeur.run(made).trials
    split = table.split(0)
    run = build_run(split, made.points[0], 0)
    sets = [s for s in run.sets if len(s.y)]
    assert len(sets) > 2
    expected = [scores(split, alone(run, s)) for s in sets]
    np.testing.assert_allclose(trial.rounds, np.mean([rounds for _, rounds in expected], axis=0), rtol=1e-6)
    for name, found in trial.domains.items():
        assert found == pytest.approx(np.mean([domains[name] for domains, _ in expected]), rel=1e-6)
    assert trial.status == "ok" and np.std([rounds[-1] for _, rounds in expected]) > 1, "the clients differ"


def test_central_is_fedavg_of_one_client_with_all_rows(experiment):
    central, one = (
        experiment(train={**TRAIN, "method": method}, partition={"kind": "dirichlet", "clients": clients})
        for method, clients in (("central", 4), ("fedavg", 1))
    )
    (found,), (expected,) = ggeur.run(central).trials, ggeur.run(one).trials
    assert found.rounds == expected.rounds and found.domains == expected.domains
    assert found.local_steps == expected.local_steps == [2]


def test_central_holds_the_rows_of_all_clients_originals_first(experiment, table):
    made = experiment(augment={"kind": "ggeur", "target": 12, "per_prototype": 4})
    run = build_run(table.split(0), made.points[0], 0)
    central = central_run(run)
    (whole,) = central.sets
    base = np.concatenate([run.table, run.prototypes])
    samples = np.concatenate([np.c_[s.materialise(base, run.bank), s.y] for s in run.sets])
    found = np.c_[whole.materialise(base, run.bank), whole.y]
    np.testing.assert_array_equal(found[np.lexsort(found.T)], samples[np.lexsort(samples.T)])
    assert whole.originals == sum(s.originals for s in run.sets) and not whole.noise[: whole.originals].any()
    assert central.weights.tolist() == [1.0]
    for name, leaf in run.params.items():
        np.testing.assert_array_equal(central.params[name], leaf)


def test_each_local_run_keeps_its_client_under_its_name_and_leaves_out_empty_ones(experiment, table):
    run = build_run(table.split(0), experiment().points[0], 0)
    empty = run.sets[1]._replace(
        sample=run.sets[1].sample[:0], noise=run.sets[1].noise[:0], y=run.sets[1].y[:0], originals=0
    )
    run = run._replace(sets=[run.sets[0], empty, *run.sets[2:]])
    runs = local_runs(run)
    assert len(runs) == len(run.sets) - 1
    for k, only in zip([0, *range(2, len(run.sets))], runs, strict=True):
        assert len(only.sets) == 1 and only.sets[0] is run.sets[k] and only.ids.tolist() == [k]


def test_the_bounds_take_many_seeds_at_once_as_each_alone(experiment):
    """Runs of several seeds are stacked; `local` has one run for each client and seed."""
    for method in ("local", "central"):
        options = {**TRAIN, "method": method, "batch_size": 8, "rounds": 2}
        both = ggeur.run(experiment(train=options, run={"seeds": [0, 1]})).trials
        apart = [ggeur.run(experiment(train=options, run={"seeds": [seed]})).trials[0] for seed in (0, 1)]
        for a, b in zip(both, apart, strict=True):
            np.testing.assert_allclose(a.rounds, b.rounds, rtol=1e-6)


def test_without_broadcast_central_starts_every_seed_from_a_head_of_its_own(experiment):
    def avgs(seeds):
        sections = {"train": TRAIN | {"method": "central", "broadcast": False}, "run": {"seeds": seeds}}
        return {trial.seed: trial.rounds for trial in ggeur.run(experiment(**sections)).trials}

    assert avgs([1])[1] == avgs([0, 1])[1]


def test_bounds_send_nothing_and_what_never_changes_is_sent_once(experiment):
    def trial(**train):
        (trial,) = ggeur.run(experiment(train=TRAIN | train, augment={"kind": "none"})).trials
        return trial

    assert (trial(method="central").bytes_up, trial(method="local").bytes_down) == (0, 0)
    three, six = trial(method="fedmix"), trial(method="fedmix", rounds=6)
    plain = trial(method="fedavg")
    assert six.bytes_down - three.bytes_down == plain.bytes_down == plain.bytes_up  # three more heads, no more means
    assert three.bytes_up > plain.bytes_up  # the client's means
