"""Results as tables: means, intervals, the paper's figures, LaTeX."""

import numpy as np
import pytest
from scipy import stats

from ggeur.experiments.result import Result
from ggeur.paper.reproduction import Reproduction
from ggeur.report.tables import Number, compare, label, to_latex


def test_a_number_over_seeds():
    n = Number((41.0, 42.0, 44.0), published=42.0)
    assert n.mean == pytest.approx(127 / 3) and n.spread == pytest.approx(np.std([1, 2, 4], ddof=1))
    low, high = stats.t.interval(0.95, 2, loc=127 / 3, scale=stats.sem([1, 2, 4]))
    assert n.interval == pytest.approx((low, high))
    assert n.difference == pytest.approx(1 / 3)


def test_the_interval_of_a_percentage_ends_at_0_and_100_and_that_of_seconds_only_at_0():
    assert Number((97.0, 99.0, 99.9)).interval[1] == 100.0 and Number((0.1, 0.2, 4.0)).interval[0] == 0.0
    assert Number((97.0, 99.0, 120.0), most=np.inf).interval[1] > 120


def test_one_seed_has_no_spread_and_none_no_mean():
    assert Number((5.0,)).spread is None and Number((5.0,)).interval is None
    assert Number(()).mean is None and Number((), 3.0).difference is None


def test_label_puts_the_arm_first():
    assert label({"partition.beta": 0.1, "arm": "GGEUR"}) == "GGEUR: beta 0.1"


def load(folder):
    return compare(Result.load(folder), Reproduction.load(folder))


def test_a_table_of_the_paper_has_all_its_rows_beside_the_printed_ones(table5_run):
    table = load(table5_run)
    assert table.columns == ("Am", "Ca", "D", "W", "AVG", "STD")
    by_name = {line.name: line for line in table.lines}
    assert next(iter(by_name)) == "FedAvg (images)"  # in the paper's order
    absent = by_name["FedAvg (images)"]
    assert "only when named" in absent.why and [n.published for n in absent.numbers][4] == 75.62
    plain = by_name["FedAvg"]
    assert plain.published and not plain.control and plain.why == ""
    avg = plain.numbers[4]
    assert avg.mean == pytest.approx(80.1) and avg.published == 98.75 and avg.difference == pytest.approx(80.1 - 98.75)
    assert not by_name["FedAvg + GGEUR"].published  # the paper has none in this table
    assert by_name["FedAvg, resampled"].control


def test_a_row_says_why_it_did_not_run_where_others_did(paper_run):
    table = load(paper_run("table1", ["Zero-Shot CLIP", "FedTPG", "FedAvg"], without=["CIFAR-100"]))
    zero_shot, fedtpg, plain = table.lines
    assert "text embeddings of the class names" in zero_shot.why and "CIFAR-100" not in zero_shot.why
    assert fedtpg.why.startswith("A text tower is needed") and plain.why == ""


def test_std_is_computed_as_the_papers_table_does(table5_run):
    std = load(table5_run).lines[1].numbers[5]
    assert std.mean == pytest.approx(np.std([-1, 1, 0, 0], ddof=1))  # Table 5 has the sample deviation


def test_best_is_largest_but_for_std(table5_run):
    table = load(table5_run)
    means = [line.numbers[4].mean for line in table.lines if line.numbers[4].mean is not None]
    assert table.best(4) == max(means)
    assert table.best(5) == min(line.numbers[5].mean for line in table.lines if line.numbers[5].mean is not None)


def test_trials_that_failed_are_counted_out_and_said(build_run):
    folder = build_run(
        {"augment": {"kind": ["none", "ggeur"]}, "run": {"seeds": [0, 1, 2]}},
        lambda i, point, seed: None if i == 1 and seed == 0 else 50.0 + seed,
    )
    first, second = compare(Result.load(folder), None).lines
    assert first.numbers[-2].values == (50.0, 51.0, 52.0) and first.numbers[-2].remark == ""
    assert second.numbers[-2].values == (51.0, 52.0) and "1 of 3 seeds diverged" in second.numbers[-2].remark


def test_seconds_per_round_where_that_is_what_is_measured(table5_run):
    reading = Reproduction.load(table5_run)
    reading.measure = "seconds"
    table = compare(Result.load(table5_run), reading)
    assert table.unit == "seconds" and table.lines[1].numbers[4].values == (2.0,)  # seeds side by side have one clock


def test_what_stands_in_for_a_domain_is_not_subtracted(table5_run):
    reading = Reproduction.load(table5_run)
    reading.columns = [c._replace(replaced=c.label == "W") for c in reading.columns]
    table = compare(Result.load(table5_run), reading)
    assert table.headings[3] == "webcam (paper: W)"
    shown = [n.difference is not None for n in table.lines[1].numbers]
    assert shown == [True, True, True, False, False, False]
    assert all(n.published is not None for n in table.lines[1].numbers)


def test_latex_is_escaped_and_marks_the_best(table5_run, own_run):
    text = to_latex(load(table5_run))
    assert text.count("\\textbf") >= 6 and "(98.75)" in text and "$\\pm$" in text
    assert text.count("\\\\\n") == len(load(table5_run).lines) + 1
    other = to_latex(compare(Result.load(own_run), None))
    assert "with \\& without" in other
