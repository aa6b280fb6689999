"""Ranks and the sentence that decides, against other ways to compute them."""

import numpy as np
import pytest
from scipy import stats

from ggeur.report.page import _part
from ggeur.report.ranking import Candidate, Ranking, decision, least_difference, ranking
from ggeur.report.run_folder import read_run
from ggeur.runs.result import Cell


def candidate(name, values, size=1000, seconds=1.0, solved=False):
    cells = tuple(Cell("m", "none", i, {}, rounds=[v] * (1 if solved else 50), avg=v) for i, v in enumerate(values))
    return Candidate(name, tuple(values), size, seconds, solved, cells)


def ranked(*rows):
    rows = sorted(rows, key=lambda row: -row.avg)
    return Ranking(rows, least_difference(np.array([row.values for row in rows])), 1)


def test_the_least_difference_is_that_of_a_fit_of_rows_and_seeds():
    """By least squares with a column for every row and every seed, instead of means."""
    values = np.random.default_rng(0).normal(size=(5, 4)) + 3 * np.arange(5)[:, None] + 7 * np.arange(4)
    row, seed = (a.ravel() for a in np.indices(values.shape))
    design = np.hstack([np.eye(5)[row], np.eye(4)[seed]])
    fit = design @ np.linalg.lstsq(design, values.ravel(), rcond=None)[0]
    error = ((values.ravel() - fit) ** 2).sum() / 12
    assert least_difference(values) == pytest.approx(stats.studentized_range.ppf(0.95, 5, 12) * np.sqrt(error / 4))
    assert least_difference(values[:, :1]) is None


def test_intervals_of_ranks_by_hand():
    found = Ranking([candidate("a", [90]), candidate("b", [89.5]), candidate("c", [80]), candidate("d", [79])], 1.0, 1)
    assert [found.interval(i) for i in range(4)] == [(1, 2), (1, 2), (3, 4), (3, 4)]
    assert Ranking(found.rows, None, 1).interval(0) == (1, 4)


def test_the_cheaper_is_used_where_nobody_can_tell():
    best = candidate("FedAvg + GGEUR", [90.0, 92.0, 91.0], 10_000_000)
    near = candidate("limit", [91.5, 90.0, 90.9], 1_000_000, solved=True)
    far = candidate("FedAvg", [70.0, 71.0, 70.5], 1000)
    sentence = decision(ranked(best, near, far))
    assert sentence.startswith(
        "Use limit (90.80 %; one message, 976.6 KiB per client): the most accurate row, FedAvg +"
    )
    assert "0.20 points above it, which 3 seeds cannot tell from chance, and costs 10 times the bytes." in sentence


def test_the_best_is_used_where_it_is_clear_and_one_message_is_named():
    best = candidate("SCAFFOLD", [95.0, 95.1, 95.2], 10_000_000)
    near = candidate("limit", [90.1, 90.2, 90.3], 1000, solved=True)
    sentence = decision(ranked(best, near))
    assert sentence.startswith("Use SCAFFOLD (95.10 %; 50 rounds, 9.5 MiB per client): no row is more accurate")
    assert sentence.endswith("if one message is all that can be sent, limit has 90.20 %.")


def test_a_run_is_ranked_as_its_table_says(table5_run):
    run = read_run(table5_run)
    found = ranking(run.entries, run.reading)
    avg = {line.name: line.numbers[run.table.columns.index("AVG")].mean for line in run.table.lines if not line.why}
    assert {row.name: pytest.approx(row.avg) for row in found.rows} == avg
    section = _part("ranks", "here", found=found)
    assert 'id="here-ranks"' in section
    assert all(name in section for name in avg)


def test_settings_of_a_federation_are_averaged_and_choices_are_not(tree):
    import ggeur
    from ggeur.report.entries import entries

    experiment = ggeur.Experiment.of(
        tree(
            partition={"kind": "label-and-domain", "beta": [0.5, 5.0]},
            augment={"kind": "none"},
            train={"rounds": 1, "rate": [0.01, 0.1], "method": "fedavg"},
        )
    )
    result = ggeur.run(experiment)
    found = ranking(entries(result, experiment, None), None)
    assert found.federations == 2 and {row.name for row in found.rows} == {"rate 0.01", "rate 0.1"}
    of = [c.avg for c in result.cells if c.settings["train.rate"] == 0.1 and c.seed == result.cells[0].seed]
    (row,) = (row for row in found.rows if row.name == "rate 0.1")
    assert row.values[0] == pytest.approx(np.mean(of))
    assert decision(found).startswith("On average over 2 settings, use rate ")
