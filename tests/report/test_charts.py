"""The chart of what choosing expected: its points are the cells' own numbers."""

import numpy as np

from ggeur.report.choice_chart import choices
from ggeur.report.entries import Entry
from ggeur.runs.result import Cell, Row


def entry(condition, *cells):
    row = Row({}, list(cells), {}, None, None, None)
    return Entry("auto", "auto", "no augmentation", condition, row, None)


def cell(seed, expected, avg, status="ok"):
    return Cell("auto", "none", seed, {}, status=status, avg=avg, taken="lda", expected=expected)


def test_every_cell_that_chose_is_a_point_and_what_did_not_is_none():
    a = entry("a", cell(0, {"lda": 60.0, "limit": 59.0}, 66.0), cell(1, {"lda": 61.0}, 65.0), cell(2, {}, 70.0))
    b = entry("b", cell(0, {"lda": 90.0}, 88.0))
    ax = choices([a, b, entry("c", cell(0, {}, 50.0))]).axes[0]
    first, second, line = ax.lines
    np.testing.assert_array_equal(first.get_xydata(), [[60, 66], [61, 65]])
    np.testing.assert_array_equal(second.get_xydata(), [[90, 88]])
    np.testing.assert_array_equal(line.get_xdata(), line.get_ydata())
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]


def test_a_run_that_chose_nothing_has_no_such_chart():
    assert choices([entry("c", cell(0, {}, 50.0)), entry("d", cell(0, {"lda": 60.0}, None, "unavailable"))]) is None
