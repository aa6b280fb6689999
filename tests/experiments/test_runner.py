"""A run from start to finish: its folder, its callbacks, trials that diverge, arms that are paired, and repetition."""

import json
import os
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import f1_score, recall_score

import ggeur
from ggeur.data.table import EmbeddingTable
from ggeur.engine.simulate import Simulation
from ggeur.experiments.grid import Experiment
from ggeur.experiments.result import Result, what_seeds_vary
from ggeur.federation import evaluation as evaluate
from ggeur.models.model import Model
from ggeur.stats.errors import GgeurError

ARMS = [{"name": "plain", "augment": {"kind": "none"}}, {"name": "ours", "augment": {"kind": "ggeur"}}]
TRIALS, ROUNDS = 4, 3


class Finished:
    def __init__(self, tree, folder):
        self.experiment = Experiment.of(tree(arm=ARMS))
        self.folder, self.events = folder, []
        self.result = ggeur.run(self.experiment, out=folder, on_round=self.events.append)


@pytest.fixture(scope="module")
def finished(tree, tmp_path_factory):
    """Two arms with two seeds, three rounds each."""
    return Finished(tree, tmp_path_factory.mktemp("runs") / "run")


def lines(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


# ---------------------------------------------------------------- the run folder


def test_the_folder_holds_what_the_design_says_and_nothing_half_written(finished):
    names = {p.relative_to(finished.folder).as_posix() for p in finished.folder.rglob("*") if p.is_file()}
    models = {f"model/trial-{i:03d}/{name}" for i in range(TRIALS) for name in ("head.npz", "model.json", "card.md")}
    wanted = {"config.toml", "versions.json", "metrics.jsonl", "result.json"} | models
    assert wanted <= names
    temporary = tuple(f".{Path(name).name}." for name in wanted)
    assert not [name for name in names if Path(name).name.startswith(temporary)]
    assert {name for name in names if name.startswith("model/")} == models


def test_the_config_loads_back_to_the_same_experiment(finished):
    back = Experiment.load(finished.folder / "config.toml")
    assert back.points == finished.experiment.points and back.varied == finished.experiment.varied
    assert back.seeds == finished.experiment.seeds


def test_metrics_have_one_line_per_trial_and_round(finished):
    metrics = lines(finished.folder)
    assert sorted((m["trial"], m["round"]) for m in metrics) == [(c, r) for c in range(TRIALS) for r in (1, 2, 3)]
    for m in metrics:
        assert list(m) == ["trial", "round", "domains", "avg", "loss", "crc"]
        assert list(m["domains"]) == ["art", "photo", "sketch"]
        assert m["avg"] == pytest.approx(np.mean(list(m["domains"].values())))
        assert m["loss"] > 0


def test_the_result_is_the_schemas_and_reads_off_the_metrics(finished):
    data = json.loads((finished.folder / "result.json").read_text())
    assert data["schema"] == 1 and len(data["trials"]) == TRIALS
    metrics = lines(finished.folder)
    for i, trial in enumerate(data["trials"]):
        own = [m for m in metrics if m["trial"] == i]
        arm = ARMS[i // 2]
        assert (trial["method"], trial["augment"]) == ("fedavg", arm["augment"]["kind"])
        assert (trial["seed"], trial["settings"], trial["status"]) == (i % 2, {"arm": arm["name"]}, "ok")
        assert trial["rounds"] == [m["avg"] for m in own]
        domains = {name: np.mean([m["domains"][name] for m in own]) for name in ("art", "photo", "sketch")}
        assert trial["domains"] == pytest.approx(domains)
        assert trial["avg"] == pytest.approx(np.mean(list(domains.values())))
        assert trial["std"] == pytest.approx(np.std(list(domains.values())))
        assert trial["seconds"] > 0
    assert Result.load(finished.folder) == finished.result


def test_also_recorded_are_steps_and_bytes(finished):
    head = 4 * (4 * 5 + 4)
    for i, trial in enumerate(finished.result.trials):
        assert len(trial.local_steps) == 3
        if i < 2:  # no augmentation: the head up and down in each round, and nothing before
            assert trial.bytes_up == trial.bytes_down == ROUNDS * head
        else:
            assert trial.bytes_up > ROUNDS * head and trial.bytes_down > ROUNDS * head
            assert min(trial.local_steps) >= min(finished.result.trials[0].local_steps)


def test_on_round_is_called_for_each_trial_and_round(finished):
    written = [{k: v for k, v in line.items() if k != "crc"} for line in lines(finished.folder)]
    assert [{k: v for k, v in e.items() if k != "rounds"} for e in finished.events] == written
    assert all(e["rounds"] == ROUNDS for e in finished.events)


@pytest.mark.parametrize("storage", ["float32", "float16"])
def test_ggeur_where_nobody_needs_a_draw_trains_on_the_rows_there_are(tree, storage):
    arms = [{"name": kind, "augment": {"kind": kind, "steps": 1, "target": 1}} for kind in ("ggeur", "resample")]
    whole = tree(train={"rounds": 2, "storage": storage}, partition={"kind": "domain", "beta": None}, arm=arms)
    drawn, resampled = (trials[0] for trials in (sample.trials for sample in ggeur.run(Experiment.of(whole)).rows()))
    assert drawn.rounds == pytest.approx(resampled.rounds, abs=1e-4) and drawn.local_steps == resampled.local_steps


def test_seconds_of_a_round_hold_neither_compilation_nor_scoring(tree, monkeypatch):
    slow = evaluate.TestSet.accuracy
    monkeypatch.setattr(evaluate.TestSet, "accuracy", lambda *a: time.sleep(0.2) or slow(*a))
    (trial,) = ggeur.run(Experiment.of(tree(train={"rounds": 4}, run={"seeds": [0]}))).trials
    assert trial.seconds > 0.8 and 0 < trial.round_seconds < 0.15
    (trial,) = ggeur.run(Experiment.of(tree(train={"rounds": 1}, run={"seeds": [0]}))).trials
    assert trial.round_seconds is None, "the first round alone says nothing"


@pytest.mark.parametrize(
    ("mask", "partition", "same"),
    [
        (True, {"kind": "domain"}, True),
        (True, {"kind": "domain", "share": 0.5}, False),
        (False, {"kind": "domain"}, False),
        (True, {"kind": "label-and-domain"}, False),
    ],
)
def test_seeds_that_do_not_vary_the_data_are_said_so(build_table, tmp_path, mask, partition, same):
    test = np.arange(120) % 4 == 0 if mask else None
    build_table(test=test).save(tmp_path / "t.npz")
    tree = {"data": {"table": str(tmp_path / "t.npz")}, "partition": partition, "augment": {"kind": "none"}}
    train = {"train": {"rounds": 1, "local_epochs": 1, "method": ["fedavg", "lda"]}, "run": {"seeds": [0, 1]}}
    result = ggeur.run(Experiment.of(tree | train))
    assert {trial.same_data for trial in result.trials} == {same}
    words = what_seeds_vary(result.trials)
    assert ("head, batches and noise only" in words and "bootstrap" in words) == same
    assert what_seeds_vary(result.trials[:1]) == "", "one seed varies nothing"


def test_rows_over_seeds_use_the_sample_deviation(finished):
    for sample, trials in zip(
        finished.result.rows(), (finished.result.trials[:2], finished.result.trials[2:]), strict=True
    ):
        avgs = [c.avg for c in trials]
        assert sample.avg == pytest.approx(np.mean(avgs))
        assert sample.spread == pytest.approx(abs(avgs[0] - avgs[1]) / 2**0.5)


def test_every_saved_model_scores_as_its_last_round_did(finished, table):
    for i, trial in enumerate(finished.result.trials):
        model = Model.load(finished.folder / "model" / f"trial-{i:03d}")
        split = table.split(trial.seed)
        said = (split.x.astype(np.float64) @ model.params["W"].T + model.params["b"]).argmax(axis=1)
        right = said == split.y
        by_domain = [100 * right[split.test & (split.domains == d)].mean() for d in range(3)]
        assert trial.rounds[-1] == pytest.approx(np.mean(by_domain))
        assert trial.recall == pytest.approx(100 * recall_score(split.y[split.test], said[split.test], average=None))
        assert trial.macro_f1 == pytest.approx(100 * f1_score(split.y[split.test], said[split.test], average="macro"))
        np.testing.assert_array_equal(model.probabilities(table).argmax(axis=1), said)


def test_the_model_names_classes_and_encoder(finished):
    model = Model.load(finished.folder)
    assert model.class_names == ("ant", "bee", "cat", "dog")
    assert model.encoder == {"encoder": "toy", "weights": "abc"}


# ---------------------------------------------------------------- the same again


def heads(folder):
    return [dict(np.load(folder / "model" / f"trial-{i:03d}" / "head.npz")) for i in range(TRIALS)]


def test_a_repeated_run_is_bit_for_bit_the_same_also_in_a_fresh_process(finished, tmp_path):
    again = ggeur.run(Experiment.load(finished.folder / "config.toml"), out=tmp_path / "here")
    code = (
        "import sys, ggeur; from ggeur.experiments.grid import Experiment; "
        "ggeur.run(Experiment.load(sys.argv[1]), out=sys.argv[2])"
    )
    config = str(finished.folder / "config.toml")
    fresh = os.environ | {"GGEUR_CACHE": str(tmp_path / "cache")}  # compiled anew as well
    subprocess.run([sys.executable, "-c", code, config, str(tmp_path / "there")], check=True, env=fresh)
    for other in (tmp_path / "here", tmp_path / "there"):
        assert (other / "metrics.jsonl").read_text() == (finished.folder / "metrics.jsonl").read_text()
        for a, b in zip(heads(other), heads(finished.folder), strict=True):
            assert all(np.array_equal(a[name], b[name]) for name in ("W", "b"))
    for a, b in zip(again.trials, finished.result.trials, strict=True):
        a.seconds, a.round_seconds = b.seconds, b.round_seconds
        assert a == b


def test_a_seed_alone_is_the_seed_in_a_stack(tree, finished, tmp_path):
    ggeur.run(Experiment.of(tree(augment={"kind": "ggeur"}, run={"seeds": [1]})), out=tmp_path / "alone")
    alone = np.load(tmp_path / "alone" / "model" / "trial-000" / "head.npz")
    for name, leaf in heads(finished.folder)[3].items():
        np.testing.assert_allclose(alone[name], leaf, rtol=0, atol=1e-5 * np.abs(leaf).max())


def test_all_arms_share_split_partition_and_first_head(tree, monkeypatch):
    seen, tested = [], []

    def watch(kind, note):
        init = kind.__init__

        def watched(self, given, *rest):
            note(given)
            init(self, given, *rest)

        monkeypatch.setattr(kind, "__init__", watched)

    watch(Simulation, seen.append)
    watch(evaluate.TestSet, lambda split: tested.append(split.test))
    ggeur.run(Experiment.of(tree(arm=ARMS, train={"rounds": 1})))
    plain, ours = seen
    for a, b in zip(plain, ours, strict=True):
        assert a.seed == b.seed
        np.testing.assert_array_equal(a.params["W"], b.params["W"])
        for s, t in zip(a.sets, b.sets, strict=True):
            np.testing.assert_array_equal(s.sample[: s.originals], t.sample[: t.originals])
    assert len(tested) == TRIALS
    for seed in (0, 1):
        np.testing.assert_array_equal(tested[seed], tested[2 + seed])
        samples = np.concatenate([s.sample[: s.originals] for s in plain[seed].sets])
        assert not tested[seed][samples].any()
    assert not np.array_equal(tested[0], tested[1])


# ---------------------------------------------------------------- what goes wrong


@pytest.fixture(scope="module")
def diverged(tree, tmp_path_factory):
    folder = tmp_path_factory.mktemp("diverged") / "run"
    return ggeur.run(Experiment.of(tree(train={"learning_rate": [1e30, 0.05]})), out=folder), folder


def test_a_diverged_trial_says_so_while_the_others_finish(diverged):
    result, _ = diverged
    for trial in result.trials[:2]:
        assert trial.status == "diverged" and "round" in trial.message and "learning_rate" in trial.message
        assert (trial.avg, trial.std, trial.domains) == (None, None, {})
        assert trial.settings == {"train.learning_rate": 1e30}
    assert [c.status for c in result.trials[2:]] == ["ok", "ok"]
    bad, good = result.rows()
    assert bad.avg is None and good.avg is not None


def test_a_diverged_trial_has_no_model_and_no_nan_in_any_file(diverged):
    _, folder = diverged
    assert sorted(p.name for p in (folder / "model").iterdir()) == ["trial-002", "trial-003"]

    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    for line in (folder / "metrics.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=refuse)
    json.loads((folder / "result.json").read_text(), parse_constant=refuse)


def test_one_domain_is_called_all_and_has_no_std(build_table, tmp_path, tree):
    table = build_table(domains=("x",))
    EmbeddingTable(x=table.x, y=table.y).save(tmp_path / "one.npz")
    one = Experiment.of(
        tree(
            data={"table": str(tmp_path / "one.npz")},
            partition={"kind": "dirichlet", "clients": 3, "beta": 0.5},
            train={"rounds": 1},
            run={"seeds": [0]},
        )
    )
    (trial,) = ggeur.run(one).trials
    assert list(trial.domains) == ["all"] and trial.std is None


def test_a_folder_that_is_not_empty_is_refused_and_left_alone(tree, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(GgeurError, match="not empty"):
        ggeur.run(Experiment.of(tree()), out=tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("out", ["file", "file/run"])
def test_a_folder_that_cannot_be_made_is_named(tree, tmp_path, out):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(GgeurError, match="Cannot write the run folder .*file|file is a file"):
        ggeur.run(Experiment.of(tree()), out=tmp_path / out)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("there", [False, True], ids=["new folder", "empty folder"])
@pytest.mark.parametrize(
    "sections, why",
    [
        ({"data": {"table": "nowhere.npz"}}, "nowhere.npz"),
        ({"partition": {"kind": "dirichlet", "clients": 99}}, "too few"),
    ],
)
def test_an_error_before_the_first_round_leaves_nothing_behind(tree, tmp_path, sections, why, there):
    out = tmp_path / "run"
    if there:
        out.mkdir()
    with pytest.raises(GgeurError, match=why):
        ggeur.run(Experiment.of(tree(**sections)), out=out)
    assert out.exists() == there
    assert not list(out.glob("*"))


def test_rounds_recorded_before_an_interruption_are_kept(tree, tmp_path):
    def stop(event):
        if event["round"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ggeur.run(Experiment.of(tree(run={"seeds": [0]})), out=tmp_path / "run", on_round=stop)
    assert [m["round"] for m in lines(tmp_path / "run")] == [1, 2]
    assert tomllib.loads((tmp_path / "run" / "config.toml").read_text())["run"] == {"seeds": [0]}
    assert not (tmp_path / "run" / "result.json").exists()


# ---------------------------------------------------------------- real data


@pytest.mark.real
def test_on_office_caltech_ggeur_beats_none_when_clients_weigh_by_samples(shared):
    result = ggeur.run(
        Experiment.of(
            {
                "data": {"table": str(shared / "data" / "embeddings" / "office_caltech10.tinyvit.npz")},
                "partition": {"kind": "label-and-domain", "beta": 0.1},
                "augment": {"kind": ["none", "ggeur"], "target": 100, "per_prototype": 100},
                "train": {"rounds": 8, "local_epochs": 3, "batch_size": 16, "learning_rate": 1e-3},
                "run": {"seeds": [0, 1]},
            }
        )
    )
    none, ggeur_ = ([c.avg for c in sample.trials] for sample in result.rows())
    assert all(ours > plain + 1 for plain, ours in zip(none, ggeur_, strict=True))
    assert min(ggeur_) > 80
