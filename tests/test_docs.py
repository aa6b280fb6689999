"""The method printed in docs/howto/method.md runs as an experiment's own."""

import re
from pathlib import Path

import numpy as np

import ggeur

DOC = Path(__file__).parents[1] / "docs" / "howto" / "method.md"


def test_the_method_in_the_docs_runs(tmp_path, monkeypatch):
    _, code = re.findall(r"```python\n(.*?)```", DOC.read_text(encoding="utf-8"), re.S)
    (tmp_path / "mine.py").write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    table = ggeur.EmbeddingTable(x=rng.normal(size=(60, 4)) + 3 * np.eye(4)[y], y=y)
    table.save(tmp_path / "t.npz")
    result = ggeur.run(
        ggeur.Experiment.of(
            {
                "data": {"table": str(tmp_path / "t.npz")},
                "partition": {"clients": 2, "beta": 1.0},
                "augment": {"kind": "none"},
                "train": {"method": "mine:fedavg_clipped", "rounds": 2},
                "method": {"mine:fedavg_clipped": {"bound": [1e-9, 100.0]}},
            }
        )
    )
    frozen, free = result.trials
    assert frozen.rounds[0] == frozen.rounds[1]  # nothing moves under a tiny bound
    assert free.avg is not None and frozen.avg is not None and free.avg > frozen.avg


SETTINGS = DOC.parents[1] / "settings.md"


def documented(section):
    """key -> default of the table under the section's heading."""
    (text,) = re.findall(rf"## \[{section}\].*?(?=\n## |\Z)", SETTINGS.read_text(encoding="utf-8"), re.S)
    return dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", text, re.M))


def test_every_setting_is_documented_with_its_default():
    from ggeur.experiments.settings import Settings

    sections = {name: field.annotation for name, field in Settings.model_fields.items()}
    for name in sections.keys() - {"method", "head"}:
        fields, told = sections[name].model_fields, documented(name)
        assert list(told) == list(fields), name
        for key, field in fields.items():
            if field.default is not None:
                default = list(field.default) if isinstance(field.default, tuple) else field.default
                shown = str(default).lower() if isinstance(default, bool) else str(default)
                assert told[key].strip("`").split("`")[0] == shown, f"{name}.{key}"
