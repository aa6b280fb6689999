"""The bar: what counts as done when a run goes on, and heads that are solved in one step."""

import pytest

from ggeur import Experiment
from ggeur.cli import show

TREE = {
    "data": {"dataset": "mini-digits"},
    "train": {"rounds": 20, "method": ["lda", "fedavg"]},
    "run": {"seeds": [0, 1]},
}


@pytest.fixture
def bar(monkeypatch):
    """What the bar was told: (completed, total) after each call."""
    told = []

    class Bar(show.Progress):
        def add_task(self, *arguments, **values):
            told.append((values["completed"], values["total"]))
            return super().add_task(*arguments, **values)

        def update(self, task, **values):
            told.append((values["completed"], told[0][1]))

    monkeypatch.setattr(show, "Progress", Bar)
    return told


def event(cell, number):
    return {"cell": cell, "round": number, "avg": 50.0}


def test_a_solved_head_is_one_step_and_a_trained_one_its_rounds(tmp_path, bar):
    with show.progress(Experiment.of(TREE), tmp_path) as on_round:
        for cell in (0, 1):
            on_round(event(cell, 0))
        for cell in (2, 3):
            on_round(event(cell, 7))
    assert bar == [(0, 42), (1, 42), (2, 42), (9, 42), (16, 42), (42, 42)]


def test_cells_that_were_finished_before_count_as_done(tmp_path, bar):
    (tmp_path / "checkpoint").mkdir()
    for name in ("cell-00000", "cell-00002", "state-0"):
        (tmp_path / "checkpoint" / name).write_bytes(b"")
    with show.progress(Experiment.of(TREE), tmp_path) as on_round:
        on_round(event(3, 5))
    assert bar == [(21, 42), (26, 42), (42, 42)]
