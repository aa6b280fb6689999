"""The terminal: notes; the bar, and what counts as done when a run goes on; the table on narrow screens."""

import io
import warnings
from itertools import count
from types import SimpleNamespace

import pytest
from rich import progress
from rich.console import Console

from ggeur import Experiment
from ggeur.cli import following, screen
from ggeur.experiments.result import Result, Trial
from ggeur.stats.errors import GgeurWarning

TREE = {
    "data": {"dataset": "mini-digits"},
    "train": {"rounds": 20, "method": ["lda", "fedavg"]},
    "run": {"seeds": [0, 1]},
}


@pytest.fixture
def terminal(monkeypatch):
    """The console is a terminal's, in every module that has it."""
    console = Console(force_terminal=True, color_system=None, width=100, emoji=False)
    for module in (screen, following):
        monkeypatch.setattr(module, "console", console)


@pytest.fixture
def bar(monkeypatch, terminal):
    """What the bar was told: (completed, total) after each call."""
    told = []

    class Bar(progress.Progress):
        def add_task(self, *arguments, **values):
            told.append((values["completed"], values["total"]))
            return super().add_task(*arguments, **values)

        def update(self, task, **values):
            told.append((values["completed"], told[0][1]))

    monkeypatch.setattr(progress, "Progress", Bar)
    return told


def event(trial, number):
    return {"trial": trial, "round": number, "avg": 50.0}


def test_a_solved_head_is_one_step_and_a_trained_one_its_rounds(tmp_path, bar):
    with screen.progress(Experiment.of(TREE), tmp_path) as on_round:
        for trial in (0, 1):
            on_round(event(trial, 0))
        for trial in (2, 3):
            on_round(event(trial, 7))
    assert bar == [(0, 42), (1, 42), (2, 42), (9, 42), (16, 42), (42, 42)]


def test_trials_that_were_finished_before_count_as_done(tmp_path, bar):
    (tmp_path / "checkpoint").mkdir()
    for name in ("trial-00000", "trial-00002", "state-0"):
        (tmp_path / "checkpoint" / name).write_bytes(b"")
    with screen.progress(Experiment.of(TREE), tmp_path) as on_round:
        on_round(event(3, 5))
    assert bar == [(21, 42), (26, 42), (42, 42)]


def test_a_warning_of_ours_is_a_note_once_and_those_of_libraries_are_not_shown(tmp_path, bar, capsys):
    for block in (screen.notes(), screen.progress(Experiment.of(TREE), tmp_path)):
        with block:
            for _ in range(2):
                warnings.warn("beware of [these] :b:", GgeurWarning, stacklevel=1)
                warnings.warn("a library's own", UserWarning, stacklevel=1)
        out, err = capsys.readouterr()
        assert out.count("note: beware of [these] :b:") == 1 and "library" not in out + err


@pytest.mark.parametrize("width", [80, 100, 120])
def test_the_table_fits_on_the_screen_with_its_last_column(monkeypatch, width):
    domains = {"handwritten": 74.09, "typeset": 69.4, "clutter": 62.36, "texture": 54.85}
    trials = [
        Trial("fedavg", "ggeur", seed, {"arm": arm}, rounds=[65.0], domains=domains, avg=65.17 + seed, std=7.28)
        for arm in ("FedAvg", "+ GGEUR steps 1 and 2")
        for seed in (0, 1, 2)
    ]
    console = Console(width=width, file=io.StringIO())
    monkeypatch.setattr(screen, "console", console)
    console.print(screen.result_table(Result(trials), "mini-digits"))
    lines = [line.rstrip() for line in console.file.getvalue().splitlines() if line[:1] in "│┃┏└"]
    assert len(lines) >= 5 and all(line[-1] in "│┃┓┘" for line in lines)
    assert "STD" in lines[1] and any(line.endswith("7.28 │") for line in lines)
    assert any("+ GGEUR step" in line for line in lines), "a row's name is not cut to nothing"


def test_the_bar_of_heads_appears_only_where_they_take_long(capsys, monkeypatch, terminal):
    for step, shown in ((0.01, False), (2.0, True)):
        clock = count(0, step)
        monkeypatch.setattr(following, "time", SimpleNamespace(monotonic=lambda clock=clock: next(clock)))
        with screen.progress_of_heads("contributions") as on_head:
            for i in range(3):
                on_head(i + 1, 3)
        assert ("contributions" in capsys.readouterr().out) == shown
