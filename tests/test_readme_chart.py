"""The chart of the README shows the figures of its page, and no others."""

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = """
<!-- table: trained -->
| federation | FedAvg | GGEUR | central (a bound) |
|---|---|---|---|
| a | 50.25 ± 1.50 | 60.00 ± 0.50 | 61.00 ± 0.10 |
| b | 70.00 | 71.00 | 72.00 |
<!-- end -->
<!-- table: solved -->
| federation | lda | auto |
|---|---|---|
| a | 1.00 | 62.00 ± 2.00 |
| b | 2.00 | 73.00 |
<!-- end -->
"""


@pytest.fixture
def chart(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("readme_chart")


def test_every_marker_stands_at_its_figure(chart):
    (ax,) = chart.draw(PAGE).axes
    markers = [line.get_xdata().tolist() for line in (drawn[0] for drawn in ax.containers)]
    assert markers == [[50.25, 70.0], [60.0, 71.0], [61.0, 72.0], [62.0, 73.0]]
    bars = [segment[:, 0].tolist() for segment in ax.containers[3][2][0].get_segments()]
    assert bars == [[60.0, 64.0], [73.0, 73.0]]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]


def test_the_page_has_the_tables_that_the_chart_needs(chart):
    tables = {name: chart.table(chart.PAGE.read_text(encoding="utf-8"), name) for name in ("trained", "solved")}
    assert list(tables["trained"]) == list(tables["solved"]) and len(tables["solved"]) == 14
    with pytest.raises(SystemExit):
        chart.table(PAGE, "another")
