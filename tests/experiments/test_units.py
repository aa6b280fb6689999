"""Accuracy does not depend on the embedding's units, nor on how far from zero its samples lie."""

import warnings

import numpy as np
import pytest

import ggeur
from ggeur.data.table import EmbeddingTable
from ggeur.experiments.grid import Experiment
from ggeur.methods import names
from ggeur.methods.algorithm import ClosedForm
from ggeur.models.model import Model
from ggeur.stats.errors import GgeurWarning

FAR = 1e4  # spreads
AS_PUBLISHED = ("afl", "fed3r", "text-prior")  # the first two in the embedding's own units; the last needs text
UNIT_FREE = [name for name in names(ClosedForm) if name not in AS_PUBLISHED]
MOVES = {
    "small": lambda x, spread: 1e-6 * x,
    "large": lambda x, spread: 1e6 * x,
    "far": lambda x, spread: x + FAR * spread,
}


@pytest.fixture(scope="session")
def digits(shared):
    """Every fifth sample of the four domains of digits."""
    with np.load(shared / "data/embeddings/digits.tinyvit.npz") as file:
        few = {name: file[name][::5] for name in ("x", "y", "domain", "test")}
    return EmbeddingTable(**{**few, "x": few["x"].astype(np.float32), "domain": few["domain"].astype(int)})


def moved(table, how):
    """The table's samples, moved and rounded to float32, and the same rounded samples as they would lie near zero."""
    x = table.x.astype(np.float64)
    spread = np.sqrt(x.var(axis=0).mean())
    samples = MOVES[how](x, spread).astype(np.float32).astype(np.float64)
    back = samples - samples.mean(axis=0)
    kept = {name: getattr(table, name) for name in ("y", "domain", "test", "class_names", "domain_names")}
    return [
        EmbeddingTable(x=z.astype(np.float32), **kept) for z in (samples, back * spread / np.sqrt((back**2).mean()))
    ]


def accuracy(table, folder, train, **sections):
    """AVG of every trial of a run, and of its model on the raw test samples."""
    folder.mkdir()
    table.save(folder / "t.npz")
    tree = {"partition": {"kind": "domain"}, "augment": {"kind": "none"}, "train": train} | sections
    tree["data"] = {"table": str(folder / "t.npz")} | tree.get("data", {})
    trials = ggeur.run(ggeur.Experiment.of(tree), out=folder / "run").trials
    split = table.split(0)
    tested = split.subset(split.test)
    of_models = []
    for i in range(len(trials)):
        model = Model.load(folder / "run" / "model" / f"trial-{i:03d}")
        right = model.probabilities(tested).argmax(axis=1) == tested.y
        of_models.append(np.mean([100 * right[tested.domains == d].mean() for d in range(split.n_domains)]))
    return [trial.avg for trial in trials], of_models


def keeps(table, folder, how, train, **sections):
    """Hold a run on moved samples to the same on samples near zero, to 0.05 points; the accuracies near zero."""
    far, near = (
        accuracy(t, folder / name, train, **sections)
        for name, t in zip(("far", "near"), moved(table, how), strict=True)
    )
    assert far[0] == pytest.approx(near[0], abs=0.05)
    return far, near


@pytest.mark.parametrize("how", MOVES)
def test_a_solved_head_is_as_good_wherever_the_rows_lie(table, tmp_path, how):
    few = {"method": {"ccvr": {"draws": 100}, "fedpft": {"epochs": 2}}}
    far, _ = keeps(table, tmp_path, how, {"method": UNIT_FREE}, **few)
    assert far[1] == pytest.approx(far[0], abs=1e-9), "the model on raw samples"


@pytest.mark.real
@pytest.mark.parametrize("how", MOVES)
def test_a_solved_head_keeps_its_accuracy_on_real_embeddings(digits, tmp_path, how):
    # Features in float32 round otherwise in other units, which moves a sample in a thousand.
    precise = {"method": {"kernel": {"precision": "float64"}}}
    far, near = keeps(digits, tmp_path, how, {"method": UNIT_FREE}, **precise)
    assert min(near[0]) > 30 and far[1] == pytest.approx(far[0], abs=1e-9)


# ---------------------------------------------------------------- [data] standardise

OWN_UNITS = {"data": {"standardise": True}, "augment": {"kind": ["none", "ggeur"], "target": 30, "per_prototype": 5}}
SHORT = {"rounds": 2, "local_epochs": 1, "batch_size": 32, "start": ["random", "lda"]}


@pytest.mark.parametrize("how", MOVES)
def test_training_in_the_federations_units_is_as_good_wherever_the_rows_lie(table, tmp_path, how):
    far, _ = keeps(table, tmp_path, how, SHORT, **OWN_UNITS)
    assert far[0][1] > 50 and far[1] == pytest.approx(far_last_rounds(tmp_path), abs=1e-9)


def far_last_rounds(folder):
    """AVG of the last round of every trial: what a model is scored by."""
    return [trial.rounds[-1] for trial in ggeur.Result.load(folder / "far" / "run").trials]


@pytest.mark.real
@pytest.mark.parametrize("how", MOVES)
def test_training_from_a_solved_head_keeps_its_accuracy_on_real_embeddings(digits, tmp_path, how):
    _, near = keeps(
        digits, tmp_path, how, SHORT | {"start": ["ncm", "lda", "ridge", "ccvr"]}, data={"standardise": True}
    )
    assert min(near[0]) > 40


def test_units_are_those_of_the_clients_training_rows_and_every_seeds_own(table, table_file, tree, tmp_path):
    train = {"method": ["fedavg", "central"], "rounds": 1}
    given = tree(data={"standardise": True}, train=train, partition={"kind": "domain", "share": 0.5})
    del given["partition"]["beta"]
    ggeur.run(Experiment.of(given), out=tmp_path / "run")
    from ggeur.experiments.partitions import partition_samples

    for trial, seed in enumerate((0, 1, 0, 1)):
        units = Model.load(tmp_path / "run" / "model" / f"trial-{trial:03d}").units
        parts = partition_samples(table.split(seed), Experiment.of(given).points[0].partition, seed)
        x = table.x[np.concatenate(parts)].astype(np.float64)
        np.testing.assert_allclose(units.shift, x.mean(axis=0), rtol=1e-12)
        assert units.scale == pytest.approx(np.sqrt(x.var(axis=0).mean()))


def test_units_cost_a_sum_up_and_themselves_down(tree):
    def trials(**data):
        given = tree(data=data, train={"method": ["fedavg", "lda", "zeroshot"]}, run={"seeds": [0]})
        return ggeur.run(Experiment.of(given)).trials

    for plain, found, times in zip(trials(), trials(standardise=True), (1, 2, 0), strict=True):
        more = (found.bytes_up - plain.bytes_up, found.bytes_down - plain.bytes_down)
        assert more == ((8 * 7, times * 8 * 6) if times else (0, 0))


def test_a_head_from_text_takes_the_rows_as_they_lie(build_table, tmp_path):
    table = build_table(text=np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32))
    found, plain = (
        accuracy(table, tmp_path / str(own), {"method": "zeroshot"}, data={"standardise": own}) for own in (True, False)
    )
    assert found == plain


def told(table, folder, train, **data):
    """What is said of units in a run."""
    table.save(folder / "t.npz")
    tree = {"data": {"table": str(folder / "t.npz"), **data}, "augment": {"kind": "none"}, "run": {"seeds": [0, 1]}}
    tree |= {"partition": {"clients": 2}, "train": {"rounds": 1, "local_steps": 1, **train}}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        ggeur.run(Experiment.of(tree))
    return [str(w.message) for w in said if issubclass(w.category, GgeurWarning) and "spread" in str(w.message)]


@pytest.mark.parametrize("how", MOVES)
def test_training_on_rows_far_from_units_of_one_says_so_once(table, tmp_path, how):
    far, _ = moved(table, how)
    (said,) = told(far, tmp_path, {"learning_rate": [1e-9, 1e-8]})
    assert "standardise = true" in said and "t.npz" in said
    assert not told(far, tmp_path, {}, standardise=True) and not told(far, tmp_path, {"method": "lda"})
    assert not told(table, tmp_path, {})


@pytest.mark.real
def test_the_encoders_that_there_are_need_no_such_word(shared):
    from ggeur.stats.units import SampleMoments

    for path in sorted((shared / "data/embeddings").glob("*.npz")):
        with np.load(path) as file:
            x = file["x"][::10].astype(np.float64)
        for samples in (x, x / np.linalg.norm(x, axis=1, keepdims=True)):
            assert SampleMoments.of(samples).units.note("them") == "", path
