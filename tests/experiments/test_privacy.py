"""[privacy] in a simulation: what is kept back, what noise costs, and what is promised of the model."""

from dataclasses import replace

import numpy as np
import pytest

import ggeur
from ggeur.experiments.settings import settings
from ggeur.experiments.setup import Setup
from ggeur.experiments.trial_data import TrialData
from ggeur.federation.folds import sample_folds
from ggeur.models.card import sentences
from ggeur.models.model import Model
from ggeur.privacy.bounded_norm import BoundedNorm
from ggeur.privacy.gaussian import gaussian_scale
from ggeur.stats.errors import GgeurError
from ggeur.stats.site_statistics import StatisticsQuery

NOISE = {"epsilon": 2.0, "radius": 1.0}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Two domains, four classes whose means are far apart, 30 samples a trial but for one of three."""
    rng = np.random.default_rng(0)
    trial = np.repeat(np.argwhere(np.ones((2, 4))), 60, axis=0)
    x = (
        rng.normal(size=(4, 8))[trial[:, 1]]
        + 0.3 * rng.normal(size=(2, 8))[trial[:, 0]]
        + 0.3 * rng.normal(size=(480, 8))
    )
    test = np.arange(480) % 2 == 1
    few = np.flatnonzero((trial == (1, 3)).all(axis=1) & ~test)[3:]
    keep = np.setdiff1d(np.arange(480), few)
    made = ggeur.EmbeddingTable(x=x[keep].astype(np.float32), y=trial[keep, 1], domain=trial[keep, 0], test=test[keep])
    path = tmp_path_factory.mktemp("privacy") / "t.npz"
    made.save(path)
    return path


def tree(table, privacy, method="lda", **more):
    base = {"data": {"table": str(table)}, "partition": {"kind": "domain"}, "train": {"method": method}}
    return base | {"privacy": privacy} | more


def run(table, privacy, method="lda", **more):
    return ggeur.run(ggeur.Experiment.of(tree(table, privacy, method, **more)))


def sentence(table, privacy, method="lda", **more):
    with pytest.raises(GgeurError) as caught:
        run(table, privacy, method, **more)
    return str(caught.value)


def total(table, privacy, method="lda", seed=0, **more):
    trial_data, setup = TrialData(), Setup.of(settings(tree(table, privacy, method, **more)))
    clients = trial_data.clients(setup, seed)
    solved = setup.algorithm
    return replace(clients, release=setup.release.simulated(seed)).statistics(
        StatisticsQuery(solved.needs, solved.apart)
    ), setup


def test_rows_of_small_groups_are_in_nobodys_statistics(table):
    whole, _ = total(table, {})
    kept, _ = total(table, {"min_count": 10})
    assert (whole.count - kept.count).tolist() == [0, 0, 0, 3]
    with pytest.raises(GgeurError, match="min_count = 31 is above every group"):
        total(table, {"min_count": 31})


def test_every_fold_has_as_many_rows_of_a_group_as_must_be_or_none():
    y, d = np.repeat([0, 1, 2, 3], [3, 12, 29, 80]), np.zeros(124, np.int64)
    for least in (1, 10, 25):
        fold = sample_folds(y, d, 4, 0, 0, least)
        sizes = np.array([[np.sum((y == c) & (fold == k)) for k in range(4)] for c in range(4)])
        samples = sizes.sum(axis=1)
        for c in range(4):
            assert all(n == 0 or n >= min(least, samples[c]) for n in sizes[c])
            assert np.count_nonzero(sizes[c]) == min(4, max(samples[c] // least, 1))


def test_noise_is_the_seeds_and_as_large_as_is_said(table):
    """Over seeds, the noisy total is off by what the mechanism declares; one seed gives one total."""
    clean, some = total(table, {"radius": 1.0})[0], {"epsilon": 20.0, "radius": 1.0}
    a, b = total(table, some, seed=1)[0], total(table, some, seed=1)[0]
    np.testing.assert_array_equal(a.sum, b.sum)
    sums = np.stack([total(table, some, seed=k)[0].sum - clean.sum for k in range(60)])
    declared = setup_of(table, some).release.total_noise("pooled", [2]).sum
    assert sums.std() == pytest.approx(declared, rel=0.1)


def setup_of(table, privacy, method="lda"):
    return Setup.of(settings(tree(table, privacy, method)))


@pytest.mark.parametrize("method", ["ncm", "lda", "ridge", "ggeur-limit", "mixture", "blend", "ccvr"])
def test_with_hardly_any_noise_a_head_does_as_well_as_without(table, method):
    clean = run(table, {"radius": 1.0}, method).trials[0].avg
    assert run(table, {"epsilon": 1e7, "radius": 1.0}, method).trials[0].avg == pytest.approx(clean, abs=1.5)


def test_with_much_noise_a_head_is_worth_little(table):
    found = [run(table, {"epsilon": 0.05, "radius": 1.0}, "ridge", run={"seeds": [k]}).trials[0].avg for k in range(4)]
    assert np.mean(found) < 60
    most = {"epsilon": 1e-3, "radius": 1.0, "min_count": 10**6}
    assert "Nothing is left of any class" in sentence(table, most)


def test_shares_of_a_secure_sum_make_less_noise_and_protect_from_each_other(table):
    """Of ten clients each adds a third of what it would alone, so that the other nine make it whole."""
    one = setup_of(table, NOISE).release
    shared = setup_of(table, NOISE | {"secure_aggregation": True}).release
    assert shared.noise("pooled", 10).of_sum(9).sum == pytest.approx(one.noise("pooled", 10).sum)


def test_where_messages_of_a_domain_are_kept_apart_three_clients_must_share_it(table):
    assert "a secure aggregation needs 3" in sentence(table, NOISE | {"secure_aggregation": True}, "mixture")
    mixed = {"partition": {"kind": "dirichlet", "clients": 2}}
    assert "has 2 clients" in sentence(table, NOISE | {"secure_aggregation": True}, **mixed)


def test_a_model_says_what_is_promised_and_brings_rows_into_the_ball(table, tmp_path):
    privacy = NOISE | {"projection": 5, "min_count": 2}
    result = ggeur.run(ggeur.Experiment.of(tree(table, privacy, "ridge")), out=tmp_path / "run")
    model = Model.load(tmp_path / "run")
    assert model.dimension == 5 and model.takes == 8
    assert {"epsilon": 2.0, "delta": 1e-5, "unit": "record", "covers": "everything"}.items() <= model.privacy.items()
    card = (tmp_path / "run" / "model" / "trial-000" / "card.md").read_text(encoding="utf-8")
    for words in (
        "epsilon = 2 and delta = 1e-05 for one record more or less",
        "unit: record",
        "It covers everything that is computed from the statistics",
        "not the accuracies that sites report on their test samples",
        "protects nobody",
    ):
        assert words in card
    whole = ggeur.EmbeddingTable.load(table)
    test = whole.subset(whole.test)
    hit = model.probabilities(test).argmax(axis=1) == test.y
    by_domain = [100 * hit[test.domains == d].mean() for d in range(2)]
    assert np.mean(by_domain) == pytest.approx(result.trials[0].avg, abs=1e-6)
    long = ggeur.EmbeddingTable(x=7 * test.x, y=test.y, class_names=whole.class_names)
    clipped = np.linalg.norm(BoundedNorm(None, 5).apply(test.x), axis=1) > 1
    same = model.probabilities(long).argmax(axis=1) == model.probabilities(test).argmax(axis=1)
    assert clipped.sum() > 100 and same[clipped].all()


def test_training_is_covered_in_its_statistics_alone(table, tmp_path):
    more = {"augment": {"target": 40, "per_prototype": 5}}
    trained = tree(table, NOISE, "fedavg", **more)
    trained["train"] |= {"rounds": 2, "local_epochs": 1}
    ggeur.run(ggeur.Experiment.of(trained), out=tmp_path / "run")
    assert Model.load(tmp_path / "run").privacy["covers"] == "statistics"
    card = (tmp_path / "run" / "model" / "trial-000" / "card.md").read_text(encoding="utf-8")
    assert "It covers only the statistics" in card


@pytest.mark.parametrize("method", ["local", "central"])
def test_nothing_is_promised_of_a_bound(table, method):
    trained = tree(table, NOISE, method)
    trained["train"] |= {"rounds": 1, "local_epochs": 1}
    made = ggeur.run(ggeur.Experiment.of(trained)).trials[0].privacy
    assert made == {"radius": 1.0, "covers": "nothing"}
    assert "trained on samples as they are" in sentences(made)[0]


def test_auto_looks_at_what_is_public(table):
    """Two clients, each with noise of s sqrt(0.3^2 + 2) in a sum: 80 times that of both is what a class must have."""
    noise = gaussian_scale(2.0, 1e-5) * np.sqrt(2.09) * np.sqrt(2)
    few = run(table, NOISE | {"samples": int(0.99 * 80 * 4 * noise)}, "auto").trials[0]
    many = run(table, NOISE | {"samples": int(1.01 * 80 * 4 * noise)}, "auto").trials[0]
    assert few.taken == "ncm" and "class means alone" in few.message and not few.expected
    assert many.taken == "ridge" and "second moments too" in many.message


@pytest.mark.parametrize(
    ("privacy", "words"),
    [
        ({"epsilon": 0.0, "radius": 1.0}, "[privacy] epsilon = 0.0 is not valid"),
        ({"epsilon": -1.0, "radius": 1.0}, "[privacy] epsilon"),
        ({"epsilon": float("inf"), "radius": 1.0}, "[privacy] epsilon"),
        ({"epsilon": 1.0, "radius": 0.0}, "[privacy] radius = 0.0 is not valid"),
        ({"epsilon": 1.0, "radius": 1.0, "delta": 0.0}, "[privacy] delta = 0.0 is not valid"),
        ({"epsilon": 1.0}, "epsilon needs radius"),
        ({"epsilon": 1.0, "radius": 1.0, "delta": 1e-3, "samples": 5000}, "above 1 / samples"),
        ({"delta": 1e-5}, "goes with epsilon"),
        ({"radius": 1.0, "projection": 9}, "projection = 9 is more than the 8 dimensions"),
        ({"min_count": 99}, "above every group"),
        ({"min_count": -1}, "[privacy] min_count = -1 is not valid"),
        (NOISE | {"unit": "client"}, "go together"),
        (NOISE | {"unit": "client", "clip": 50.0}, "needs secure_aggregation"),
        (NOISE | {"unit": "sample"}, "[privacy] unit"),
    ],
)
def test_mistakes_are_one_sentence(table, privacy, words):
    text = sentence(table, privacy)
    assert words in text and "\n" not in text


@pytest.mark.parametrize(
    ("method", "more", "words"),
    [
        ("auto", {}, "say how many training samples"),
        ("fedavg", {"augment": {"kind": "none"}}, "they send none"),
        ("lda", {"data": {"standardise": True}}, "standardise needs exact sums"),
        ("fedavg", {"augment": {"guided": 0.8}}, "exact counts"),
        ("fedavg", {"augment": {"covariance": "none", "steps": 1}}, "means of single clients"),
    ],
)
def test_what_would_break_the_promise_is_refused(table, method, more, words):
    more = {**more, "data": {"table": str(table), **more.get("data", {})}}
    assert words in sentence(table, NOISE, method, **more)


def test_a_client_hides_as_a_whole_where_its_message_is_cut(table):
    privacy = NOISE | {"unit": "client", "clip": 20.0, "secure_aggregation": True}
    mixed = {"partition": {"kind": "dirichlet", "clients": 5, "beta": 5.0}}
    found, setup = total(table, privacy, **mixed)
    assert setup.release.unit == "client" and setup.release.facts["clip"] == 20.0
    assert found.count.sum() < 5 * 20 / 0.3 * 1.5, "no client counts for more than its message may be long"
