"""Every example runs and prints what it promises."""

import runpy
from pathlib import Path

import pytest

from ggeur.settings.grid import Experiment

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.parametrize("name", sorted(p.name for p in EXAMPLES.glob("*.py")))
def test_an_example_runs(name, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert "%" in capsys.readouterr().out or name == "researcher.py"


@pytest.mark.parametrize("name", sorted(p.name for p in EXAMPLES.glob("*.toml")))
def test_an_experiment_is_valid(name):
    assert Experiment.load(EXAMPLES / name, ["data.dataset=mini-digits"]).points
