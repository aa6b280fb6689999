"""Exports say what the model says, to 1e-5: ONNX, torch, scikit-learn, the hub; any head, whatever comes first."""

import importlib.util
import json
import pickle
from dataclasses import replace

import jax
import numpy as np
import pytest
from scipy.special import softmax

import ggeur
from ggeur.heads import IMAGES
from ggeur.heads import resolve as resolve_head
from ggeur.models.exports.export_folder import write_hub, write_torch
from ggeur.models.exports.onnx_graph import write_onnx
from ggeur.models.model import Model
from ggeur.privacy.bounded_norm import BoundedNorm
from ggeur.stats.units import Units
from refusal import refused

P, SIDE, NAMES = 6, 16, ("ant", "bee", "cat")
RNG = np.random.default_rng(1)
FAR = 2e4  # how far from zero the rows of a one-shot classifier lie, in units of their spread


def rows(n=50, p=P, at=0.0):
    return (RNG.normal(size=(n, p)) + at).astype(np.float32)


def calibrated(t):
    return {
        "temperature": t,
        "validation": {"samples": 9, "error": 1.0, "error_before": 2.0, "coverage": [[0.0, 100.0, 90.0]]},
    }


def trained(kind, names=NAMES):
    shapes = {"linear": {"W": (len(names), P), "b": (len(names),)}}
    shapes["mlp"] = {"W1": (7, P), "b1": (7,), "W2": (len(names), 7), "b2": (len(names),)}
    shapes["cosine"] = {"text": (len(names), P)}
    shapes["adapter"] = {"W1": (P, P), "b1": (P,), "W2": (P, P), "b2": (P,), "text": (len(names), P)}
    params = {name: RNG.normal(size=shape).astype(np.float32) for name, shape in shapes[kind].items()}
    return Model(params, kind, P, names, {"encoder": "toy"}, {"hidden": 7} if kind == "mlp" else {})


def with_a_zero(x):
    """A row that is like no text at all."""
    x[0] = 0
    return x


def solved(method, **parameters):
    """A head solved from rows far from zero, whose intercepts must cancel large numbers."""
    x, y = rows(120, at=FAR), np.tile(NAMES, 40)
    x += np.where(y == "ant", 2, 0)[:, None] * np.eye(P)[0] + np.where(y == "bee", 2, 0)[:, None] * np.eye(P)[1]
    found = ggeur.fit({"a": (x[:60], y[:60]), "b": (x[60:] + 1, y[60:])}, method=method, parameters=parameters)
    from ggeur.heads import sizes

    kind = found.solution_.solved.head
    return Model(found.params_, kind, P, NAMES, {}, sizes(kind, found.params_), calibration=calibrated(1.7))


def network(name, **parameters):
    """A network on small pictures, of random numbers that keep its layers' values about as large as they come."""
    rng, init = np.random.default_rng(0), resolve_head(name, **parameters).init
    shapes = jax.eval_shape(lambda key: init(key, SIDE * SIDE * 3, len(NAMES)), jax.random.key(0))
    fans = {1: lambda a: 1, 2: lambda a: a.shape[1], 4: lambda a: a.size // a.shape[3]}
    params = jax.tree.map(
        lambda a: (rng.normal(size=a.shape) * np.sqrt(2 / fans[a.ndim](a))).astype(np.float32), shapes
    )
    x = rng.integers(0, 256, (20, SIDE * SIDE * 3)).astype(np.float32)
    return Model(params, name, x.shape[1], NAMES, {"encoder": f"pixels:{SIDE}"}, parameters), x


MODELS = {
    "linear": lambda: (trained("linear"), rows()),
    "two classes": lambda: (trained("linear", NAMES[:2]), rows()),
    "calibrated": lambda: (replace(trained("linear"), calibration=calibrated(0.3)), rows()),
    "mlp": lambda: (trained("mlp"), rows()),
    "cosine": lambda: (trained("cosine"), with_a_zero(rows())),
    "adapter": lambda: (trained("adapter"), with_a_zero(rows())),
    "simplecnn": lambda: network("simplecnn", normalise="cifar10"),
    "resnet10": lambda: network("resnet10"),
    "lda": lambda: (solved("lda"), rows(at=FAR)),
    "mixture": lambda: (solved("mixture"), rows(at=FAR)),
    "blend": lambda: (solved("blend"), rows(at=FAR)),
    "kernel": lambda: (solved("kernel"), rows(at=FAR)),
    "kernel alone": lambda: (solved("kernel", form="alone"), rows(at=FAR)),
    "units": lambda: (replace(trained("mlp"), units=Units(np.full(P, FAR), 0.5)), rows(at=FAR)),
    "ball": lambda: (replace(trained("linear"), ball=BoundedNorm(1.5)), rows()),
    "projected": lambda: (
        replace(trained("linear"), ball=BoundedNorm(1.5, P), encoder={"dimension": 9}, units=Units(np.zeros(P), 2.0)),
        rows(p=9),
    ),
}


@pytest.fixture(params=MODELS, scope="module")
def case(request):
    model, x = MODELS[request.param]()
    wanted = model.probabilities(ggeur.EmbeddingTable(x=x, y=np.zeros(len(x), np.int64)))
    assert wanted.max(axis=1).std() > 0.05 or wanted.max(axis=1).mean() < 0.999, "a case that can tell"
    return model, x, wanted


@pytest.mark.needs("onnx")
def test_the_onnx_graph(case, tmp_path):
    import onnxruntime

    model, x, wanted = case
    write_onnx(model, tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    label, found = session.run(["label", "probabilities"], _input(model, x))
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert label.tolist() == [model.class_names[c] for c in wanted.argmax(axis=1)]
    said = session.get_modelmeta().custom_metadata_map
    assert json.loads(said["class_names"]) == list(model.class_names)


def _input(model, x):
    return {"pictures": x.reshape(-1, SIDE, SIDE, 3).astype(np.uint8)} if model.head in IMAGES else {"embeddings": x}


@pytest.mark.needs("hf")
def test_the_torch_module_which_imports_nothing_of_ours(case, tmp_path):
    import torch

    model, x, wanted = case
    write_torch(model, tmp_path / "m")
    source = (tmp_path / "m" / "model.py").read_text()
    assert "import ggeur" not in source and "from ggeur" not in source
    spec = importlib.util.spec_from_file_location("exported_model", tmp_path / "m" / "model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    classifier = module.Classifier()
    np.testing.assert_allclose(classifier(torch.from_numpy(x)).numpy(), wanted, atol=1e-5)
    assert classifier.label(torch.from_numpy(x)) == [model.class_names[c] for c in wanted.argmax(axis=1)]
    assert classifier.label(torch.from_numpy(x[:0])) == []
    assert set(classifier.state_dict()) >= set(np.load(_saved(model, tmp_path / "s")).files)


@pytest.mark.needs("onnx")
def test_at_clips_width_it_is_as_near_to_the_cosine_as_float32_can_be(tmp_path):
    """Of 100 texts that are much alike logits are about 80, whose last digit in float32 is 1e-5."""
    import onnxruntime

    rng, p, classes = np.random.default_rng(0), 512, 100
    text = (rng.normal(size=p) + 0.3 * rng.normal(size=(classes, p))).astype(np.float32)
    x = 3 * (text[rng.integers(classes, size=50)] + rng.normal(size=(50, p)).astype(np.float32))
    model = Model({"text": text}, "cosine", p, tuple(map(str, range(classes))), {})
    write_onnx(model, tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    (found,) = session.run(["probabilities"], {"embeddings": x})
    t, u = (a / np.linalg.norm(a, axis=1, keepdims=True) for a in (text.astype(np.float64), x.astype(np.float64)))
    wanted = softmax(100 * u @ t.T, axis=1)
    np.testing.assert_allclose(found, wanted, atol=3e-5)
    np.testing.assert_allclose(model.probabilities_of(x), wanted, atol=3e-5)


def _saved(model, folder):
    model.save(folder)
    return folder / "head.npz"


def test_the_object_of_scikit_learn(case):
    model, x, wanted = case
    classifier = model.to_sklearn()
    np.testing.assert_allclose(classifier.predict_proba(x), wanted, atol=1e-5)
    assert classifier.predict(x).tolist() == [model.class_names[c] for c in wanted.argmax(axis=1)]
    again = pickle.loads(pickle.dumps(classifier))  # a user's choice, never ours
    np.testing.assert_array_equal(again.predict_proba(x), classifier.predict_proba(x))
    assert classifier.score(x, classifier.predict(x)) == 1.0


def test_a_linear_head_is_scikit_learns_own():
    assert type(trained("linear").to_sklearn()).__module__.startswith("sklearn.")


def test_the_hub_folder_loads_back(case, tmp_path):
    model, x, wanted = case
    write_hub(model, tmp_path / "hub")
    assert sorted(p.name for p in (tmp_path / "hub").iterdir()) == [
        *("README.md", "config.json", "model.py", "model.safetensors")
    ]
    again = ggeur.load_model(tmp_path / "hub")
    np.testing.assert_array_equal(again.predict(x).probabilities, wanted)
    assert again.about() == model.about()


@pytest.mark.needs("docs")
def test_the_hub_card_begins_with_metadata(tmp_path):
    import yaml

    metrics = {"domains": {"art": 91.25, "photo": 88.0}, "avg": 89.6, "samples": {"art": 400, "photo": 100}}
    model = replace(trained("linear"), metrics=metrics, encoder={"encoder": "openai/clip-vit-base-patch16"})
    write_hub(model, tmp_path / "hub")
    _, head, text = (tmp_path / "hub" / "README.md").read_text().split("---\n", 2)
    about = yaml.safe_load(head)
    assert about["library_name"] == "ggeur" and about["base_model"] == "openai/clip-vit-base-patch16"
    assert about["model-index"][0]["results"][0]["metrics"][0]["value"] == 91.25
    assert "uncalibrated" in text and "Not for:" in text and "art 91.2 ± 1.4 (400 samples)" in text


def test_a_temperature_of_ones_own_needs_no_rows_to_be_told(tmp_path):
    model = replace(trained("linear"), calibration={"temperature": 2.0})
    write_hub(model, tmp_path / "hub")
    assert "logits are divided by 2, and nothing says" in (tmp_path / "hub" / "README.md").read_text()
    assert ggeur.load_model(tmp_path / "hub").temperature == 2.0
    with refused("argument-not-positive"):
        replace(model, calibration={"temperature": -1})


@pytest.mark.parametrize("damage", ["config", "weights", "other"])
def test_a_damaged_export_is_refused_in_a_sentence(tmp_path, damage):
    write_hub(trained("linear"), tmp_path / "hub")
    if damage == "config":
        (tmp_path / "hub" / "config.json").write_text("{")
    elif damage == "weights":
        content = (tmp_path / "hub" / "model.safetensors").read_bytes()
        (tmp_path / "hub" / "model.safetensors").write_bytes(content[:40])
    else:
        (tmp_path / "hub" / "config.json").write_text('{"model_type": "bert"}')
    with refused("file-damaged"):
        ggeur.load_model(tmp_path / "hub")


def test_an_own_head_is_not_exported(tmp_path):
    with refused("export-head-unsupported"):
        write_torch(replace(trained("linear"), head="mine:head"), tmp_path / "m")


def test_a_folder_with_other_things_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with refused("folder-taken"):
        write_hub(trained("linear"), tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.needs("onnx")
@pytest.mark.parametrize("normalize", [False, True])
def test_encoder_and_head_in_one_graph(tmp_path, normalize):
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    from ggeur.encoders.encoder import about, load_encoder

    w = RNG.normal(size=(3, P)).astype(np.float32)
    nodes = [
        helper.make_node("GlobalAveragePool", ["images"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w"], ["embedding"]),
    ]
    given = helper.make_tensor_value_info("images", TensorProto.FLOAT, ["n", 3, 16, 16])
    made = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["n", P])
    graph = helper.make_graph(nodes, "g", [given], [made], [numpy_helper.from_array(w, "w")])
    tower = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    (tmp_path / "tower.onnx").write_bytes(tower.SerializeToString())
    encoder = load_encoder(f"onnx:{tmp_path / 'tower.onnx'}", normalize=normalize)
    model = replace(trained("mlp"), encoder=about(encoder), units=Units(np.full(P, 0.1), 0.5))
    write_onnx(model, tmp_path / "whole.onnx", encoder)
    photos = [RNG.integers(0, 256, (20, 30, 3), np.uint8) for _ in range(7)]
    pixels = np.stack([encoder.prepare(photo) for photo in photos])
    session = onnxruntime.InferenceSession(str(tmp_path / "whole.onnx"))
    label, found = session.run(["label", "probabilities"], {"images": pixels})
    answers = model.predict(photos, encoder=encoder)
    np.testing.assert_allclose(found, answers.probabilities, atol=1e-5)
    assert label.tolist() == answers.labels
