"""`kernel` on four real nodes is the simulation's; a site that is lost between its questions is left out."""

import numpy as np
import pytest

from ggeur.experiments.runner import run
from ggeur.flower.wire.feature_messages import read_feature_question
from ggeur.stats.features import FeatureMap, FeatureQuery
from ggeur.stats.units import Units
from refusal import refused

MIXED = {"kind": "dirichlet", "clients": 4, "beta": 0.5}
SKEWED = {"kind": "label-and-domain", "beta": 0.3}
THREE = ["query.hello", "query.statistics", "query.features", "query.score"]


def kernel(partition=SKEWED, **parameters):
    return {"train": {"method": "kernel"}, "partition": partition, "method": {"kernel": parameters}}


@pytest.mark.parametrize("landmarks", ["public", "class"])
@pytest.mark.parametrize("partition", [{"kind": "domain"}, MIXED, SKEWED], ids=str)
def test_the_head_is_the_simulations(deploy, both, partition, landmarks):
    deployment = deploy(kernel(partition, landmarks=landmarks, precision="float64"))
    both(deployment)
    assert all(site.asked == THREE for site in deployment.sites)
    assert not list(deployment.folder.glob("store-*/*"))


def test_the_head_is_the_simulations_in_the_federations_units(deploy, both):
    both(deploy(kernel({"kind": "domain"}, precision="float64") | {"data": {"standardise": True}}))


def test_what_travels_is_what_the_simulation_bills(deploy):
    deployment = deploy(kernel({"kind": "domain"}))
    (ours,), (theirs,) = deployment.run().trials, run(deployment.simulated).trials
    assert abs(ours.bytes_down - theirs.bytes_down) < 4000
    assert 0 <= ours.bytes_up - theirs.bytes_up < 4000, "and tables of confusion"
    assert ours.avg == pytest.approx(theirs.avg, abs=1.0)


def test_a_site_that_is_lost_between_the_questions_is_as_if_it_had_not_come(deploy):
    lost, alone = deploy(kernel(), name="lost"), deploy(kernel(), name="alone")
    lost.sites[1].change = lambda kind, number, reply: None if kind == "query.features" else reply
    alone.experiment = alone.without(1)
    (trial,) = lost.run().trials
    alone.run()
    for name, leaf in alone.head().items():
        np.testing.assert_array_equal(lost.head()[name], leaf)
    assert trial.message == "Missing: client 1 in round 0."


LIES = {
    "not those of the samples": lambda f, a: a["count"].__iadd__(1),
    "not positive": lambda f, a: a["second"].__imul__(-1),
    "larger than any": lambda f, a: a["second"].__imul__(1e6),
    "NaN": lambda f, a: a["sum"].__setitem__((0, 0), np.nan),
    "has shape": lambda f, a: a.update(sum=a["sum"][:, 1:]),
    "what it was asked for": lambda f, a: a.pop("sum"),
}


@pytest.mark.parametrize("complaint", LIES)
def test_features_that_no_data_has_are_refused(deploy, changing, complaint):
    lying = deploy(kernel(features=20))
    lying.sites[1].change = changing("query.features", LIES[complaint])
    lying.experiment = lying.without(1)
    lying.sites[1].online = True
    lying.run()
    (refused_site,) = lying.events("refused")
    assert refused_site["client"] == 1 and complaint in refused_site["why"]


def test_tables_are_the_simulations(deploy, both):
    both(deploy({"train": {"method": "safle"}, "partition": MIXED, "method": {"safle": {"precision": "float64"}}}))


@pytest.mark.parametrize("privacy", [{"epsilon": 4.0, "radius": 5.0}, {"secure_aggregation": True, "radius": 5.0}])
def test_there_are_no_features_under_noise_or_masks(deploy, privacy):
    with refused("privacy-features: ridge"):
        deploy(kernel() | {"privacy": privacy}).run()


def test_a_site_answers_no_question_that_makes_no_sense():
    good = {"landmarks": np.zeros((3, 2), np.float32), "map_units": np.array([1.0, 0.0, 0.0])}
    found = read_feature_question({"precision": "float32"}, good, 2, 1, 4)
    assert isinstance(found, FeatureQuery) and found.map.dimension == 5 and found.weights is None
    assert isinstance(found.map, FeatureMap) and isinstance(found.map.units, Units)
    for code, facts, change in (
        ("site-features-map", {}, {"landmarks": np.zeros((3, 5), np.float32)}),
        ("site-features-number", {}, {"landmarks": np.zeros((20_001, 2), np.float32)}),
        ("site-features-units", {}, {"map_units": np.array([0.0, 0.0, 0.0])}),
        ("site-features-weights", {}, {"weights": np.full((1, 4), -1.0)}),
        ("site-features-precision", {"precision": "float16"}, {}),
        ("site-features-kind", {"features": "waves"}, {}),
        ("site-features-corners", {"features": "tables"}, {"landmarks": np.full((3, 2), 0.5, np.float32)}),
    ):
        with refused(code):
            read_feature_question({"precision": "float32"} | facts, good | change, 2, 1, 4)
