"""Protocol `tuned`: the same budget for all, the paper's numbers among what is tried, and no test row looked at."""

import dataclasses

import numpy as np
import pytest

import ggeur
from ggeur.data.table import EmbeddingTable
from ggeur.experiments.result import Result, Trial
from ggeur.paper.paper_tables import PartEmbeddings, Table, select_rows
from ggeur.paper.reproduce import prepare_table
from ggeur.paper.reproduction import Reproduction
from ggeur.paper.tuning import AS_SOUND, Choosing, choose_hyperparameters, prepare_choice, prepare_tuned, with_numbers
from ggeur.stats.storage import packaged_toml

TABLE = Table.load("standin7")


@pytest.fixture
def sources(tmp_path):
    """Small embeddings of both parts: classes far apart in a few dimensions, and a test mask."""
    rng, found = np.random.default_rng(0), {}
    for part in TABLE.parts:
        y, domain = (a.ravel() for a in np.mgrid[:10, :4].repeat(30, axis=2))
        x = (rng.normal(size=(10, 6))[y] * 3 + rng.normal(size=(len(y), 6))).astype(np.float32)
        test = np.arange(len(y)) % 3 == 0
        names = tuple(part.domains.values())
        table = EmbeddingTable(x=x, y=y, domain=domain, domain_names=names, test=test, meta={"share": 0.1})
        table.save(tmp_path / f"{part.dataset}.npz")
        found[part.name] = PartEmbeddings(tmp_path / f"{part.dataset}.npz", table)
    return found


def test_every_method_tries_the_papers_numbers_first_and_at_most_five():
    for method, options in packaged_toml("paper", "tuned.toml").items():
        assert options[0] == {} and len(options) == 5, method
        assert len({tuple(sorted(o.items())) for o in options}) == 5
        assert all(len(o) <= 2 for o in options)


def test_all_rows_are_tried_alike_on_one_column(sources):
    choosing = prepare_choice(TABLE, sources, None)
    assert choosing.experiment.seeds == (0,)
    for point in choosing.experiment.points:
        assert point.partition.validation and point.partition.beta == 0.5
        assert (point.train.rounds, point.run.protocol, point.augment.scale) == (20, "tuned", "sqrt-eigenvalue")
    tried = {(choosing.arms[name].part, choosing.arms[name].row): len(own) for name, own in choosing.candidates.items()}
    assert set(tried.values()) == {5}
    assert {row for _, row in tried} == {row.name for row in TABLE.rows if row.method != "auto"}  # chooses for itself


def test_numbers_go_where_they_belong():
    tree = {"name": "a", "train": {"method": "scaffold", "learning_rate": 0.001}, "augment": {"kind": "none"}}
    assert with_numbers(tree, {}) == tree
    changed = with_numbers(tree, {"learning_rate": 30, "server_learning_rate": 1.0})
    assert changed["train"] == {"method": "scaffold", "learning_rate": 0.03}
    assert changed["method"] == {"scaffold": {"server_learning_rate": 1.0}}
    assert tree["train"]["learning_rate"] == 0.001


def scores(choosing: Choosing, of) -> Result:
    """A result in which each candidate has what `of(i)` says of its place in every trial, beside what all have
    there.
    """
    rng, trials = np.random.default_rng(1), []
    places = {arm: i for own in choosing.candidates.values() for i, arm in enumerate(own)}
    noise = {f"{c} of {d}": rng.normal() for part in TABLE.parts for d in part.domains.values() for c in range(10)}
    for arm, i in places.items():
        domains = {name: 50.0 + of(i) + value for name, value in noise.items()}
        trials.append(Trial("fedavg", "none", 0, {"arm": arm}, domains=domains, avg=50.0))
    return Result(trials)


def test_the_best_is_taken_and_the_papers_kept_where_scores_are_equal(sources):
    choosing = prepare_choice(TABLE, sources, select_rows(TABLE, ["FedAvg"]))
    taken, told = choose_hyperparameters(choosing, scores(choosing, lambda i: 20.0 * (i == 3)))
    assert list(taken.values()) == [{"learning_rate": 10}] * 2
    assert [(t.part, t.numbers) for t in told] == [
        ("Office-Caltech", "learning rate 0.01"),
        ("Digits", "learning rate 0.1"),
    ]
    assert all(t.expected > t.expected_printed + 15 for t in told)
    assert choose_hyperparameters(choosing, scores(choosing, lambda i: 0.01 * (i == 3)))[0] == taken
    taken, told = choose_hyperparameters(choosing, scores(choosing, lambda i: -20.0 * (i == 1)))
    assert list(taken.values()) == [{}] * 2 and {t.numbers for t in told} == {"unchanged"}
    diverged = scores(choosing, lambda i: 0.0)
    for trial in diverged.trials[1::5]:
        trial.domains, trial.avg, trial.status = {}, None, "diverged"
    assert choose_hyperparameters(choosing, diverged)[0] == taken


def test_the_table_runs_with_what_was_taken_and_keeps_it(sources, tmp_path):
    rows = select_rows(TABLE, ["FedAvg", "FedDyn + GGEUR"])
    choosing = prepare_choice(TABLE, sources, rows)
    taken, told = choose_hyperparameters(choosing, scores(choosing, lambda i: 20.0 * (i == 4)))
    experiment, reading = prepare_tuned(TABLE, sources, taken, told, rows=rows, seeds=2)
    plain, _ = prepare_table(TABLE, sources, rows=rows, seeds=2, protocol="sound")
    for tuned, before in zip(experiment.points, plain.points, strict=True):
        factor, alpha = (10, 0.01) if before.train.method == "feddyn" else (30, 0.5)
        assert tuned.train == before.train.model_copy(
            update={"learning_rate": pytest.approx(factor * before.train.learning_rate)}
        )
        assert tuned.method["feddyn"]["alpha"] == alpha and tuned.method["moon"] == before.method["moon"]
        assert (tuned.partition, tuned.augment) == (before.partition, before.augment)
    reading.save(tmp_path)
    assert Reproduction.load(tmp_path) == reading and len(reading.chosen) == 4


def test_rows_that_keep_the_papers_numbers_are_left_to_sound(sources):
    rows = select_rows(TABLE, ["FedAvg", "MOON", "auto*"])
    choosing = prepare_choice(TABLE, sources, rows)
    taken, told = choose_hyperparameters(choosing, scores(choosing, lambda i: 20.0 * (i == 4)))
    told = [t._replace(numbers="unchanged") if t.row == "MOON" or t.part == "Digits" else t for t in told]
    experiment, reading = prepare_tuned(TABLE, sources, taken, told, rows=rows, only_changed=True)
    # Changed in one part, it is run in both.
    assert [a.arm for a in reading.arms] == ["Office-Caltech: FedAvg", "Digits: FedAvg"]
    assert {trial["arm"] for trial in experiment.varied} == {a.arm for a in reading.arms}
    assert {(a.row, a.why) for a in reading.absent} == {(row.name, AS_SOUND) for row in rows[1:]}
    assert reading.order == [row.name for row in rows] and reading.chosen == told
    assert reading.notes[-1].startswith("Only rows whose numbers changed were run")
    none = [t._replace(numbers="unchanged") for t in told]
    _, reading = prepare_tuned(TABLE, sources, taken, none, rows=rows, only_changed=True)
    assert {a.row for a in reading.arms} == {"FedAvg"}


def test_a_row_that_keeps_the_papers_numbers_is_the_row_of_sound(sources):
    """To the bit, with noise and without: what a table takes from `sound` is what would have run."""
    changes = ["augment.target=12", "augment.per_prototype=4", "train.local_epochs=1"]
    asked = {"rows": select_rows(TABLE, ["FedAvg", "FedProto + GGEUR", "Ridge*"]), "seeds": 2, "rounds": 2}
    tuned, _ = prepare_tuned(TABLE, sources, {}, [], changes=changes, **asked)
    sound, _ = prepare_table(TABLE, sources, protocol="sound", changes=changes, **asked)
    for a, b in zip(ggeur.run(tuned).trials, ggeur.run(sound).trials, strict=True):
        assert (a.settings["arm"], a.seed, a.rounds, a.domains) == (b.settings["arm"], b.seed, b.rounds, b.domains)
        assert a.rounds


def test_what_is_scored_is_left_out_of_training_and_no_test_row_is_looked_at(sources, tmp_path):
    source = sources["Digits"]
    tree = {
        "data": {"table": str(source.path)},
        "partition": {"kind": "label-and-domain", "beta": 0.5, "validation": True},
        "augment": {"kind": ["none", "ggeur"], "target": 12, "per_prototype": 4},
        "train": {"rounds": 2, "local_epochs": 1, "batch_size": 8},
    }
    found = ggeur.run(ggeur.Experiment.of(tree))
    x = source.table.x.copy()
    x[source.table.test] = 1e3
    dataclasses.replace(source.table, x=x).save(tmp_path / "other.npz")
    other = ggeur.run(ggeur.Experiment.of(tree | {"data": {"table": str(tmp_path / "other.npz")}}))
    for a, b in zip(found.trials, other.trials, strict=True):
        assert a.rounds == b.rounds and a.domains == b.domains
        assert all(" of " in name for name in a.domains)
    tested = ggeur.run(ggeur.Experiment.of(tree | {"partition": tree["partition"] | {"validation": False}}))
    assert tested.trials[0].local_steps != found.trials[0].local_steps  # with all their rows, clients have more to do
    assert set(tested.trials[0].domains) == set(source.table.domain_names)
