"""A trained head, saved with what is needed to use it."""

import datetime
import json
import sys
from textwrap import dedent

import jax
import numpy as np
import pytest

from ggeur.experiments.result import Result, Trial
from ggeur.models.model import Model
from ggeur.stats.errors import GgeurError
from ggeur.stats.units import Units
from refusal import Sentence, refused

NAMES = ("ant", "bee", "cat", "dog")


def model(seed=0, **changes):
    rng = np.random.default_rng(seed)
    params = {"W": rng.normal(size=(4, 5)).astype(np.float32), "b": rng.normal(size=4).astype(np.float32)}
    return Model(
        **({"params": params, "head": "linear", "dimension": 5, "class_names": NAMES, "encoder": {}} | changes)
    )


@pytest.fixture
def saved(tmp_path):
    model(encoder={"encoder": "toy", "weights": "abc"}).save(tmp_path / "m")
    return tmp_path / "m"


def told(path):
    with pytest.raises(GgeurError) as caught:
        Model.load(path)
    assert "\n" not in str(caught.value)
    return Sentence.of(caught.value)


def test_probabilities_are_the_softmax_of_wx_plus_b(table, saved):
    loaded, m = Model.load(saved), model()
    e = np.exp(table.x.astype(np.float64) @ m.params["W"].T.astype(np.float64) + m.params["b"])
    np.testing.assert_allclose(loaded.probabilities(table), e / e.sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-7)


def test_a_saved_model_reads_back(saved):
    loaded, m = Model.load(saved), model()
    assert (loaded.head, loaded.dimension, loaded.class_names) == ("linear", 5, NAMES)
    assert loaded.encoder == {"encoder": "toy", "weights": "abc"}
    for name, leaf in m.params.items():
        np.testing.assert_array_equal(loaded.params[name], leaf)
    assert sorted(p.name for p in saved.iterdir()) == ["head.npz", "model.json"]


def test_a_model_in_units_of_its_own_takes_rows_as_they_come(build_table, tmp_path):
    units, table = Units(np.arange(5) * 1e3, 0.25), build_table()
    model(units=units).save(tmp_path / "m")
    raw = build_table(x=(table.x * 0.25 + units.shift).astype(np.float64))
    loaded = Model.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.units.pack(), units.pack())
    np.testing.assert_array_equal(loaded.probabilities(raw), model().probabilities(build_table(x=units.apply(raw.x))))


@pytest.mark.parametrize(
    "change", [{"shift": [0.0]}, {"scale": 0.0}, {"scale": "much"}, {"shift": [float("nan")] * 5}, None], ids=str
)
def test_damaged_units_are_refused(saved, change):
    path = saved / "model.json"
    units = None if change is None else {"shift": [0.0] * 5, "scale": 1.0} | change
    path.write_text(json.dumps(json.loads(path.read_text()) | {"units": units}))
    assert told(saved).says("file-damaged")


def test_a_table_of_another_encoder_is_refused(build_table, saved):
    loaded = Model.load(saved)
    with refused("embeddings-dimension-mismatch: 3 dimensions...model 5"):
        loaded.probabilities(build_table(x=np.zeros((120, 3), np.float32)))
    with refused("encoder-mismatch: other...toy"):
        loaded.probabilities(build_table(meta={"encoder": "other", "weights": "xyz"}))
    assert len(loaded.probabilities(build_table(meta={}))) == 120, "a table that does not say is trusted"


def run_folder(folder, avgs, saved=None):
    trials = [Trial("fedavg", "none", i, {}, "diverged" if a is None else "ok", avg=a) for i, a in enumerate(avgs)]
    folder.mkdir()
    (folder / "result.json").write_text(Result(trials).to_json())
    for i in range(len(avgs)) if saved is None else saved:
        model(seed=i).save(folder / "model" / f"trial-{i:03d}")
    return folder


@pytest.mark.parametrize(
    "avgs, saved, last",
    [([1.0, 3.0, 2.0], None, 2), ([1.0, None], [0], 0), ([9.0, 3.0, 4.0], [0, 1], 1)],
    ids=["not the best on test samples", "the last diverged", "the last has no model"],
)
def test_a_run_folder_gives_the_model_of_its_last_trial_that_has_one(tmp_path, avgs, saved, last):
    loaded = Model.load(run_folder(tmp_path / "run", avgs, saved))
    np.testing.assert_array_equal(loaded.params["W"], model(seed=last).params["W"])


def test_a_trial_is_named_by_its_number_or_its_arm(tmp_path):
    folder = run_folder(tmp_path / "run", [1.0, 3.0, 2.0])
    trials = Result.load(folder).trials
    for trial, arm in zip(trials, ("plain", "GGEUR", "GGEUR"), strict=True):
        trial.settings["arm"] = arm
    (folder / "result.json").write_text(Result(trials).to_json())
    for trial, number in ((0, 0), (1, 1), ("plain", 0), ("GGEUR", 2), ("last", 2)):
        np.testing.assert_array_equal(Model.load(folder, trial=trial).params["W"], model(seed=number).params["W"])
    for unknown in (7, "FedAvg"):
        with refused("model-trial-missing: trials 0 to 2 and the arms plain, GGEUR"):
            Model.load(folder, trial=unknown)


def test_a_run_of_which_nothing_finished_has_no_model(tmp_path):
    assert told(run_folder(tmp_path / "run", [None, None], [])).says("model-trial-missing")


def test_a_folder_without_a_model_is_named(tmp_path):
    assert told(tmp_path).says(f"model-missing: {tmp_path}")


@pytest.mark.parametrize(
    "change",
    [{"dimension": 0}, {"dimension": "many"}, {"class_names": 3}, {"encoder": 3}, {"head": "conv"}, None],
    ids=str,
)
def test_a_damaged_description_is_refused(saved, change):
    path = saved / "model.json"
    path.write_text("{" if change is None else json.dumps(json.loads(path.read_text()) | change))
    told(saved)


@pytest.mark.parametrize("key", ["head", "dimension", "class_names", "encoder"])
def test_a_description_that_lacks_a_key_is_refused(saved, key):
    about = json.loads((saved / "model.json").read_text())
    del about["sha256"]  # as a version before it wrote them
    del about[key]
    (saved / "model.json").write_text(json.dumps(about))
    assert told(saved).says(f"file-damaged: {key}")


@pytest.mark.parametrize(
    "params",
    [
        {"W": np.zeros((4, 6)), "b": np.zeros(4)},
        {"W": np.zeros((4, 5))},
        {"W": np.full((4, 5), np.nan), "b": np.zeros(4)},
        {"W": np.zeros((4, 5), int), "b": np.zeros(4)},
        {"W": np.zeros((4, 5)), "b": np.zeros(4), "b1": np.zeros(())},
    ],
    ids=["shape", "missing", "nan", "integers", "more"],
)
def test_a_head_that_is_not_the_one_described_is_refused(saved, params):
    np.savez(saved / "head.npz", **params)
    assert told(saved).says("model-params-mismatch: head.npz")


def test_a_truncated_head_is_refused(saved):
    path = saved / "head.npz"
    path.write_bytes(path.read_bytes()[:100])
    assert told(saved).says("file-not-npz: head.npz")


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with refused("file-unwritable"):
        model().save(tmp_path / "file" / "m")


def test_a_head_of_any_hidden_width_reads_back(tmp_path, table):
    rng = np.random.default_rng(0)
    shapes = {"W1": (7, 5), "b1": (7,), "W2": (4, 7), "b2": (4,)}
    params = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    model(params=params, head="mlp").save(tmp_path / "m")
    hidden = np.maximum(table.x @ params["W1"].T + params["b1"], 0)
    expected = (hidden @ params["W2"].T + params["b2"]).argmax(axis=1)
    np.testing.assert_array_equal(Model.load(tmp_path / "m").probabilities(table).argmax(axis=1), expected)


# ---------------------------------------------------------------- heads of any kind

OWN = """
    from typing import NamedTuple

    import jax.numpy as jnp

    from ggeur.heads.head import Head

    class Layer(NamedTuple):
        W: object
        b: object

    def deep(*, widths: list[int], until: object = None) -> Head:
        def init(key, p, classes):
            sizes = [p, *widths, classes]
            layers = [Layer(jnp.ones((i, o)), jnp.zeros(o)) for i, o in zip(sizes, sizes[1:])]
            return {"a/b": {"~": (layers, jnp.ones(()))}, "a": {"b": jnp.ones(2)}, "file": jnp.ones(1)}

        def logits(params, x):
            layers, scale = params["a/b"]["~"]
            for layer in layers:
                x = x @ layer.W + layer.b
            return scale * x

        return Head(init, logits, logits, lambda params: (4, 5))

    def bare() -> Head:
        return Head(lambda key, p, classes: jnp.ones((p, classes)), lambda w, x: x @ w, lambda w, x: x @ w, None)
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "own_deep.py").write_text(dedent(OWN))
    yield
    sys.modules.pop("own_deep", None)


def test_any_tree_of_arrays_reads_back_by_path(own, table, tmp_path):
    from ggeur.heads import resolve

    given = {"widths": [3, 2], "until": datetime.date(2026, 1, 2)}
    params = resolve("own_deep:deep", **given).init(jax.random.key(0), 5, 4)
    rng = np.random.default_rng(0)
    params = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape).astype(np.float32), params)
    made = model(params=params, head="own_deep:deep", parameters=given)
    made.save(tmp_path / "m")
    assert {"a~1b/~0/0/1/W", "a~1b/~0/1", "a/b", "file"} <= set(np.load(tmp_path / "m" / "head.npz").files)
    loaded = Model.load(tmp_path / "m", custom=True)
    assert jax.tree.structure(loaded.params) == jax.tree.structure(params)
    jax.tree.map(np.testing.assert_array_equal, loaded.params, params)
    np.testing.assert_array_equal(loaded.probabilities(table), made.probabilities(table))
    assert loaded.parameters == {"widths": [3, 2], "until": "2026-01-02"}


def test_a_head_may_be_a_single_array(own, table, tmp_path):
    made = model(params=np.ones((5, 4), np.float32), head="own_deep:bare")
    made.save(tmp_path / "m")
    np.testing.assert_array_equal(Model.load(tmp_path / "m", custom=True).params, made.params)


def test_a_module_that_a_model_names_is_imported_only_where_that_is_allowed(own, tmp_path):
    model(params=np.ones((5, 4), np.float32), head="own_deep:bare").save(tmp_path / "m")
    assert told(tmp_path / "m").says("model-custom-untrusted: own_deep:bare") and "own_deep" not in sys.modules


def test_parameters_that_do_not_fit_the_arrays_are_refused(own, saved, tmp_path):
    about = json.loads((saved / "model.json").read_text())
    del about["sha256"]  # as a version before it wrote them
    for parameters, code in (({"hidden": 3}, "hyperparameter-unknown"), (3, "file-damaged"), ([1], "file-damaged")):
        (saved / "model.json").write_text(json.dumps(about | {"parameters": parameters}))
        assert told(saved).code == code
    shapes = {"W1": (7, 5), "b1": (7,), "W2": (4, 7), "b2": (4,)}
    params = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    model(params=params, head="mlp", parameters={"hidden": 6}).save(tmp_path / "m")
    assert told(tmp_path / "m").says("model-params-mismatch")
