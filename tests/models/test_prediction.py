"""Answers: whatever is given becomes samples of the model's encoder, and says which picture is meant."""

import json
from dataclasses import replace

import jax
import numpy as np
import pytest
from PIL import Image

import ggeur
from ggeur import heads
from ggeur.data.samples import Samples
from ggeur.encoders.builtin import BuiltinEncoder
from ggeur.encoders.encoder import about, load_encoder
from ggeur.models.model import Model
from ggeur.stats.errors import GgeurError
from refusal import refused

RNG = np.random.default_rng(0)
PHOTOS = RNG.integers(0, 256, (4, 24, 30, 3), np.uint8)
P = BuiltinEncoder.dimension
NAMES = ("ant", "bee", "cat")


@pytest.fixture(scope="module")
def model():
    params = {"W": RNG.normal(size=(3, P)).astype(np.float32), "b": np.zeros(3, np.float32)}
    return Model(params, "linear", P, NAMES, about(BuiltinEncoder()), calibration={"temperature": 1.0})


@pytest.fixture
def folder(tmp_path):
    """A flat folder of four pictures, and one that is none."""
    for i, photo in enumerate(PHOTOS):
        Image.fromarray(photo).save(tmp_path / f"{'dbca'[i]}.png")
    return tmp_path


@pytest.fixture(scope="module")
def wanted(model):
    return model.probabilities_of(BuiltinEncoder().encode(PHOTOS))


def test_pictures_in_every_form_get_the_same_answers(model, folder, wanted):
    by_name = wanted[[3, 1, 2, 0]]  # a, b, c, d
    forms = {
        "folder": (folder, by_name, ("a.png", "b.png", "c.png", "d.png")),
        "paths": ([folder / "d.png", folder / "a.png"], wanted[[0, 3]], (str(folder / "d.png"), str(folder / "a.png"))),
        "path": (str(folder / "b.png"), wanted[[1]], (str(folder / "b.png"),)),
        "pixels": (PHOTOS, wanted, tuple(f"picture {i}" for i in range(4))),
        "one picture": (PHOTOS[2], wanted[[2]], ("picture 0",)),
        "bytes": ((folder / "c.png").read_bytes(), wanted[[2]], ("picture 0",)),
        "Pillow's": ([Image.fromarray(PHOTOS[0])], wanted[[0]], ("picture 0",)),
        "embeddings": (BuiltinEncoder().encode(PHOTOS), wanted, ()),
        "a list of numbers": (BuiltinEncoder().encode(PHOTOS[:1]).tolist(), wanted[:1], ()),
    }
    for given, probabilities, names in forms.values():
        found = model.predict(given)
        np.testing.assert_allclose(found.probabilities, probabilities, atol=1e-6)
        assert found.names == names
        assert found.labels == [NAMES[c] for c in probabilities.argmax(axis=1)]


@pytest.mark.needs("hf")
def test_frames_and_tensors_are_taken_as_the_arrays_that_they_hold(model, folder, wanted):
    import pandas
    import torch

    x = BuiltinEncoder().encode(PHOTOS)
    forms = {
        "a frame": (pandas.DataFrame(x), wanted),
        "a tensor": (torch.tensor(x), wanted),
        "a list of tensors": ([torch.tensor(sample) for sample in x], wanted),
        "one sample": (torch.tensor(x[1]), wanted[[1]]),
        "a column of paths": (pandas.Series([str(folder / "d.png"), str(folder / "b.png")]), wanted[:2]),
        "pixels": (torch.tensor(PHOTOS), wanted),
        "a picture": (torch.tensor(PHOTOS[2]), wanted[[2]]),
    }
    for what, (given, probabilities) in forms.items():
        np.testing.assert_allclose(model.predict(given).probabilities, probabilities, atol=1e-6, err_msg=what)
    with refused("image-array-shape"):
        model.predict(torch.tensor(PHOTOS[0]).permute(2, 0, 1))
    with refused("prediction-input-type"):
        model.predict(torch.tensor(x, requires_grad=True))
    with refused("embeddings-type"):
        model.predict(pandas.DataFrame({"a": ["x"], "b": [1.0]}))


def test_numbers_that_are_not_the_heads_are_refused(model):
    with refused("model-params-mismatch: linear...3 classes"):
        replace(model, params={"W": np.zeros((3, P - 1), np.float32), "b": np.zeros(3, np.float32)}).predict(PHOTOS)


def test_a_model_alone_has_no_trials(model, tmp_path):
    model.save(tmp_path / "m")
    with refused("option-trial-without-run: trial 3"):
        ggeur.load_model(tmp_path / "m", trial=3)


def test_below_the_least_probability_there_is_no_answer(model, wanted):
    sure = np.sort(wanted.max(axis=1))
    found = model.predict(PHOTOS, reject=float(sure[1] + sure[2]) / 2)
    assert found.labels.count(None) == 2
    assert [label is None for label in found.labels] == (wanted.max(axis=1) < sure[2]).tolist()
    with refused("argument-not-probability"):
        model.predict(PHOTOS, reject=1.5)


def test_top_is_sorted_and_sums_to_one(model):
    (best,) = model.predict(PHOTOS[0]).top(3)
    assert [p for _, p in best] == sorted((p for _, p in best), reverse=True)
    assert sum(p for _, p in best) == pytest.approx(1, abs=1e-5) and {name for name, _ in best} == set(NAMES)


def test_a_skipped_picture_shifts_no_name(model, folder, wanted):
    (folder / "b.png").write_bytes(b"no picture")
    with refused("image-unreadable: b.png"):
        model.predict(folder)
    found = model.predict(folder, skip_unreadable=True)
    assert found.names == ("a.png", "c.png", "d.png") and "b.png" in found.unreadable[0]
    np.testing.assert_allclose(found.probabilities, wanted[[3, 2, 0]], atol=1e-6)


def test_folders_named_as_classes_are_the_truth_and_others_are_not(model, tmp_path):
    for i, place in enumerate(("ant", "x/bee", "cat")):
        (tmp_path / place).mkdir(parents=True)
        Image.fromarray(PHOTOS[i]).save(tmp_path / place / "1.png")
    found = model.predict(tmp_path)
    assert found.truth == ("ant", "cat", "bee") and found.from_folders
    (tmp_path / "dog").mkdir()
    Image.fromarray(PHOTOS[3]).save(tmp_path / "dog" / "1.png")
    assert model.predict(tmp_path).truth == ()


def test_a_table_without_labels_is_labelled_and_keeps_its_names(model, tmp_path, wanted):
    x = BuiltinEncoder().encode(PHOTOS)
    Samples(x, tuple("dbca"), meta=about(BuiltinEncoder())).save(tmp_path / "new.npz")
    found = model.predict(tmp_path / "new.npz")
    assert found.names == tuple("dbca") and found.truth == ()
    np.testing.assert_allclose(found.probabilities, wanted, atol=1e-6)
    with refused("file-not-table: labels"):
        ggeur.EmbeddingTable.load(tmp_path / "new.npz")
    np.savez(tmp_path / "bare.npz", x=x)
    assert model.predict(tmp_path / "bare.npz").names == ()


def test_a_labelled_table_brings_its_labels_and_its_pictures(model, tmp_path):
    x = BuiltinEncoder().encode(PHOTOS)
    table = ggeur.EmbeddingTable(x=x, y=[0, 1, 1, 0], class_names=("bee", "ant"), path=tuple("dbca"))
    table.subset([2, 0]).save(tmp_path / "t.npz")
    found = model.predict(tmp_path / "t.npz")
    assert found.names == ("c", "d") and found.truth == ("ant", "bee") and not found.from_folders


def test_another_encoder_is_refused(model, tmp_path):
    with refused("embeddings-dimension-mismatch: 488"):
        model.predict(np.zeros((2, 5), np.float32))
    other = replace(model, encoder={**about(BuiltinEncoder()), "weights": "other"})
    with refused("encoder-mismatch"):
        other.predict(PHOTOS)
    other = replace(model, encoder={**about(BuiltinEncoder()), "preprocessing": "colour"})
    with refused("encoder-preprocessing-mismatch"):
        other.predict(PHOTOS)


@pytest.mark.parametrize(
    "encoder, words",
    [
        ({}, "model-encoder-unknown"),
        ({"encoder": "onnx:tower.onnx"}, "model-encoder-file-missing: tower.onnx"),
        ({"encoder": "os:getcwd"}, "model-custom-untrusted"),
    ],
)
def test_an_encoder_that_a_model_cannot_find_is_asked_for(model, encoder, words):
    with refused(words):
        replace(model, encoder=encoder).predict(PHOTOS)


@pytest.mark.parametrize("given", [[], None, 3, {}, np.zeros((2, 2, 2, 2), np.uint8)], ids=str)
def test_what_is_neither_is_refused(model, given):
    with pytest.raises(GgeurError):
        model.predict(given)


@pytest.mark.parametrize(
    "shape", [(3, 24, 30), (5, 24, 30), (24, 30, 4), (24, 30, 1), (720,), (32, 0, 3), (0, 0)], ids=str
)
def test_pixels_that_may_be_one_picture_or_many_are_refused(model, shape):
    with refused("image-pixels-empty" if 0 in shape else "image-array-shape"):
        model.predict(np.zeros(shape, np.uint8))


@pytest.mark.parametrize("mode", ["deep", "clear"])
def test_an_image_of_pillows_is_read_as_its_file_is(model, tmp_path, mode):
    deep, clear = PHOTOS[0, :, :, 0].astype(np.uint16) * 257, np.dstack([PHOTOS[0], PHOTOS[1, :, :, 0]])
    image = Image.fromarray(deep if mode == "deep" else clear)
    image.save(tmp_path / "one.png")
    np.testing.assert_array_equal(model.predict(image).probabilities, model.predict(tmp_path / "one.png").probabilities)


def test_a_network_takes_bytes_laid_flat_as_pictures():
    head, encoder = heads.resolve("simplecnn"), load_encoder("pixels:16")
    params = jax.tree.map(np.asarray, head.init(jax.random.key(0), 768, 3))
    network = Model(params, "simplecnn", 768, NAMES, about(encoder))
    pictures = RNG.integers(0, 256, (5, 16, 16, 3), np.uint8)
    found = network.predict(pictures.reshape(5, -1))
    np.testing.assert_allclose(found.probabilities, network.predict(pictures).probabilities, atol=1e-6)


def test_a_file_inside_a_model_is_not_the_model(model, tmp_path):
    model.save(tmp_path / "m")
    for name in ("head.npz", "model.json"):
        with refused("folder-is-file: name the folder...m"):
            ggeur.load_model(tmp_path / "m" / name)


def test_a_temperature_divides_the_logits_and_is_kept(model, tmp_path):
    warm = replace(model, calibration={"temperature": 4.0, "validation": {}})
    warm.save(tmp_path / "m")
    x = BuiltinEncoder().encode(PHOTOS)
    z = x.astype(np.float64) @ model.params["W"].T.astype(np.float64) / 4
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(ggeur.load_model(tmp_path / "m").predict(x).probabilities, p, atol=1e-5)
    about_it = json.loads((tmp_path / "m" / "model.json").read_text()) | {"calibration": {"temperature": 0}}
    (tmp_path / "m" / "model.json").write_text(json.dumps({k: v for k, v in about_it.items() if k != "sha256"}))
    with refused("file-damaged: temperature"):
        ggeur.load_model(tmp_path / "m")


def test_wrong_types_are_a_sentence(tmp_path):
    model = ggeur.Model({"W": np.eye(2, dtype=np.float32), "b": np.zeros(2, np.float32)}, "linear", 2, ("a", "b"), {})
    for wrong in (
        lambda: ggeur.load_model(None),
        lambda: ggeur.load_model("\0"),
        lambda: model.predict([[1.0, 2.0]], reject=None),
        lambda: model.predict([[1.0, 2.0]]).top(0),
        lambda: model.predict([[1.0, 2.0]]).top(1.5),
        lambda: ggeur.load_encoder("onnx:"),
        lambda: model.predict([[1.0, 2.0], [3.0]]),
        lambda: model.predict(np.zeros((4, 4, 3), np.uint8), encoder=1),
        lambda: ggeur.augment([[1.0]], [0], None, scale=None, target=10**29),
        lambda: ggeur.ClassStatistics.from_embeddings([[1.0]], [0], 10**29),
        lambda: ggeur.fit([([[1.0]], [0])], on_head=3),
        lambda: ggeur.run(ggeur.Experiment.of({"data": {"dataset": "mini-digits"}}), on_round=3),
        lambda: ggeur.fit([([[1.0]], [0])], min_count=-1),
        lambda: ggeur.fit([([[1.0]], [0])], parameters=5),
    ):
        with pytest.raises(ggeur.GgeurError):
            wrong()


def test_an_uncalibrated_model_refuses_nothing(model):
    with refused("model-uncalibrated: nothing fitted"):
        replace(model, calibration={}).predict(PHOTOS, reject=0.5)
    with refused("model-uncalibrated: pooled"):
        replace(model, calibration={"why": "pooled covariances"}).predict(PHOTOS, reject=0.5)
