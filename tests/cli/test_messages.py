"""What a new user gets wrong on the command line, and the sentence that answers; said before anything begins."""

import os
import subprocess
import sys
import typing

import numpy as np
import pytest

from ggeur.cli.app import COMMANDS
from ggeur.cli.federate import federate
from ggeur.data.table import EmbeddingTable
from ggeur.experiments.cost import COVARIANCES
from ggeur.experiments.cost import cost as cost_of
from ggeur.stats.long_jobs import human_bytes, human_seconds

EXPERIMENT = '[data]\ntable = "toy.npz"\n[partition]\nkind = "domain"\n[train]\nmethod = "ncm"\n'

FLOWER = pytest.mark.needs("flower")


@pytest.fixture
def place(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    y, domain = np.tile(np.repeat([0, 1], 10), 2), np.repeat([0, 1], 20)
    x = rng.normal(size=(40, 3)) + 3 * y[:, None]
    table = EmbeddingTable(x=x, y=y, domain=domain, class_names=("ant", "bee"), domain_names=("art", "photo"))
    here = tmp_path / "here"
    here.mkdir()
    table.save(here / "toy.npz")
    (here / "exp.toml").write_text(EXPERIMENT)
    (here / "noise.bin").write_bytes(rng.bytes(2**20))
    monkeypatch.chdir(here)
    return here


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ("report noise.bin", "file-not-text: noise.bin"),
        ("run noise.bin", "file-not-text: noise.bin"),
        ("run --resume nowhere", "run-missing: nowhere"),
        pytest.param("federate up --resume nowhere", "run-missing: nowhere", marks=FLOWER),
        ("run exp.toml --out ..", "folder-not-empty: The folder .."),
        pytest.param("federate up exp.toml --out ..", "folder-not-empty: The folder ..", marks=FLOWER),
        ("run exp.toml --out toy.npz", "folder-is-file: toy.npz"),
        ("inspect toy.npz --class cat", "class-unknown: cat...ant, bee"),
        ("embed here --out x.csv --encoder builtin", "output-file-suffix: x.npz"),
        (
            "run exp.toml --set partitions.kind=domain",
            "settings-invalid: [partitions]...[data], [partition]",
        ),
        ("run exp.toml --set data.table=absent.npz", "file-missing"),
        ("run exp.toml --set data.table=exp.toml", "file-not-npz: exp.toml"),
        ("run exp.toml --set train.methd=1 --set train.rate=1", "settings-invalid: 'method'...'rate'"),
        ("run exp.toml --set train.methd=1 --set train.method=fedavgg", "settings-invalid: 'method'...'fedavg'"),
        ("run exp.toml --set partition.kind=domian", "settings-invalid: Did you mean 'domain'"),
        ("inspect toy", "file-missing: 'toy.npz'"),
        ("audit toy.npz --partition dirichle", "settings-invalid: Did you mean 'dirichlet'"),
        ("predict noize toy.npz", "model-missing: 'noise.bin'"),
        ("report nois", "result-missing: 'noise.bin'"),
        ("reproduce tabel5 --table toy.npz", "paper-table-unknown: 'table5'"),
        ("embed minidigits --out x.npz --encoder builtn", "dataset-unknown: 'mini-digits'"),
        ("embed mini-digits --out x.npz --encoder builtn", "encoder-unknown: 'builtin'"),
        pytest.param("federate node h:1 --ca exp.toml --key exp.toml", "option-number-missing: --number", marks=FLOWER),
    ],
)
def test_a_mistake_is_a_sentence_and_nothing_has_begun(ggeur, place, argv, says):
    before = sorted(place.iterdir())
    code, out, err = ggeur(*argv.split())
    assert code == 2 and err.says(says) and len(err) < 700
    assert out == "", "neither a bar nor a table"
    assert sorted(place.iterdir()) == before


def test_unknown_sections_are_answered_with_those_that_can_be_written(ggeur, place):
    _, _, err = ggeur("run", "exp.toml", "--set", "arms.kind=1")
    assert err.says("settings-invalid: [method.NAME], [head.NAME]...[[arm]]")


@FLOWER
@pytest.mark.parametrize("real", [True, False])
def test_a_run_is_gone_on_with_as_it_was_begun(ggeur, place, real):
    assert ggeur("run", "exp.toml", "--out", "run")[0] == 0
    (place / "run" / "result.json").unlink()
    if real:
        (place / "run" / "federation.jsonl").write_text("")
        code, out, err = ggeur("run", "--resume", "run")
        says = "run-over-machines: `ggeur federate up --resume run`"
    else:
        code, out, err = ggeur("federate", "up", "--resume", "run")
        says = "run-simulated: `ggeur run --resume run`"
    assert code == 2 and out == "" and err.says(says)


def commands():
    return [*COMMANDS, *(c.callback for c in federate.registered_commands)]


@pytest.mark.parametrize("command", commands(), ids=lambda c: c.__name__)
def test_every_argument_and_option_has_help(command):
    hints = typing.get_type_hints(command, include_extras=True)
    silent = [
        name
        for name, hint in hints.items()
        if name != "return" and not any(getattr(part, "help", None) for part in getattr(hint, "__metadata__", ()))
    ]
    assert silent == []


def test_help_shows_what_arguments_are(ggeur):
    """They have it, and a version of a library that typer builds on took it away."""
    _, out, _ = ggeur("predict", "--help")
    assert "Model folder" in out and "Image, image folder" in out


@pytest.mark.parametrize("width", [60, 80])
def test_a_cost_keeps_its_numbers_on_any_screen(ggeur, monkeypatch, width):
    from ggeur.cli import cost, screen

    for module in (cost, screen):
        monkeypatch.setattr(module, "console", type(screen.console)(width=width, emoji=False))
    code, out, _ = ggeur("cost", "--clients", 100000, "--dim", 768, "--classes", 345)
    assert code == 0 and "…" not in out and max(map(len, out.splitlines())) <= width
    links = dict(client_mbit=20.0, server_mbit=1000.0, patience=600.0)
    for kind in COVARIANCES:
        p = cost_of(kind, 100000, 345, 768, **links)
        sizes, times = (p.up, p.down, p.server_memory), (p.client_seconds, p.tree_seconds)
        numbers = [*map(human_bytes, sizes), *map(human_seconds, times), kind, "100,000", f"{p.levels} x {p.fan:,}"]
        assert [number for number in numbers if number not in out] == []


def test_an_ascii_terminal_gets_plain_characters(place):
    for words, says in (
        (["inspect", "toy.npz"], "norm"),
        (["cost", "--clients", "10"], "10"),
        (["run", "exp.toml"], "AVG"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "ggeur", *words],
            capture_output=True,
            check=False,
            env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        )
        assert done.returncode == 0, done.stderr.decode()
        assert says in done.stdout.decode("ascii") and b"Traceback" not in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [["methods"], ["--version"]], ids=" ".join)
def test_a_full_disk_is_a_sentence(place, words, unbuffered):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "ggeur", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    assert done.returncode == 2 and done.stderr == "error: Cannot print: No space left on device.\n"


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_who_reads_no_more_hears_no_more(place, unbuffered):
    command = [sys.executable, "-m", "ggeur", "--help"]
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as process:
        process.stdout.close()  # before anything is printed
        assert process.stderr.read() == b"" and process.wait() in (0, 1)
