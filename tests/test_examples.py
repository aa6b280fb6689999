"""Every example runs and prints what it promises."""

import re
import runpy
from pathlib import Path

import pytest

import ggeur
from ggeur.settings.grid import Experiment

EXAMPLES = Path(__file__).parents[1] / "examples"
PROMISED = {
    "engineer.py": r"\w+ \(\d+ %\)",
    "library.py": r"site 1: .* % along the global shape",
    "researcher.py": r"GGEUR minus none: [+-].* \[",
}


@pytest.mark.parametrize("name", sorted(p.name for p in EXAMPLES.glob("*.py")))
def test_an_example_runs(name, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert re.search(PROMISED[name], capsys.readouterr().out)


@pytest.mark.parametrize("name", sorted(p.name for p in EXAMPLES.glob("*.py")))
def test_what_an_example_imports_is_public(name):
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    assert not re.findall(r"(?:from|import) ggeur\.", text)
    assert set(re.findall(r"\bggeur\.(\w+)", text)) <= set(ggeur.__all__)


@pytest.mark.parametrize("name", sorted(p.name for p in EXAMPLES.glob("*.toml")))
def test_an_experiment_is_valid(name):
    assert Experiment.load(EXAMPLES / name, ["data.dataset=mini-digits"]).points
