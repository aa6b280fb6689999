"""`ggeur demo`: what it prints is what its run found, on one screen, and says which differences are noise."""

import json
import re
import sys

import pytest
from scipy import stats

from ggeur.cli import demo
from ggeur.experiments.grid import Experiment
from ggeur.experiments.result import Result, Trial


@pytest.fixture
def quick(monkeypatch):
    """The demo's own experiment with hardly any steps."""
    made = demo.experiment

    def small(*args, **options):
        tree = made(*args, **options).tree
        augment = tree["augment"] | {"target": 3, "per_prototype": 1}
        few = {"auto": {"candidates": ["lda", "ridge"]}}
        arms = [arm | {"method": few} if "method" in arm else arm for arm in tree["arm"]]
        return Experiment.of(tree | {"augment": augment, "train": tree["train"] | {"local_steps": 2}, "arm": arms})

    monkeypatch.setattr(demo, "experiment", small)


def test_it_prints_what_its_run_found_on_one_screen_and_writes_a_report(ggeur, quick, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin")
    code, out, err = ggeur("demo", "--rounds", "1", "--seeds", "2", "--out", "RUN")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    typed = f"  source {sys.prefix}/bin/activate"  # a path may be long, and is not broken
    assert len(lines) <= 25 and max(map(len, lines)) <= max(80, len(typed)), out
    rows = Result.load(tmp_path / "RUN").rows()
    assert [row.settings["arm"] for row in rows] == list(demo.ARMS)
    assert [row.trials[0].augment for row in rows] == ["none", "prototypes", "ggeur", "none"]
    for row in rows:
        (line,) = (line for line in lines if re.match(rf"{re.escape(row.settings['arm'])} +\d", line))
        worst = min(row.domains, key=row.domains.get)
        assert f"{row.avg:.1f} ± {row.spread:.1f}" in line and line.endswith(f"{row.domains[worst]:.1f} {worst}")
        assert abs(line.count("█") - 28 * row.avg / 100) < 1
    assert f"source {sys.prefix}/bin/activate" in out and "RUN/report.html" in out and "ggeur fit" in out
    assert "stand-in" in out, "it says that it is no benchmark"
    assert "<svg" in (tmp_path / "RUN" / "report.html").read_text(encoding="utf-8")


def results(*scores):
    """Rows of the four arms with these accuracies by seed."""
    trials = [
        Trial("fedavg", "none", seed, {"arm": name}, avg=float(avg), status="ok", taken="ggeur-limit")
        for name, by_seed in zip(demo.ARMS, scores, strict=True)
        for seed, avg in enumerate(by_seed)
    ]
    return {row.settings["arm"]: row for row in Result(trials).rows()}


def test_it_says_which_steps_are_within_the_noise_of_its_seeds():
    """Differences of 10 +- 0, 1.2 +- 3 and 5 +- 0.1: with t = 7.65 the second interval alone has zero in it."""
    rows = results((40, 41, 42), (50, 51, 52), (51.5, 49, 56), (56.5, 54.1, 60.9))
    assert stats.t.ppf(1 - 0.025 / 3, 2) == pytest.approx(7.65, abs=0.01)
    text = demo.explain(rows)
    assert "GGEUR over class means (+1.2)" in text
    assert "class means over FedAvg" not in text and "one-shot over GGEUR" not in text
    assert "With one seed" in demo.explain(results((40,), (50,), (60,), (70,)))
    assert "clear of the noise" in demo.explain(results((40, 41), (50, 51), (60, 61), (70, 71)))


def test_all_arms_stay_available():
    arms = demo.experiment(1, 1, everything=True).varied
    assert [arm["arm"] for arm in arms if arm["arm"] in demo.ARMS] == list(demo.ARMS) and len(arms) == 9
    assert len(demo.experiment(1, 1).points) == 4


@pytest.mark.slow
def test_all_arms_run(ggeur, quick, tmp_path):
    code, _, err = ggeur("demo", "--all", "--rounds", "1", "--seeds", "1", "--out", tmp_path / "RUN")
    assert (code, err) == (0, "")
    trials = json.loads((tmp_path / "RUN" / "result.json").read_text())["trials"]
    assert len(trials) == 9 and all(trial["status"] == "ok" for trial in trials)
