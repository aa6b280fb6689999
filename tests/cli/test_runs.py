"""`ggeur runs`."""

import json
import os

import numpy as np
import pytest

from ggeur import fit
from ggeur.data.table import EmbeddingTable
from ggeur.experiments.folder import RunFolder
from ggeur.experiments.grid import Experiment
from ggeur.experiments.runner import run

TREE = {
    "data": {"table": "toy.npz"},
    "partition": {"clients": 3, "beta": 0.5},
    "augment": {"kind": "none"},
    "train": {"method": ["ncm", "lda"]},
    "run": {"seeds": [0, 1]},
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two runs, one of them unfinished, and a model, last changed in that order."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    table = EmbeddingTable(x=(rng.normal(size=(60, 4)) + 3 * np.eye(4)[y]).astype(np.float32), y=y)
    table.save("toy.npz")
    run(Experiment.of(TREE), out="runs/first")
    fit([table.subset(np.arange(0, 60, 2)), table.subset(np.arange(1, 60, 2))], method="lda", out="models/kept")
    RunFolder("runs/second", Experiment.of(TREE)).abandon()  # as if nothing was done
    for at, name in enumerate(("runs/first/result.json", "models/kept/model.json")):
        os.utime(name, (1000.0 * at, 1000.0 * at))
    return tmp_path


def test_runs_and_models_are_listed_with_the_best_method(ggeur, folder):
    code, out, _ = ggeur("runs", "--json-lines")
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and [line["name"] for line in lines] == ["models/kept", "runs/first"]
    model, first = lines
    assert model["event"] == "model" and model["method"] == "lda"
    best = max(row.avg for row in run(Experiment.of(TREE)).rows())
    assert first["state"] == "finished" and first["accuracy"] == best


def test_a_run_that_has_not_finished_says_how_far_it_is_and_whether_somebody_is_at_it(ggeur, folder):
    kept = RunFolder("runs/second", Experiment.of(TREE))
    (line,) = json.loads("[" + ",".join(ggeur("runs", "runs/second", "--json-lines")[1].splitlines()) + "]")
    assert line["state"] == "running, 0 of 4 trials" and line["accuracy"] is None
    kept._lock.close()
    kept._metrics.close()
    assert "stopped, 0 of 4 trials" in ggeur("runs", "runs/second", "--json-lines")[1]


def test_a_damaged_run_does_not_hide_the_others(ggeur, folder):
    (folder / "runs/first/result.json").write_text("{}")
    code, out, _ = ggeur("runs", "--json-lines")
    states = {line["name"]: line["state"] for line in map(json.loads, out.splitlines())}
    assert code == 0 and states == {"runs/first": "unreadable: file-not-result", "models/kept": "fitted"}


def test_an_empty_folder_and_none(ggeur, tmp_path):
    code, out, _ = ggeur("runs", tmp_path)
    assert code == 0 and "no runs" in out
    code, _, err = ggeur("runs", tmp_path / "nowhere")
    assert code == 2 and err.code == "folder-missing"
