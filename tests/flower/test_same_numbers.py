"""The ClientApp and the ServerApp, in one process, find the simulation's numbers with every method and setting."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ggeur.data.table import EmbeddingTable
from ggeur.experiments.runner import run
from ggeur.methods import has_own_head, names
from ggeur.methods.algorithm import Iterative
from ggeur.models.model import Model
from ggeur.stats.errors import GgeurError

SHORT = {"rounds": 3, "local_epochs": 2, "batch_size": 8}
SLOW = pytest.mark.slow


def some(methods, of):
    """All `methods`, of which only some prove it each time: a method is the same functions in both engines."""
    return [pytest.param(name, marks=() if name in of else SLOW) for name in methods]


# Plain sums, states of clients, and a message of each client that the server needs by itself.
@pytest.mark.parametrize(
    "method", some([n for n in names(Iterative) if not has_own_head(n)], of=("fedavg", "scaffold", "fedgen"))
)
def test_every_method_finds_the_simulations_head(deploy, method, both):
    both(deploy({"train": {**SHORT, "method": method}, "augment": {"target": 20, "per_prototype": 5}}))


@pytest.mark.parametrize(
    "train",
    [
        {"method": "fedclip"},
        pytest.param({"method": "fedclip", "broadcast": False}, marks=SLOW),
        {"method": "fedtpg", "clients_per_round": 1},
    ],
    ids=str,
)
def test_methods_of_text_find_the_simulations_head(deploy, language, train, both):
    tree = {"method": {"fedtpg": {"clip": language.folder}}, "augment": {"target": 20, "per_prototype": 5}}
    both(deploy(tree | {"train": SHORT | train, "data": {"standardise": True}}, table=language.table()))


def test_sites_with_another_text_tower_take_no_part(deploy, language, tmp_path):
    """Their texts would be others, and a generator's numbers mean something else."""
    from safetensors.numpy import load_file, save_file

    other = Path(shutil.copytree(language.folder, tmp_path / "other"))
    weights = load_file(other / "model.safetensors")
    save_file(weights | {"text_projection.weight": -weights["text_projection.weight"]}, other / "model.safetensors")
    tree = {"method": {"fedtpg": {"clip": language.folder}}, "augment": {"kind": "none"}}
    train = {"rounds": 1, "local_epochs": 1, "method": "fedtpg"}
    one = deploy(tree | {"train": train, "federate": {"wait": 0.1}}, table=language.table())
    for site in one.sites:
        site.config["encoder"] = str(other)
    with pytest.raises(GgeurError):
        one.run()
    why = {(event["client"], event["why"].split(";")[0]) for event in one.events("missing")}
    assert {(k, "no training set: the frozen model of fedtpg is not the server's here") for k in (0, 1)} <= why


def test_a_prior_from_text_is_the_simulations_and_needs_one_more_question(deploy, language, both):
    names = ("ant", "bee", "cat", "dog", "elk", "fox")
    deployment = deploy({"train": {"method": "text-prior"}, "augment": {"kind": "none"}}, table=language.table(names))
    both(deployment)
    assert deployment.sites[0].asked == ["query.hello", "query.statistics", "query.text", "query.score"]


def test_a_prior_from_text_is_the_simulations_where_rows_are_standardised(deploy, language, both):
    tree = {"train": {"method": "text-prior"}, "augment": {"kind": "none"}, "data": {"standardise": True}}
    both(deploy(tree, table=language.table(("ant", "bee", "cat", "dog", "elk", "fox"))))


@pytest.mark.parametrize(
    "other, held, folds", [("lda", 5, 4), ("ggeur-limit", 5, 4), ("lda", 4, 2)]
)  # pooled or not; few
def test_auto_chooses_by_classes_left_out_where_sites_have_text(deploy, language, both, other, held, folds):
    names = ("ant", "bee", "cat", "dog", "elk", "fox")[: held + 1]
    table = language.table(names)
    table = replace(table, test=table.test | (table.y == held))  # of the last class nobody has a training sample
    few = {"auto": {"candidates": [[other, "text-prior"]], "folds": folds}}
    deployment = deploy({"train": {"method": "auto"}, "augment": {"kind": "none"}, "method": few}, table=table)
    both(deployment)
    asked = ["query.hello", "query.statistics", "query.text", "query.score"]
    assert deployment.sites[0].asked == asked
    (event,) = deployment.events("chosen")
    assert event["taken"] == "text-prior" and "ranks first" in event["why"]


def test_auto_does_without_text_on_which_sites_differ(deploy, language, changing):
    few = {"auto": {"candidates": [["lda", "text-prior"]]}}
    tree = {"train": {"method": "auto"}, "augment": {"kind": "none"}, "method": few}
    one = deploy(tree, table=language.table(("ant", "bee", "cat", "dog")))
    one.sites[1].change = changing("query.text", lambda facts, arrays: arrays["text"].__imul__(-1))
    trial = one.run().trials[0]
    assert trial.taken == "lda" and not trial.missing and not one.events("refused")
    assert "differ in the text embedding of 'ant'" in str(one.events("note"))


def reworded(site, sets):
    """The table of `site` with these sets of text alone, in this order."""
    table = EmbeddingTable.load(site.config["table"])
    replace(table, text={name: table.text[name] for name in sets}).save(site.config["table"])


def test_any_text_is_of_one_set_where_tables_list_them_in_other_orders(deploy, language, both):
    """Sites without a class in common, of whose texts none can be held against another's."""
    table = language.table(("ant", "bee", "cat", "dog"))
    table = replace(table, domain=(table.y > 1).astype(int))
    one = deploy({"train": {"method": "text-prior"}, "augment": {"kind": "none"}}, table=table)
    reworded(one.sites[1], ["bare", "fedclip"])
    both(one)


def test_sites_with_no_set_of_text_in_common_are_told_so(deploy, language):
    one = deploy({"train": {"method": "text-prior"}, "augment": {"kind": "none"}}, table=language.table())
    for site, name in zip(one.sites, ("bare", "fedclip"), strict=True):
        reworded(site, [name])
    with pytest.raises(GgeurError, match="have no set of text in common: name one as prompts"):
        one.run()


def test_text_that_no_site_has_is_one_sentence(deploy):
    with pytest.raises(GgeurError, match="No site has a text embedding 'fedclip' of 'ant'"):
        deploy({"train": {**SHORT, "method": "fedclip"}, "augment": {"kind": "none"}}).run()


@pytest.mark.parametrize(
    "tree",
    [
        {"augment": {"kind": "none"}},
        {"augment": {"kind": "resample", "target": 20}},
        {"augment": {"kind": "prototypes", "target": 20, "per_prototype": 5}},
        {"augment": {"covariance": "pooled", "target": 20, "per_prototype": 5}},
        {"augment": {"guided": 0.6, "target": 20, "per_prototype": 5}},
        {"augment": {"kind": "expected", "parameters": {"rank": 2}, "target": 20, "per_prototype": 5}},
        {"augment": {"kind": "expected", "covariance": "pooled", "target": 20, "per_prototype": 5}},  # of full rank
        {"augment": {"covariance": "pooled", "guided": 0.6, "target": 20, "per_prototype": 5}},
        {"augment": {"scale": "eigenvalue", "per_sample": 2, "steps": 1}},
        {
            "train": {"rounds": 1, "batch_size": 64},
            "augment": {"target": 8000, "per_prototype": 5, "bank_mib": 1},
        },  # wraps
        {"partition": {"kind": "dirichlet", "clients": 4, "beta": 0.5}, "augment": {"target": 30}},
        {
            "partition": {"kind": "dirichlet", "clients": 4, "beta": 0.5},
            "augment": {"target": 30, "covariance": "none"},
        },
        {"partition": {"kind": "label-and-domain", "beta": 0.3}, "augment": {"target": 30, "per_prototype": 5}},
        {"run": {"protocol": "released"}, "augment": {"target": 20, "per_prototype": 5}},
        {"train": {"method": "scaffold", "clients_per_round": 2}, "augment": {"target": 20, "per_prototype": 5}},
        {"train": {"head": "mlp", "hidden": 6, "method": "moon"}, "augment": {"target": 20, "per_prototype": 5}},
        {"train": {"weights": "original", "start": "lda"}, "augment": {"target": 20, "per_prototype": 5}},
        {"train": {"weights": "equal", "start": "ncm"}, "augment": {"kind": "none"}},
        {"train": {"start": "lda"}, "augment": {"target": 20, "per_prototype": 5}, "data": {"standardise": True}},
        {"train": {"broadcast": False}, "augment": {"kind": "none"}, "data": {"standardise": True}},
        {"train": {"method": "ridge"}, "data": {"standardise": True}},
    ],
    ids=str,
)
def test_settings_mean_the_same(deploy, tree, both):
    both(deploy(tree | {"train": SHORT | tree.get("train", {})}))


def test_a_grid_of_trials_and_heads_that_are_solved(deploy, both):
    tree = {"train": {**SHORT, "method": ["fedavg", "ncm", "lda", "ridge"]}, "augment": {"kind": "none"}}
    both(deploy(tree), trials=4)


def test_a_mean_far_from_zero_is_met_with_a_center(deploy, build_table, both):
    table = build_table()
    far = build_table(x=(table.x.astype(np.float64) + 20_000).astype(np.float32))
    deployment = deploy(
        {"train": SHORT | {"learning_rate": 1e-9}, "augment": {"target": 20, "per_prototype": 5}}, table=far
    )
    both(deployment)
    assert deployment.sites[0].asked.count("query.statistics") == 2


def test_solved_heads_of_rows_far_from_zero_are_the_simulations(deploy, build_table, both):
    table = build_table()
    far = build_table(x=(table.x.astype(np.float64) + 20_000).astype(np.float32))
    solved = {"train": {"method": ["ncm", "lda", "ridge"]}, "augment": {"kind": "none"}}
    trials = both(deploy(solved, table=far), trials=3).trials
    near = run(deploy(solved, name="near").simulated).trials
    for a, b in zip(trials, near, strict=True):
        assert a.avg == pytest.approx(b.avg, abs=3)  # 20,000 in float32 is rounded to 0.002


def test_units_travel_as_they_are_billed_and_are_kept_in_the_model(deploy, both):
    tree = {"train": SHORT, "augment": {"target": 20, "per_prototype": 5}}
    plain, ours = deploy(tree, name="plain"), deploy(tree | {"data": {"standardise": True}}, name="ours")
    (a,), (b,) = plain.run().trials, both(ours).trials
    simulated = [run(one.simulated).trials[0] for one in (plain, ours)]
    for name in ("bytes_up", "bytes_down"):
        assert getattr(b, name) - getattr(a, name) == getattr(simulated[1], name) - getattr(simulated[0], name) > 0
    assert ours.sites[0].asked[:3] == ["query.hello", "query.sums", "query.statistics"]
    models = [Model.load(folder) for folder in (ours.out, ours.folder / "simulated")]
    np.testing.assert_allclose(models[0].units.pack(), models[1].units.pack(), rtol=1e-12)


@pytest.mark.parametrize("statistics", ["per-class", "pooled"])
@pytest.mark.parametrize(
    "partition",
    [{"kind": "domain"}, {"kind": "label-and-domain", "beta": 0.1}, {"clients": 4, "min_per_class": 0}],
    ids=str,
)
def test_what_clients_draw_along_and_around_travels_as_it_is_billed(deploy, partition, statistics):
    """Nobody is sent the shapes of classes it does not draw, nor a client that mixes domains any prototypes."""
    two_steps = {"steps": 2, "target": 20, "per_prototype": 5, "covariance": statistics}
    downs = []
    for augment in ({"kind": "none"}, two_steps):
        one = deploy({"train": SHORT, "augment": augment, "partition": partition}, name=str(len(downs)))
        downs.append([one.run().trials[0].bytes_down, run(one.simulated).trials[0].bytes_down])
    wire, bill = np.diff(downs, axis=0)[0]
    assert wire == pytest.approx(bill, abs=3 * 4 + 2), "but for which prototypes there are, a byte each, and rounding"


def test_rows_of_any_units_are_trained_on_in_the_federations(deploy, build_table, both):
    table = build_table()
    far = build_table(x=(1e-3 * (table.x.astype(np.float64) + 20_000)).astype(np.float32))
    tree = {"train": SHORT | {"start": "lda"}, "augment": {"target": 20, "per_prototype": 5}}
    deployment = deploy(tree | {"data": {"standardise": True}}, table=far)
    assert both(deployment).trials[0].avg > 50
    assert deployment.sites[0].asked.count("query.statistics") == 1
    as_they_lie = deploy(tree | {"train": SHORT | {"learning_rate": 1e-9}}, table=far, name="raw")
    as_they_lie.run()
    assert any("standardise = true" in note["why"] for note in as_they_lie.events("note"))


@pytest.mark.parametrize("method", some(["scaffold", "fedmix", "fedgen", "fedfa"], of=("scaffold",)))
def test_methods_find_the_simulations_head_without_draws(deploy, method, both):
    few = {"kind": "expected", "parameters": {"rank": 2}, "target": 20, "per_prototype": 5}
    skewed = {"kind": "label-and-domain", "beta": 0.3}
    both(deploy({"train": {**SHORT, "method": method}, "augment": few, "partition": skewed}))


def test_a_solved_head_needs_no_parameters_of_an_augmentation(deploy, both):
    both(deploy({"train": {"method": "lda"}, "augment": {"kind": "expected", "parameters": {"rank": 2}}}))


def test_a_client_without_rows_sits_out(deploy, build_table, both):
    table = build_table()
    mostly_test = build_table(test=(table.domain == 1) | (np.arange(len(table)) % 3 == 0))
    both(deploy({"train": SHORT, "augment": {"target": 20, "per_prototype": 5}}, table=mostly_test))


def test_nothing_large_is_left_at_a_site_and_each_process_starts_once_a_round(deploy):
    deployment = deploy({"train": SHORT, "augment": {"target": 20, "per_prototype": 5}})
    deployment.run()
    once = ["query.hello", "query.statistics", "query.augment_site"]
    assert deployment.sites[0].asked == [*once, "train", "train", "train", "evaluate"]
    assert not list((deployment.folder / "store-0").rglob("*.np*"))
