"""`ggeur report`."""

import numpy as np
import pytest

from ggeur.data.table import EmbeddingTable
from ggeur.experiments.grid import Experiment
from ggeur.experiments.runner import run


@pytest.fixture
def finished(tmp_path, monkeypatch):
    """A finished run of two arms on a toy, and we are beside it."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    x = (rng.normal(size=(60, 4)) + 3 * np.eye(4)[y]).astype(np.float32)
    EmbeddingTable(x=x, y=y).save("toy.npz")
    tree = {
        "data": {"table": "toy.npz"},
        "partition": {"clients": 3, "beta": 0.5},
        "augment": {"kind": ["none", "ggeur"], "target": 12},
        "train": {"rounds": 2, "local_epochs": 1},
        "run": {"seeds": [0, 1]},
    }
    run(Experiment.of(tree), out="run")
    return tmp_path


def test_a_report_of_a_run_with_tables_for_a_paper(ggeur, finished):
    code, out, _ = ggeur("report", "run", "--out", "page.html", "--latex")
    assert code == 0 and "page.html" in out and "page.tex" in out
    text = (finished / "page.html").read_text(encoding="utf-8")
    assert "GGEUR changes" in text and text.count("<svg") == 6  # one domain: no similarity, no controls
    assert "\\begin{tabular}" in (finished / "page.tex").read_text(encoding="utf-8")


@pytest.mark.usefixtures("undrawn")
def test_a_report_computes_contributions_and_keeps_them(ggeur, finished):
    code, _, err = ggeur("report", "run", "--contributions")
    assert code == 2 and err.code == "contributions-not-one-shot" and not (finished / "run/contributions.json").exists()
    tree = {
        "data": {"table": "toy.npz"},
        "partition": {"clients": 3, "beta": 0.5},
        "train": {"method": ["fedavg", "ncm", "lda"], "rounds": 1},
        "augment": {"kind": "none"},
    }
    run(Experiment.of(tree), out="solved")
    assert ggeur("report", "solved", "--out", "page.html", "--contributions")[0] == 0
    text = (finished / "page.html").read_text(encoding="utf-8")
    assert "Contributions of the sites" in text and "client 2" in text
    assert ggeur("report", "solved", "--out", "again.html")[0] == 0
    assert "Contributions of the sites" in (finished / "again.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "argv, says",
    [
        (("nowhere",), "result-missing"),
        (("run", "--out", "no/such/place.html"), "output-folder-missing"),
    ],
)
def test_mistakes_are_one_sentence(ggeur, tmp_path, monkeypatch, argv, says):
    monkeypatch.chdir(tmp_path)
    code, _, err = ggeur("report", *argv)
    assert code == 2 and err.says(says)
