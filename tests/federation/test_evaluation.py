"""Accuracy by domain, recall and F1 against scikit-learn, and the figures read off the rounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, recall_score

from ggeur.federation import evaluation as evaluate
from ggeur.heads import resolve as resolve_head
from ggeur.stats.errors import GgeurError

HEAD = resolve_head("linear")


@pytest.fixture(scope="module")
def scored(build_table):
    """A table whose last class has no test samples, a head, and what the head says of the test samples, by hand."""
    rng = np.random.default_rng(0)
    table = build_table()
    test = rng.random(len(table)) < 0.5
    test[table.y == 3] = False
    table = build_table(test=test)
    params = {"W": rng.normal(size=(4, 5)).astype(np.float32), "b": rng.normal(size=4).astype(np.float32)}
    said = (table.x[test].astype(np.float64) @ params["W"].T + params["b"]).argmax(axis=1)
    return table, params, table.y[test], said, table.domains[test]


def test_accuracy_is_the_percentage_right_in_each_domain(scored):
    table, params, true, said, domain = scored
    found = evaluate.TestSet(table, HEAD).accuracy(params)
    assert list(found) == ["art", "photo", "sketch"]
    for d, name in enumerate(found):
        assert found[name] == pytest.approx(100 * accuracy_score(true[domain == d], said[domain == d]))


def test_recall_and_macro_f1_are_scikit_learns(scored):
    table, params, true, said, _ = scored
    assert 3 in said, "the test is too weak: a class without test samples shall be named"
    recall, f1 = evaluate.TestSet(table, HEAD).by_class(params)
    expected = recall_score(true, said, labels=[0, 1, 2], average=None)
    np.testing.assert_allclose(recall[:3], 100 * expected)
    assert recall[3] is None
    assert f1 == pytest.approx(100 * f1_score(true, said, average="macro"))


def test_a_class_that_neither_occurs_nor_is_named_is_left_out_of_f1(scored):
    table, params, true, _, _ = scored
    silent = {"W": params["W"], "b": params["b"] - np.array([0, 0, 0, 1e6], np.float32)}
    said = (table.x[table.test] @ silent["W"].T + silent["b"]).argmax(axis=1)
    _, f1 = evaluate.TestSet(table, HEAD).by_class(silent)
    assert f1 == pytest.approx(100 * f1_score(true, said, labels=[0, 1, 2], average="macro"))


def test_a_domain_without_test_rows_is_not_scored(build_table, scored):
    _, params, *_ = scored
    table = build_table()
    table = build_table(test=table.domains != 1)
    assert list(evaluate.TestSet(table, HEAD).accuracy(params)) == ["art", "sketch"]


@pytest.mark.parametrize("test", [None, np.zeros(120, bool)])
def test_a_table_without_test_rows_is_an_error(build_table, test):
    with pytest.raises(GgeurError, match="no test samples"):
        evaluate.TestSet(build_table(test=test), HEAD)


# ---------------------------------------------------------------- read off the rounds


def test_domains_are_means_of_the_last_five_rounds_and_std_is_the_populations():
    rounds = [{"a": float(i), "b": 100.0 - i} for i in range(1, 9)]  # the last five: 4..8 and 96..92
    found = evaluate.summarise_scores(rounds)
    assert found.domains == pytest.approx({"a": 6.0, "b": 94.0})
    assert found.avg == pytest.approx(50.0)
    assert found.std == pytest.approx(44.0)  # of two values half their distance; the sample's would be 62.2


def test_fewer_rounds_than_five_are_all_averaged():
    assert evaluate.summarise_scores([{"a": 10.0}, {"a": 20.0}]).avg == pytest.approx(15.0)


def test_one_domain_has_no_std():
    assert evaluate.summarise_scores([{"all": 50.0}]).std is None


def test_rounds_to_95_is_the_first_round_at_95_percent_of_the_final_avg():
    rounds = [{"a": v} for v in (50.0, 94.9, 95.0, 80.0, 100.0, 100.0, 100.0, 100.0, 100.0)]
    assert evaluate.summarise_scores(rounds).rounds_to_95 == 3


@given(st.lists(st.lists(st.floats(0, 100), min_size=3, max_size=3), min_size=1, max_size=12))
def test_any_rounds_summarise_as_numpy_does(values):
    found = evaluate.summarise_scores([dict(zip("abc", sample, strict=True)) for sample in values])
    last = np.mean(values[-5:], axis=0)
    assert [found.domains[name] for name in "abc"] == pytest.approx(last)
    assert (found.avg, found.std) == (
        pytest.approx(last.mean()),
        pytest.approx(np.sqrt(((last - last.mean()) ** 2).mean())),
    )
    assert found.rounds_to_95 is None or 1 <= found.rounds_to_95 <= len(values)


def test_the_deviation_over_redrawn_test_rows_is_the_bootstraps():
    rng = np.random.default_rng(0)
    right = {"a": rng.random(400) < 0.9, "b": rng.random(60) < 0.6}
    domains = {name: 100 * float(r.mean()) for name, r in right.items()}
    draws = [np.mean([100 * rng.choice(r, len(r)).mean() for r in right.values()]) for _ in range(4000)]
    found = evaluate.test_deviation(domains, {name: len(r) for name, r in right.items()})
    assert found == pytest.approx(np.std(draws), rel=0.05)
