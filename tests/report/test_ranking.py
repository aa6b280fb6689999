"""Ranks and the sentence that decides, against other ways to compute them."""

import numpy as np
import pytest
from scipy import stats

from ggeur.report.folders import read_run
from ggeur.report.page import _part
from ggeur.report.ranking import RankedMethod, Ranking, least_difference, ranking, recommendation

WITH_3 = "; with 3 seeds its lead over "


def candidate(name, values, size=1000, seconds=1.0, solved=False):
    return RankedMethod(name, tuple(values), size, seconds, solved)


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


def test_a_lead_that_is_not_significant_is_said_beside_it_and_the_cheaper_is_named():
    best = candidate("FedAvg + GGEUR", [90.0, 92.0, 91.0], 10_000_000)
    near = candidate("ggeur-limit", [91.5, 90.0, 90.9], 1_000_000, solved=True)
    far = candidate("FedAvg", [70.0, 71.0, 70.5], 1000)
    assert recommendation(ranked(best, near, far)) == [
        "Highest accuracy: FedAvg + GGEUR, 91.0 %, 9.5 MiB per site; "
        "with 3 seeds its lead over ggeur-limit is not significant.",
        "Cheaper and within 0.5 points of it: ggeur-limit, 90.8 %, 976.6 KiB per site.",
    ]
    assert recommendation(ranked(best, near))[0].endswith("with 3 seeds its lead over ggeur-limit is not significant.")


def test_a_clear_lead_and_the_best_one_shot_classifier():
    best = candidate("SCAFFOLD", [95.0, 95.1, 95.2], 10_000_000)
    near = candidate("ggeur-limit", [90.1, 90.2, 90.3], 1000, solved=True)
    assert recommendation(ranked(best, near)) == [
        "Highest accuracy: SCAFFOLD, 95.1 %, 9.5 MiB per site; with 3 seeds its lead over ggeur-limit is significant.",
        "Highest accuracy of a one-shot classifier: ggeur-limit, 90.2 %, 1000 B per site.",
    ]


@pytest.mark.parametrize(
    ("others", "says"),
    [
        ({}, ""),
        ({"b": [70.0], "c": [60.0]}, "; one seed cannot show whether its lead over the other 2 methods is significant"),
        ({"b": [89.0, 92.0, 91.0], "c": [91.0, 92.0, 88.0]}, WITH_3 + "the other 2 methods is not significant"),
        ({"b": [70.0, 71.0, 72.0], "c": [60.0, 61.0, 62.0]}, WITH_3 + "the other 2 methods is significant"),
        (
            {"b": [90.0, 91.9, 91.0], "c": [89.9, 91.9, 91.0], "d": [90.0, 91.8, 91.0], "e": [9.0, 11.0, 10.0]},
            WITH_3 + "3 of the other 4 methods is not significant",
        ),
    ],
)
def test_the_caveat_counts_what_seeds_cannot_tell_apart(others, says):
    n = len(others.get("b", "abc"))
    best = candidate("a", [90.0, 92.0, 91.0][:n])
    first = recommendation(ranked(best, *(candidate(name, values) for name, values in others.items())))[0]
    assert first == f"Highest accuracy: a, {best.avg:.1f} %, 1000 B per site{says}."


def test_methods_with_the_same_figures_lead_together():
    """As `auto` and what it selected: no lead of 0.0 of one over the other."""
    same = [80.0, 81.0, 82.0]
    rows = (candidate("lda", same, solved=True), candidate("auto", same, 5000), candidate("ncm", [70.0, 71.0, 72.0]))
    assert recommendation(ranked(*rows)) == [
        "Highest accuracy: lda (and auto, with the same figures), 81.0 %, 1000 B per site; "
        "with 3 seeds its lead over ncm is significant."
    ]


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
            train={"rounds": 1, "learning_rate": [0.01, 0.1], "method": "fedavg"},
        )
    )
    result = ggeur.run(experiment)
    found = ranking(entries(result, experiment, None), None)
    assert found.federations == 2 and {row.name for row in found.rows} == {"learning_rate 0.01", "learning_rate 0.1"}
    of = [c.avg for c in result.trials if c.settings["train.learning_rate"] == 0.1 and c.seed == result.trials[0].seed]
    (row,) = (row for row in found.rows if row.name == "learning_rate 0.1")
    assert row.values[0] == pytest.approx(np.mean(of))
    assert recommendation(found)[0].startswith("Highest accuracy on average over 2 settings: learning_rate ")
