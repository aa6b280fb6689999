"""Heads that are solved over real machines: the simulation's, whatever they need, and the same choice of them."""

from itertools import product

import numpy as np
import pytest

import ggeur
from ggeur.experiments.runner import run
from ggeur.models.model import Model

HEADS = ["ggeur-limit", "mixture", "blend"]
MIXED = {"kind": "dirichlet", "clients": 4, "beta": 0.5}
PARTITIONS = [{"kind": "domain"}, MIXED, {"kind": "label-and-domain", "beta": 0.3}]
FEW = {"auto": {"candidates": [["lda", {"method": "ggeur-limit", "scale": 0.5}, "mixture", "blend"]], "folds": 3}}
TWO = ["query.hello", "query.statistics", "query.score"]


def solved(name, **more):
    return {"train": {"method": name}} | more


@pytest.mark.parametrize(
    ("partition", "kind"), [*product(PARTITIONS, ["per-class", "pooled"]), (MIXED, "none")], ids=str
)
def test_every_head_is_the_simulations(deploy, both, partition, kind):
    """Also where the samples of a site are of several domains: it then sends a message for each."""
    deployment = deploy(solved(HEADS, partition=partition, augment={"covariance": kind}))
    both(deployment, trials=3)
    assert deployment.sites[0].asked == 3 * TWO
    for trial in range(3):
        folders = [out / "model" / f"trial-{trial:03d}" for out in (deployment.out, deployment.folder / "simulated")]
        ours, theirs = map(Model.load, folders)
        assert (ours.head, ours.parameters) == (theirs.head, theirs.parameters)
    assert not list(deployment.folder.glob("store-*/*"))


def test_heads_of_rows_far_from_zero_and_in_the_federations_units(deploy, both, build_table):
    table = build_table()
    far = build_table(x=(table.x.astype(np.float64) + 20_000).astype(np.float32))
    raw = deploy(solved(["ggeur-limit", "mixture", "auto"], partition=MIXED, method=FEW), table=far)
    both(raw, trials=3)
    assert raw.sites[0].asked[:3] == ["query.hello", "query.statistics", "query.statistics"], "about a center"
    both(
        deploy(solved(["ggeur-limit", "auto"], method=FEW, data={"standardise": True}), table=far, name="units"),
        trials=2,
    )


def test_training_starts_from_a_head_that_needs_domains(deploy, both):
    train = {"rounds": 2, "batch_size": 8, "start": "ggeur-limit"}
    both(deploy({"train": train, "partition": MIXED, "augment": {"target": 20, "covariance": "pooled"}}))


@pytest.mark.parametrize("partition", PARTITIONS, ids=str)
@pytest.mark.parametrize("kind", ["per-class", "pooled"])
def test_auto_takes_what_the_simulation_takes(deploy, both, partition, kind):
    deployment = deploy(solved("auto", partition=partition, augment={"covariance": kind}, method=FEW))
    (trial,) = both(deployment).trials
    (simulated,) = run(deployment.simulated).trials
    assert (trial.taken, trial.message) == (simulated.taken, simulated.message)
    assert deployment.sites[0].asked == TWO, "units and statistics come in one message, then the head is scored"
    tables = sorted(deployment.folder.glob("node-*.npz"))
    fitted = ggeur.fit(tables, parameters={"candidates": FEW["auto"]["candidates"][0], "folds": 3}, covariance=kind)
    assert fitted.solution_.called == trial.taken, "and what `ggeur fit` takes of the sites' files"
    assert fitted.solution_.expected == pytest.approx(trial.expected, abs=0.01)
    assert trial.expected == pytest.approx(simulated.expected, abs=1e-9)
    (chosen,) = deployment.events("chosen")
    assert chosen["taken"] == trial.taken and trial.message.startswith(chosen["why"])
    assert deployment.sites[0].asked == TWO


def test_what_travels_is_what_the_simulation_bills(deploy):
    """A site of one domain sends one message, whatever is selected from it; heads go down as they are."""
    deployment = deploy(solved(["blend", "auto"], method=FEW))
    for ours, theirs in zip(deployment.run().trials, run(deployment.simulated).trials, strict=True):
        assert ours.bytes_down == theirs.bytes_down
        assert 0 <= ours.bytes_up - theirs.bytes_up < 4000, "and tables of confusion"
