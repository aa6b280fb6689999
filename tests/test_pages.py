"""What README and docs print can be run: Python as it stands, experiment files, and every option of every command."""

import re
import shlex
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from zlib import crc32

import numpy as np
import pytest
from typer.testing import CliRunner

import ggeur
from ggeur.cli.app import app
from ggeur.experiments.grid import Experiment

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("*.md"), ROOT / "benchmarks" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(language):
    """Every block of code in `language`, named by its page and line."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for found in re.finditer(rf"^```{language}\n(.*?)^```", text, re.S | re.M):
            yield pytest.param(found[1], id=f"{page.relative_to(ROOT)}:{text[: found.start()].count(chr(10)) + 1}")


def reader():
    """What a page takes for granted: rows of two sites, and what is made of them."""
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    x = rng.normal(size=(80, 4)) + 3 * np.eye(4)[y]
    sent = [ggeur.ClassStatistics.from_embeddings(x[k::2], y[k::2], 2) for k in (0, 1)]
    north, south = slice(40), slice(40, None)
    texts = [f"pump {i} has stopped" for i in range(30)] + [f"all is well with pump {i}" for i in range(30)]
    corpora = [(site, texts, ["fault"] * 30 + ["fine"] * 30) for site in ("leeds", "york")]
    return {
        **{"ggeur": ggeur, "np": np, "x": x, "y": y, "where": np.repeat(["north", "south"], 40), "sent": sent},
        **{"x_north": x[north], "y_north": y[north], "x_south": x[south], "y_south": y[south]},
        "corpora": corpora,
    }


class WordCounts:
    """In place of a sentence transformer, which is no dependency and wants weights: how often words occur."""

    def __init__(self, name):
        assert name

    def encode(self, texts):
        counts = np.zeros((len(texts), 16), np.float32)
        for i, text in enumerate(texts):
            np.add.at(counts[i], [crc32(word.encode()) % 16 for word in text.split()], 1)
        return counts


@pytest.mark.parametrize("code", [*blocks("python")])
def test_python_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    package = ModuleType("sentence_transformers")
    vars(package)["SentenceTransformer"] = WordCounts
    monkeypatch.setitem(sys.modules, "sentence_transformers", package)
    exec(compile(code, "a page", "exec"), reader())


@pytest.mark.parametrize("text", [*blocks("toml")])
def test_an_experiment_file_is_one(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for module, function in re.findall(r'"(mine):(\w+)"', text):  # the reader's own, which a page prints
        (code,) = {p.values[0] for p in blocks("python") if f"def {function}(" in p.values[0]}
        made = ModuleType(module)
        exec(code, vars(made))
        monkeypatch.setitem(sys.modules, module, made)
    (tmp_path / "exp.toml").write_text(text, encoding="utf-8")
    part = [] if "[data]" in text else ["data.dataset=mini-digits", "train.method=ridge"]  # of a file
    assert Experiment.load(tmp_path / "exp.toml", part).points


@cache
def help_of(*words: str) -> str:
    """What --help says of a command; nothing where there is none."""
    shown = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "200", "TERMINAL_WIDTH": "200"})
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.output) if shown.exit_code == 0 else ""


def commands():
    """Every line of a page that calls ggeur."""
    for block in blocks("sh"):
        for line in block.values[0].replace("\\\n", " ").splitlines():
            for part in re.split(r"[;|&]+", line):
                if re.match(r"\s*(?:\S+/)?ggeur ", part):
                    yield pytest.param(part, id=f"{block.id} {part.strip()[:40]}")


@pytest.mark.parametrize("line", [*commands()])
def test_a_command_has_these_options(line):
    words = shlex.split(line, comments=True)[1:]
    command = words[:2] if words[0] == "federate" else words[:1]
    if command[0].startswith("-"):
        command = []
    assert (shown := help_of(*command)), f"there is no {' '.join(command)}"
    for option in (word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)):
        assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", shown), option
