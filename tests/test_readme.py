"""The README's Python runs as printed, and its experiment file is one."""

import re
from pathlib import Path

from ggeur.settings.grid import Experiment

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.S)


def test_the_python_example_runs():
    (example,) = blocks("python")
    assert len([line for line in example.splitlines() if line]) <= 12
    exec(compile(example, "README.md", "exec"), {})


def test_the_experiment_file_is_valid(tmp_path):
    (text,) = blocks("toml")
    (tmp_path / "exp.toml").write_text(text, encoding="utf-8")
    experiment = Experiment.load(tmp_path / "exp.toml")
    assert [p.augment.kind for p in experiment.points] == ["none", "ggeur"]
