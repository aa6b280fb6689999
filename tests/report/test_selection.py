"""What `auto` selected, as the page shows it: the trials' own numbers, one line for each seed."""

from ggeur.experiments.result import Row, Trial
from ggeur.report.entries import ReportEntry
from ggeur.report.page import _messages, _part
from ggeur.report.sections import selected


def entry(name, condition, *trials):
    return ReportEntry(name, "auto", "no augmentation", condition, Row({}, list(trials), {}, None, None, None), None)


def trial(seed, expected, avg, taken="lda"):
    return Trial("auto", "none", seed, {}, avg=avg, taken=taken if expected else "", expected=expected)


def test_every_seed_that_selected_is_a_line_and_what_did_not_is_none():
    a = entry(
        "auto",
        "beta 1",
        trial(0, {"lda": 0.0, "ncm": -10.0, "a": -20.0, "b": -30.0, "ggeur-limit": -1.0}, 66.0),
        trial(1, {"lda": 0.0}, None),
    )
    found = selected([a, entry("fedavg", "", trial(0, {}, 50.0))])
    assert found == [
        ("auto, beta 1", 0, "lda", 66.0, ("ggeur-limit", "ncm", "a")),
        ("auto, beta 1", 1, "lda", None, ()),
    ]


def test_the_table_shows_the_selected_beside_the_others():
    text = _part(
        "selected",
        "run0",
        selected=selected([entry("auto", "", trial(3, {"ridge": 80.26, "c": 78.0, "<b>": 79.0}, 81.0, "ridge"))]),
    )
    words = " ".join(text.split())
    assert 'id="run0-selected"' in words and "&lt;b&gt;, c<" in words  # in order, also of percent that 0.2 wrote
    assert '<td>3</td><td class="text">ridge</td> <td data-value="81.0">81.0</td>' in words


def test_what_the_table_says_is_not_said_again_beside_the_summary():
    chose = trial(0, {"lda": 0.0}, 66.0)
    chose.message = "Selected lda."
    other = trial(1, {}, 65.0)
    other.message = "It grew."
    assert _messages([entry("auto, beta 1", "beta 1", chose, other)]) == ["auto, beta 1, seed 1: It grew."]
