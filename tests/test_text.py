"""Methods of text on made-up tables whose class directions are known, from table to model."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from scipy.special import softmax

import ggeur
from ggeur.data.table import EmbeddingTable
from ggeur.engine.aggregation import frozen, shown
from ggeur.experiments import computing
from ggeur.heads import resolve as resolve_head
from ggeur.methods import resolve
from ggeur.methods.algorithm import Task
from ggeur.models.model import Model
from refusal import refused

NAMES = (
    *("ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen", "ibis", "jay", "koi", "lynx", "mole", "newt", "owl"),
    *("pig", "quail", "ram", "seal", "toad", "urial", "vole", "wasp", "yak", "zebu", "asp", "boar", "cod", "dove"),
    *("eel", "finch", "goat"),
)


def percent(text, x, y):
    return 100 * float(((x @ text.T).argmax(axis=1) == y).mean())


@pytest.fixture
def turned(tmp_path):
    """Two domains about the same texts, of which the second has half of its features turned; zero-shot fails there."""
    rng, p, classes = np.random.default_rng(0), 24, 6
    text = rng.normal(size=(classes, p))
    text /= np.linalg.norm(text, axis=1, keepdims=True)
    turn = np.eye(p)
    turn[: p // 2, : p // 2] = np.linalg.qr(rng.normal(size=(p // 2, p // 2)))[0]
    y, domain = np.tile(np.arange(classes), 200), np.repeat([0, 1], 600)
    x = np.where(domain[:, None] == 1, text[y] @ turn.T, text[y])
    text_sets = {"single": text.astype(np.float32), "fedclip": text.astype(np.float32)}
    common = dict(y=y, domain=domain, domain_names=("straight", "turned"), class_names=NAMES[:classes], text=text_sets)
    common["test"] = np.arange(len(y)) // classes % 2 == 0
    exact = EmbeddingTable(x=(5 * text[y]).astype(np.float32), **common)
    noisy = EmbeddingTable(x=(5 * (x + 0.2 * rng.normal(size=x.shape))).astype(np.float32), **common)
    exact.save(tmp_path / "exact.npz")
    noisy.save(tmp_path / "turned.npz")
    return tmp_path


def experiment(table, **sections):
    tree = {"data": {"table": str(table)}, "partition": {"kind": "domain"}, "augment": {"kind": "none"}}
    return ggeur.Experiment.of(tree | sections)


def test_zero_shot_is_exact_where_rows_are_texts(turned):
    (trial,) = ggeur.run(experiment(turned / "exact.npz", train={"method": "zeroshot"}), out=turned / "run").trials
    assert trial.avg == 100
    table, model = EmbeddingTable.load(turned / "exact.npz"), Model.load(turned / "run")
    cosine = table.x @ table.text["single"].T / np.linalg.norm(table.x, axis=1, keepdims=True)
    np.testing.assert_allclose(model.probabilities(table), softmax(100.0 * cosine, axis=1), atol=1e-4)


def test_fedclip_improves_a_turned_domain_and_resumes_to_the_bit(turned):
    train = {"method": ["zeroshot", "fedclip"], "rounds": 8, "local_epochs": 2, "batch_size": 32}
    one = experiment(
        turned / "turned.npz", train=train, method={"fedclip": {"learning_rate": 0.003, "weight_decay": 0.0}}
    )
    zero_shot, trained = ggeur.run(one, out=turned / "whole").trials
    assert zero_shot.domains["turned"] < 75 and trained.domains["turned"] > zero_shot.domains["turned"] + 10
    assert trained.bytes_up == 8 * 4 * 2 * 24 * 25, "the adapter, and nothing else"

    class Stop(Exception):
        pass

    def stop(event):
        if (event["trial"], event["round"]) == (1, 4):
            raise Stop

    with pytest.raises(Stop):
        ggeur.run(one, out=turned / "parts", on_round=stop)
    ggeur.run(one, out=turned / "parts", resume=True)
    whole, parts = (Model.load(turned / name, trial=1) for name in ("whole", "parts"))
    assert whole.head == "adapter" and all((whole.params[name] == parts.params[name]).all() for name in whole.params)


def test_another_text_tower_is_noticed_when_a_run_goes_on(language, tmp_path):
    clip = Path(shutil.copytree(language.folder, tmp_path / "clip"))
    language.table().save(tmp_path / "t.npz")
    train = {"method": ["zeroshot", "lda", "fedtpg"], "rounds": 1}
    one = experiment(tmp_path / "t.npz", train=train, method={"fedtpg": {"clip": str(clip)}})

    class Stop(Exception):
        pass

    def stop(event):
        if event["trial"] == 1:
            raise Stop

    with pytest.raises(Stop):
        ggeur.run(one, out=tmp_path / "run", on_round=stop)
    weights, other = clip / "model.safetensors", dict(load_file(clip / "model.safetensors"))
    kept = weights.read_bytes()
    save_file(other | {"text_projection.weight": -other["text_projection.weight"]}, weights)
    with refused("run-inputs-changed: frozen model of fedtpg in...clip for...t.npz...run"):
        ggeur.run(one, out=tmp_path / "run", resume=True)
    weights.write_bytes(kept)
    with pytest.raises(Stop):
        ggeur.run(one, out=tmp_path / "run", resume=True, on_round=stop)


def test_fedtpg_transfers_to_names_it_has_not_seen(language, tmp_path, monkeypatch):
    """Rows lie where a good prompt puts their names; half of the names are trained on, by two clients."""
    rng, half = np.random.default_rng(0), len(NAMES) // 2

    def prompted(a, b):
        return language.text([f"{a} {b} {a} {b} {name}." for name in NAMES])

    def rows(text, each):
        y = np.repeat(np.arange(len(text)), each)
        return (text[y] + 0.1 * rng.normal(size=(len(y), text.shape[1])) / 4).astype(np.float32), y

    good, wrong = prompted("q", "z"), [prompted(a, b)[half:] for a, b in ("cd", "xx", "ab", "kv", "mw")]
    (x, y), (x_new, y_new) = rows(good[:half], 30), rows(good[half:], 50)
    common = {"test": np.arange(len(y)) % 3 == 0, "class_names": NAMES[:half], "domain_names": ("even", "odd")}
    EmbeddingTable(x=x, y=y, domain=y % 2, **common).save(tmp_path / "base.npz")
    states = []

    class Watched(computing.Simulation):
        def rounds(self, state=None):
            for found in super().rounds(state):
                states.append(found.state)
                yield found

    monkeypatch.setattr(computing, "Simulation", Watched)
    train = {"method": "fedtpg", "rounds": 60, "local_epochs": 4, "batch_size": 256}
    ggeur.run(experiment(tmp_path / "base.npz", train=train, method={"fedtpg": {"clip": language.folder}}))
    task = Task(good.shape[1], NAMES[half:])
    trained = resolve("fedtpg", resolve_head("linear"), {"clip": language.folder}, task=task)
    text = np.asarray(shown(trained, {"params": states[-1].servers[0]["params"]}, frozen(trained))["text"])
    found, fixed = percent(text, x_new, y_new), [percent(t, x_new, y_new) for t in wrong]
    assert percent(good[half:], x_new, y_new) > 95, "the names can be told apart"
    assert found > fixed[0] + 10 and found > np.mean(fixed) + 5, (found, fixed)


def test_what_is_missing_leaves_one_arm_out(turned):
    train = {"method": ["fedtpg", "fedclip", "text-prior", "auto"], "rounds": 1, "local_epochs": 1}
    with_none = EmbeddingTable.load(turned / "turned.npz")
    EmbeddingTable(with_none.x, with_none.y, with_none.domain, with_none.test, with_none.class_names).save(
        turned / "none.npz"
    )
    trials = ggeur.run(experiment(turned / "none.npz", train=train)).trials
    assert [trial.status for trial in trials] == ["unavailable"] * 3 + ["ok"]
    assert "text tower" in trials[0].message and "ggeur embed" in trials[1].message


def test_two_classes_leave_the_prior_out_and_the_run_goes_on(turned):
    table = EmbeddingTable.load(turned / "turned.npz")
    few = table.subset(table.y < 2)
    few.save(turned / "few.npz")
    trials = ggeur.run(experiment(turned / "few.npz", train={"method": ["text-prior", "lda", "auto"]})).trials
    assert [trial.status for trial in trials] == ["unavailable", "ok", "ok"]
    assert "three classes" in trials[0].message and "text-prior" not in trials[2].message
