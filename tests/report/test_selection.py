"""What `auto` selected, as the page shows it: the cells' own numbers, one line for each seed."""

from ggeur.report.entries import Entry
from ggeur.report.page import _messages, _part
from ggeur.report.selection import selected
from ggeur.runs.result import Cell, Row


def entry(name, condition, *cells):
    return Entry(name, "auto", "no augmentation", condition, Row({}, list(cells), {}, None, None, None), None)


def cell(seed, expected, avg, taken="lda"):
    return Cell("auto", "none", seed, {}, avg=avg, taken=taken if expected else "", expected=expected)


def test_every_seed_that_selected_is_a_line_and_what_did_not_is_none():
    a = entry(
        "auto",
        "beta 1",
        cell(0, {"lda": 60.0, "ncm": 50.0, "a": 40.0, "b": 30.0, "limit": 59.0}, 66.0),
        cell(1, {"lda": 61.0}, None),
    )
    found = selected([a, entry("fedavg", "", cell(0, {}, 50.0))])
    assert found == [
        ("auto, beta 1", 0, "lda", 60.0, 66.0, {"limit": 59.0, "ncm": 50.0, "a": 40.0}),
        ("auto, beta 1", 1, "lda", 61.0, None, {}),
    ]
    assert list(found[0].others) == ["limit", "ncm", "a"]


def test_the_table_shows_the_selected_beside_the_others():
    text = _part(
        "selected",
        "run0",
        selected=selected([entry("auto", "", cell(3, {"ridge": 80.26, "<b>": 79.0}, 81.0, "ridge"))]),
    )
    words = " ".join(text.split())
    assert 'id="run0-selected"' in words and "&lt;b&gt; 79.0" in words
    assert '<td>3</td><td class="text">ridge</td> <td>80.3</td><td data-value="81.0">81.0</td>' in words


def test_what_the_table_says_is_not_said_again_beside_the_summary():
    chose = cell(0, {"lda": 60.0}, 66.0)
    chose.message = "Selected lda."
    other = cell(1, {}, 65.0)
    other.message = "It grew."
    assert _messages([entry("auto, beta 1", "beta 1", chose, other)]) == ["auto, beta 1, seed 1: It grew."]
