"""What earlier versions wrote still loads, and means the same."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from ggeur import EmbeddingTable, Experiment, Model, Result, fit
from ggeur import run as ggeur_run
from ggeur.models.exports.export_folder import write_hub
from ggeur.models.joining import add_site, forget_site
from ggeur.report.model_page import write_model_page
from ggeur.report.page import read_run, write_report
from ggeur.stats.storage import read_arrays, sealed
from refusal import refused

BEFORE = Path(__file__).parent / "data" / "before"
PROBABILITIES = read_arrays(BEFORE / "probabilities.npz")


@pytest.mark.parametrize("folder", PROBABILITIES)
def test_a_model_gives_the_probabilities_it_gave(folder):
    model = Model.load(BEFORE / folder)
    kept = read_arrays(BEFORE / folder / "head.npz")
    assert model.head == folder.split("/")[0] and set(model.params) == set(kept)
    assert model.parameters == ({"hidden": 8} if model.head == "mlp" else {})
    for name, leaf in kept.items():
        np.testing.assert_array_equal(model.params[name], leaf)
    found = model.probabilities(EmbeddingTable.load(BEFORE / "table.npz"))
    np.testing.assert_allclose(found, PROBABILITIES[folder], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("folder", PROBABILITIES)
def test_a_model_that_is_saved_again_has_the_same_arrays_by_the_same_names(folder, tmp_path):
    Model.load(BEFORE / folder).save(tmp_path)
    again, kept = np.load(tmp_path / "head.npz"), np.load(BEFORE / folder / "head.npz")
    assert again.files == kept.files and all(again[name].tobytes() == kept[name].tobytes() for name in kept.files)


def test_a_run_folder_gives_the_model_of_its_best_trial():
    best = Model.load(BEFORE / "linear" / "model" / "cell-001")
    np.testing.assert_array_equal(Model.load(BEFORE / "linear").params["W"], best.params["W"])


def test_a_run_folders_result_and_experiment_load():
    none, ggeur = Result.load(BEFORE / "linear").rows()
    assert (none.avg, ggeur.avg, ggeur.domains) == (68.75, 87.5, {"art": 87.5, "photo": 87.5})
    linear, mlp = (Experiment.load(BEFORE / name / "config.toml") for name in ("linear", "mlp"))
    assert [point.augment.kind for point in linear.points] == ["none", "ggeur"] and linear.varied[0]["arm"] == "a"
    assert mlp.points[0].head_parameters == {"hidden": 8} and mlp.points[0].train.momentum == 0.5


def test_a_run_folder_can_be_read_for_a_report():
    run = read_run(BEFORE / "linear")
    assert [entry.avg for entry in run.entries] == [68.75, 87.5]


# ---------------------------------------------------------------- the last of 0.1.0

RELEASED = Path(__file__).parent / "data" / "0.1.0"
GAVE = read_arrays(RELEASED / "probabilities.npz")


@pytest.mark.parametrize("folder", GAVE)
def test_a_model_of_0_1_0_gives_the_probabilities_it_gave(folder):
    found = Model.load(RELEASED / folder).probabilities(EmbeddingTable.load(RELEASED / "table.npz"))
    np.testing.assert_allclose(found, GAVE[folder], rtol=1e-5, atol=1e-7)


def test_a_run_of_0_1_0_is_read_reported_and_known_as_finished(tmp_path):
    run = read_run(RELEASED / "run")
    assert [entry.method for entry in run.entries] == ["fedavg", "lda", "mixture"]
    assert [round(entry.avg, 2) for entry in run.entries] == [56.25, 78.12, 81.25]
    assert write_report([RELEASED / "run"], tmp_path / "r.html").stat().st_size > 10_000
    copied = Path(shutil.copytree(RELEASED, tmp_path / "copy")) / "run"
    again = ggeur_run(Experiment.load(copied / "config.toml"), out=copied, resume=True)
    assert [trial.avg for trial in again.trials] == [trial.avg for trial in Result.load(RELEASED / "run").trials]


def test_sites_join_and_leave_a_model_of_0_1_0(tmp_path):
    shutil.copytree(RELEASED / "model", tmp_path / "model")
    table = EmbeddingTable.load(RELEASED / "table.npz")
    forget_site(tmp_path / "model", "photo", [])
    alone = fit([RELEASED / "art.npz"], method="lda", out=tmp_path / "alone")
    np.testing.assert_array_equal(
        Model.load(tmp_path / "model").params["W"], Model.load(tmp_path / "alone").params["W"]
    )
    add_site(tmp_path / "model", RELEASED / "photo.npz", [])
    np.testing.assert_allclose(Model.load(tmp_path / "model").probabilities(table), GAVE["model"], rtol=1e-5, atol=1e-7)
    assert alone.classes_.tolist() == ["ant", "bee", "cat"]


# ---------------------------------------------------------------- of 0.2, which had other names

OLD = Path(__file__).parent / "data" / "0.2.0"
SEALED = OLD / "sealed"
GAVE_BY_OLD = read_arrays(OLD / "probabilities.npz")


@pytest.mark.parametrize("folder", GAVE_BY_OLD)
def test_a_model_of_0_2_gives_the_probabilities_it_gave(folder):
    found = Model.load(OLD / folder).probabilities(EmbeddingTable.load(OLD / "table.npz"))
    np.testing.assert_allclose(found, GAVE_BY_OLD[folder], rtol=1e-5, atol=1e-7)


def test_a_run_of_0_2_has_the_names_of_today(tmp_path):
    trials = Result.load(OLD / "run").trials
    assert [trial.method for trial in trials] == ["fedopt", "ggeur-limit", "blend"] * 2
    assert trials[3].settings == {"train.learning_rate": 0.05, "train.method": "fedopt"}
    point = Experiment.load(OLD / "run" / "config.toml").points[1]
    assert (point.train.method, point.train.learning_rate, point.train.batch_size) == ("ggeur-limit", 0.02, 8)
    assert (point.augment.covariance, point.augment.empty_group) == ("pooled", "first")
    assert point.method == {"ggeur-limit": {"scale": 2.0}, "fedopt": {"server_learning_rate": 0.2}}
    copied = Path(shutil.copytree(OLD, tmp_path / "copy")) / "run"
    again = ggeur_run(Experiment.load(copied / "config.toml"), out=copied, resume=True)
    assert [trial.avg for trial in again.trials] == [trial.avg for trial in trials]
    assert write_report([copied], tmp_path / "r.html").stat().st_size > 10_000


def test_an_experiment_with_an_old_key_is_told_the_new_one(tmp_path):
    (tmp_path / "e.toml").write_text('[data]\ntable = "t.npz"\n[train]\nrate = 0.1\n')
    with refused("settings-invalid: 'rate' of [train] is called 'learning_rate' now"):
        Experiment.load(tmp_path / "e.toml")


@pytest.mark.parametrize(("old", "new"), [("limit", "ggeur-limit"), ("gated", "mixture"), ("limit+gated", "blend")])
def test_an_old_method_is_told_its_new_name(tmp_path, old, new):
    with refused(f"component-unknown: Did you mean '{new}'?"):
        fit([RELEASED / "art.npz", RELEASED / "photo.npz"], method=old, out=tmp_path / "model")


@pytest.mark.parametrize("name", ["model", "means"])
def test_sites_join_and_leave_a_model_of_0_2(name, tmp_path):
    shutil.copytree(OLD / name, tmp_path / "model")
    forget_site(tmp_path / "model", "photo", [])
    add_site(tmp_path / "model", OLD / "photo.npz", [])
    found, kept = Model.load(tmp_path / "model").params, read_arrays(OLD / name / "head.npz")
    for leaf, values in kept.items():
        np.testing.assert_allclose(found[leaf], values, rtol=1e-5, atol=1e-6)
    assert {p.name for p in (tmp_path / "model" / "statistics").iterdir()} == {"art.npz", "photo.npz"}
    assert not (tmp_path / "model" / "sums").exists()


def test_a_refused_command_leaves_a_model_of_0_2_as_it_is(tmp_path):
    model = Path(shutil.copytree(OLD / "model", tmp_path / "model"))
    before = {p.relative_to(model): p.read_bytes() for p in model.rglob("*") if p.is_file()}
    with refused("site-not-added"):
        forget_site(model, "nowhere")
    write_model_page(model, tmp_path / "page.html")
    assert {p.relative_to(model): p.read_bytes() for p in model.rglob("*") if p.is_file()} == before


def test_a_sealed_model_of_0_2_predicts_and_says_that_no_site_can_join_or_leave(tmp_path):
    model = Path(shutil.copytree(SEALED, tmp_path / "sealed"))
    assert Model.load(model).predict([[3.0, 0.0, 0.0], [0.0, 3.0, 0.0]]).labels == ["ant", "bee"]
    before = {p.name: p.read_bytes() for p in model.iterdir()}
    for ask in (
        lambda: add_site(model, RELEASED / "art.npz"),
        lambda: forget_site(model, "north"),
        lambda: write_model_page(model),
    ):
        with refused("model-only-total"):
            ask()
    assert {p.name: p.read_bytes() for p in model.iterdir()} == before


def test_a_model_of_0_2_by_limit_keeps_unseen_groups_empty_when_a_site_joins(tmp_path):
    rng, names = np.random.default_rng(0), {"north": (0, 1), "south": (1, 2), "west": (0, 2)}  # each lacks a class
    sites = {}
    for name, held in names.items():
        y = np.repeat(held, 30)
        x = rng.normal(size=(60, 4)) + 2 * np.eye(4)[y] + len(name)
        sites[name] = EmbeddingTable(x=x.astype(np.float32), y=y, class_names=("ant", "bee", "cat"))
        sites[name].save(tmp_path / f"{name}.npz")
    paths = [tmp_path / f"{name}.npz" for name in names]
    heads = []
    for fill in ("none", "additive"):
        fit(paths, method="ggeur-limit", parameters={"fill": fill}, out=tmp_path / fill, calibrate=False)
        heads.append(Model.load(tmp_path / fill).params["W"])
    fit(paths[:2], method="ggeur-limit", parameters={"fill": "none"}, out=tmp_path / "old", calibrate=False)
    about = json.loads((tmp_path / "old" / "model.json").read_bytes())
    del about["sha256"], about["algorithm"]["constants"]["fill"]
    about["algorithm"]["method"] = "limit"
    (tmp_path / "old" / "model.json").write_bytes(sealed(about))
    add_site(tmp_path / "old", paths[2])
    np.testing.assert_array_equal(Model.load(tmp_path / "old").params["W"], heads[0])
    assert np.abs(heads[0] - heads[1]).max() > 1e-3


# ---------------------------------------------------------------- of a later version


@pytest.mark.parametrize(("file", "key", "now"), [("model.json", "format", 1), ("ledger.json", "schema", 2)])
def test_a_model_of_a_later_format_is_refused(tmp_path, file, key, now):
    x = np.random.default_rng(0).normal(size=(40, 3))
    fit({"north": (x, np.arange(40) % 2)}, method="lda", out=tmp_path / "model", calibrate=False)
    path = tmp_path / "model" / file
    tree = json.loads(path.read_bytes())
    assert tree[key] == now
    del tree["sha256"]
    path.write_bytes(sealed(tree | {key: now + 1, "more": 1}))
    with refused(f"format-newer: {file} has the {key} {now + 1}, and this version of ggeur reads up to {now}"):
        forget_site(tmp_path / "model", "north")


def test_an_export_of_a_later_format_is_refused(tmp_path):
    model = Model.load(RELEASED / "model")
    write_hub(model, tmp_path / "hub")
    config = tmp_path / "hub" / "config.json"
    tree = json.loads(config.read_text())
    assert tree["format"] == 1 and Model.load(tmp_path / "hub").about() == model.about()
    config.write_text(json.dumps(tree | {"format": 2}))
    with refused("format-newer: config.json has the format 2"):
        Model.load(tmp_path / "hub")
