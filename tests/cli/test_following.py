"""Long jobs without a terminal: a line now and then, nothing where quiet, JSON for programs."""

import json
import re
from itertools import count, product
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from ggeur import Experiment
from ggeur.cli import following, screen
from ggeur.data.table import EmbeddingTable

EXPERIMENT = """
[data]
table = "toy.npz"
[partition]
kind = "domain"
[augment]
kind = "none"
[train]
method = ["fedavg", "ncm"]
rounds = 6
local_epochs = 1
"""


@pytest.fixture(autouse=True)
def words_again():
    yield
    screen.speak(screen.Voice.WORDS)


@pytest.fixture
def place(tmp_path, monkeypatch):
    from PIL import Image

    rng = np.random.default_rng(0)
    y, domain = np.tile(np.repeat([0, 1], 10), 2), np.repeat([0, 1], 20)
    EmbeddingTable(x=rng.normal(size=(40, 3)) + 3 * y[:, None], y=y, domain=domain).save(tmp_path / "toy.npz")
    (tmp_path / "exp.toml").write_text(EXPERIMENT)
    for name in ("one/ant", "one/bee", "two/ant", "two/bee"):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        for i in range(3):
            pixels = rng.integers(0, 255, (20, 20, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "pictures" / name / f"{i}.png")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GGEUR_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def slow(monkeypatch):
    """Every look at the clock takes a minute."""
    clock = count(0, 60)
    monkeypatch.setattr(following, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))


FIT = ["fit", "pictures/one", "pictures/two", "--out", "m", "--encoder", "builtin", "--method", "ncm"]
JOBS = {
    "run": (["run", "exp.toml", "--out", "run"], r"training: 3 of 7 rounds(, [\d.e-]+ a second)?, \S+ \w+ left; Fed"),
    "embed": (["embed", "pictures", "--out", "p.npz", "--encoder", "builtin", "--batch", "3"], "embedding: 6 of 12 "),
    "fit": (FIT, "embedding one: 6 of 6 "),
}


@pytest.mark.parametrize("job", JOBS)
def test_a_file_gets_a_line_now_and_then(ggeur, place, slow, job):
    words, line = JOBS[job]
    code, out, err = ggeur(*words)
    assert code == 0, err
    assert re.search(line, " ".join(out.split())), out
    assert not re.search("(training|embedding).*━", out), "no bar"


def test_lines_are_not_many(ggeur, place):
    _, out, _ = ggeur(*JOBS["run"][0])
    assert len(re.findall("training: ", out)) == 1 and re.search(r"training: 7 rounds in [\d.]+ s", out)


@pytest.mark.parametrize("job", JOBS)
def test_quiet_is_quiet(ggeur, place, job):
    assert ggeur(*JOBS[job][0], "--quiet") == (0, "", "")
    code, out, err = ggeur("run", "absent.toml", "--quiet")
    assert (code, out) == (2, "") and err.code == "file-missing"
    assert ggeur("cost", "--clients", "10")[1], "for that command alone"


@pytest.mark.parametrize("job", JOBS)
def test_programs_get_an_object_a_line_and_nothing_else(ggeur, place, job):
    code, out, err = ggeur(*JOBS[job][0], "--json-lines")
    events = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and err == "" and events
    followed = [e for e in events if e["event"] == "progress"]
    assert followed[-1]["done"] == followed[-1]["total"] and followed[-1]["left"] in (0.0, None)
    assert events[-1]["event"] == "said" and any(e["text"] for e in events if e["event"] == "said")
    if job == "run":
        assert [e["round"] for e in events if e["event"] == "round"] == [1, 2, 3, 4, 5, 6, 0]
        rows = [e for e in events if e["event"] == "row"]
        assert [row["settings"]["train.method"] for row in rows] == ["fedavg", "ncm"] and rows[0]["avg"] > 50


def test_rounds_of_before_do_not_flatter_the_pace(place, slow, capsys):
    """A trial that goes on at round 4 has computed one round here, not four."""
    screen.speak(screen.Voice.EVENTS)
    with screen.progress(Experiment.load("exp.toml"), place / "run") as on_round:
        on_round({"trial": 0, "round": 4, "avg": 50.0})
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    first = next(one for one in told if one["event"] == "progress")
    assert first["done"] == 4 and first["rate"] == pytest.approx(1 / 60, abs=1e-3)


def test_the_pace_is_that_of_late(monkeypatch):
    """A hundred quick rounds say little of slow ones; and of four trials side by side, rounds come four at a time."""
    clock = [0.0]
    monkeypatch.setattr(following, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    pace = following._Pace("training", "rounds", 200, 0)
    for done in range(1, 101):
        clock[0] += 1
        pace(done)
    assert pace.left == pytest.approx(100)
    for done in range(101, 121):
        clock[0] += 10
        pace(done)
    assert pace.left == pytest.approx(800)
    for done in range(121, 161):
        clock[0] += 60 if done % 4 == 1 else 0
        pace(done)
        if done > 132:
            assert pace.rate == pytest.approx(4 / 60)


def test_no_time_is_estimated_before_a_twentieth_or_ten_seconds_are_done(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(following, "time", SimpleNamespace(monotonic=lambda: now[0]))
    pace = following._Pace("training", "rounds", 1000, 100)  # a hundred were there before
    now[0] = 6.0
    pace(144)
    assert pace.left is None and "left" not in pace.line()
    now[0] = 8.0
    pace(145)
    assert pace.left == pytest.approx(855 / 45 * 8)
    pace = following._Pace("training", "rounds", 1000, 0)
    now[0] += 9.9
    pace(1)
    assert pace.left is None
    now[0] += 1.1
    pace(2)
    assert pace.left == pytest.approx(998 / 2 * 11)


def test_a_fit_says_its_phases(ggeur, place):
    tables = []
    for name in ("north", "south"):
        EmbeddingTable.load("toy.npz").save(place / f"{name}.npz")
        tables.append(place / f"{name}.npz")
    phases = ["start", "read", "summarize", "select", "solve", "calibrate", "write"]
    code, out, _ = ggeur("fit", *tables, "--out", "m", "--json-lines")
    told = [json.loads(line) for line in out.splitlines()]
    heard = [event["phase"] for event in told if event["event"] == "phase"]
    assert code == 0 and list(dict.fromkeys(heard)) == phases
    assert {"event": "phase", "phase": "summarize", "done": 1, "total": 2} in told
    code, out, _ = ggeur("fit", *tables, "--out", "again")
    assert code == 0 and re.findall(r"^ +[0-9.]+ s  ([a-z]+)$", out, re.M) == phases
    code, out, _ = ggeur("fit", *tables, "--out", "third", "--quiet")
    assert (code, out) == (0, "")


def test_a_fit_of_pictures_says_that_it_embeds(ggeur, place, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    rng = np.random.default_rng(0)
    for site, name in product(("north", "south"), ("ant", "bee")):
        (place / site / name).mkdir(parents=True)
        for i in range(3):
            Image.fromarray(rng.integers(0, 255, (12, 12, 3), np.uint8)).save(place / site / name / f"{i}.png")
    words = ("fit", place / "north", place / "south", "--encoder", "builtin", "--method", "ridge", "--out", "m")
    code, out, _ = ggeur(*words, "--json-lines")
    told = [json.loads(line) for line in out.splitlines()]
    heard = [event["phase"] for event in told if event["event"] == "phase"]
    assert code == 0 and list(dict.fromkeys(heard))[:4] == ["start", "read", "embed", "summarize"]
