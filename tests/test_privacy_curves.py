"""Accuracy against epsilon: the tool's short way is that of a run, and the page shows what was measured."""

import importlib
from pathlib import Path

import numpy as np
import pytest

import ggeur

ROOT = Path(__file__).parents[1]


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("privacy_curves")


def test_a_trial_is_that_of_a_run(tool, tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(900) % 3
    x = rng.normal(size=(3, 8))[y] + rng.normal(size=(900, 8))
    ggeur.EmbeddingTable(x=x.astype(np.float32), y=y, test=np.arange(900) >= 600).save(tmp_path / "t.npz")
    tree = {
        "data": {"table": str(tmp_path / "t.npz")},
        "partition": {"clients": [4], "beta": 1.0},
        "augment": {"kind": "none"},
        "privacy": {"epsilon": [0.1, 1.0], "radius": 1.0, "samples": 600, "secure_aggregation": [True, False]},
        "run": {"seeds": [1]},
        "arm": [
            {"name": "none", "train": {"method": "ncm"}},
            {"name": "projected", "train": {"method": "ridge"}, "privacy": {"projection": 6}},
            {"name": "per class", "train": {"method": "ggeur-limit"}, "augment": {"covariance": "per-class"}},
            {"name": "auto", "train": {"method": "auto"}},
        ],
    }
    found = tool.Measured(tree)
    ours = {at: found.accuracy(at) for at in found.points() if at.epsilon is not None}
    assert len(ours) == 16 and len(set(ours.values())) > 8
    for row in ggeur.run(ggeur.Experiment.of(tree)).rows():
        s = row.settings
        at = tool.Point(4, s["privacy.secure_aggregation"], s["arm"], s["privacy.epsilon"], 1)
        assert ours[at] == pytest.approx(row.avg, abs=1e-9), at


def test_the_page_shows_what_was_measured_of_every_trial(tool):
    known = tool.measured()
    assert len(known) == 2 * 3 * (7 * 2 * 6 + 6)  # clients, seeds, arms with noise and without
    assert tool.Curves.of(known).table() in tool.PAGE.read_text(encoding="utf-8")


def test_at_epsilon_one_with_secure_sums_at_most_a_point_is_lost(tool):
    found = tool.Curves.of(tool.measured()).found
    for clients in (10, 100):
        best = max(np.mean(v) for key, v in found.items() if key[0] == clients and key[3] is None)
        assert best - np.mean(found[clients, True, "auto", 1.0]) <= 1.0
