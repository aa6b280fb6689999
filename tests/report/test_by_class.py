"""What the report says by class and before all else: against hand-worked scores, scikit-learn and a real run."""

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, f1_score

import ggeur
from ggeur.report.by_class import class_scores, confused
from ggeur.report.evidence import reported_data
from ggeur.report.folders import read_run
from ggeur.report.overview import embedding_bytes, overview
from ggeur.report.tables import average_first, labels


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A real run of two one-shot classifiers on four sites."""
    folder = tmp_path_factory.mktemp("byclass") / "run"
    tree = {
        "data": {"dataset": "mini-digits"},
        "partition": {"kind": "label-and-domain", "beta": 0.5},
        "augment": {"kind": "none"},
        "train": {"method": ["ncm", "lda"]},
        "run": {"seeds": [0, 1]},
    }
    ggeur.run(ggeur.Experiment.of(tree), out=folder)
    return read_run(folder)


def test_the_confusion_matrix_is_scikit_learns_of_the_most_accurate_head(run):
    data = reported_data(run.entries, 0)
    best = max(range(2), key=lambda i: run.entries[i].avg)
    drawn = confused(run, data)
    share = np.ma.filled(drawn.figure.axes[0].images[0].get_array(), 0.0)
    table = data[0].table
    test = table.subset(np.flatnonzero(table.test))
    predicted = ggeur.Model.load(run.folder, trial=2 * best).probabilities(test).argmax(axis=1)
    expected = 100 * confusion_matrix(test.y, predicted, normalize="true")
    np.testing.assert_allclose(share, np.where(expected >= 0.05, expected, 0.0), atol=1e-9)
    wrong = confusion_matrix(test.y, predicted) - np.diag(np.diag(confusion_matrix(test.y, predicted)))
    assert run.entries[best].name in drawn.caption and f"({wrong.max()} times)" in drawn.caption

    scores = class_scores(run.entries, table.class_names)[best]
    trial = run.entries[best].row.trials[0]
    assert trial.macro_f1 == pytest.approx(100 * f1_score(test.y, predicted, average="macro"))
    both = np.mean([t.recall for t in run.entries[best].row.trials], axis=0)
    np.testing.assert_allclose(scores.recall, both)
    assert scores.lowest == f"{table.class_names[both.argmin()]}, {both.min():.1f}"


def test_a_page_opens_with_what_was_compared(run):
    data = reported_data(run.entries, 0)
    facts = dict(overview(run, data))
    about, table = facts["Data: mini-digits"], data[0].table
    test = int(table.test.sum())
    assert f"{len(table.y) - test:,} training and {test:,} test samples; 10 classes; 4 sites" in about
    assert facts["Methods"] == "ncm, lda" and facts["Seeds"] == "2" and "Rounds" not in facts


def test_the_size_of_embeddings_is_that_of_the_training_samples_over_the_sites(build_run):
    run = read_run(build_run({"partition": {"kind": "domain"}, "run": {"seeds": [0]}}))
    data = reported_data(run.entries, 0)
    table = data[0].table
    per_site = (len(table.y) - int(table.test.sum())) / len(table.domain_names)
    assert embedding_bytes(data, 0) == pytest.approx(per_site * 4 * table.dimension)


def test_avg_stands_first_on_a_page_and_every_figure_keeps_its_column(run):
    before, after = run.table, average_first(run.table)
    assert after.columns[0] == "AVG" and sorted(after.columns) == sorted(before.columns)
    for old, new in zip(before.lines, after.lines, strict=True):
        assert dict(zip(before.columns, old.numbers, strict=True)) == dict(zip(after.columns, new.numbers, strict=True))


def test_an_arm_is_named_only_where_it_tells_rows_apart(build_run):
    arms = [
        {"name": "trained", "augment": {"kind": ["none", "ggeur"]}},
        {"name": "one-shot", "augment": {"kind": "none"}, "train": {"method": "lda"}},
    ]
    tree = {"partition": {"kind": "domain"}, "run": {"seeds": [0]}}
    rows = read_run(build_run({**tree, "arm": arms})).result.rows()
    assert labels(rows) == ["FedAvg", "FedAvg + GGEUR", "one-shot"]
    twice = [arms[0], {"name": "slow", "augment": {"kind": ["none", "ggeur"]}, "train": {"learning_rate": 0.01}}]
    rows = read_run(build_run({**tree, "arm": twice}, name="twice")).result.rows()
    assert labels(rows) == ["trained: FedAvg", "trained: FedAvg + GGEUR", "slow: FedAvg", "slow: FedAvg + GGEUR"]
