"""What earlier versions wrote still loads, and means the same."""

from pathlib import Path

import numpy as np
import pytest

from ggeur import EmbeddingTable, Experiment, Model, Result
from ggeur.data.files import read_arrays
from ggeur.report.page import read_run

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


def test_a_run_folder_gives_the_model_of_its_best_cell():
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
