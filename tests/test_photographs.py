"""Real photographs through a real encoder: labels, the same through every export, and the whole way from folders."""

import csv
import json
import random
import subprocess
import sys
import time

import numpy as np
import pytest

import ggeur
from ggeur.encoders.encoder import about, load_encoder

pytestmark = [pytest.mark.real, pytest.mark.needs("onnx")]


def tower(shared):
    return f"onnx:{shared / 'weights' / 'tiny_vit_5m_224_in22k.onnx'}"


@pytest.fixture(scope="module")
def photographs(shared, tmp_path_factory):
    """Twenty photographs, and a model of all the others, fitted to their embeddings."""
    encoder = load_encoder(tower(shared))
    table = ggeur.EmbeddingTable.load(shared / "data" / "embeddings" / "office_caltech10.tinyvit.npz")
    new = np.random.default_rng(0).choice(len(table), 20, replace=False)
    rest = np.setdiff1d(np.arange(len(table)), new)
    sites = {
        name: ggeur.EmbeddingTable(x=table.x[rows], y=table.y[rows], class_names=table.class_names, meta=about(encoder))
        for d, name in enumerate(table.domain_names)
        for rows in [rest[table.domains[rest] == d]]
    }
    folder = tmp_path_factory.mktemp("photographs") / "model"
    ggeur.fit(sites, method="lda", out=folder)
    root = shared / "data" / "images" / "office_caltech10"
    return folder, [root / table.path[i] for i in new], [table.class_names[c] for c in table.y[new]], encoder


def test_twenty_photographs_get_their_labels_and_every_export_agrees(photographs, tmp_path):
    import onnxruntime
    import torch

    from ggeur.encoders.pictures import to_rgb
    from ggeur.models.exports.onnx_graph import write_onnx

    folder, photos, truth, encoder = photographs
    model = ggeur.load_model(folder)
    answers = model.predict(photos, encoder=encoder)
    assert sum(found == true for found, true in zip(answers.labels, truth, strict=True)) >= 18
    pixels = np.stack([encoder.prepare(to_rgb(photo.read_bytes())) for photo in photos])
    assert pixels.shape == (20, 3, 224, 224)
    write_onnx(model, tmp_path / "whole.onnx", encoder)
    session = onnxruntime.InferenceSession(str(tmp_path / "whole.onnx"))
    label, sure = session.run(["label", "probabilities"], {session.get_inputs()[0].name: pixels})
    np.testing.assert_allclose(sure, answers.probabilities, atol=1e-5)
    assert label.tolist() == answers.labels
    x = encoder.forward(pixels)
    np.testing.assert_allclose(model.to_sklearn().predict_proba(x), answers.probabilities, atol=1e-5)
    from ggeur.models.exports.export_folder import write_hub
    from ggeur.models.exports.torch_module import Classifier

    write_hub(model, tmp_path / "hub")
    np.testing.assert_allclose(
        Classifier(tmp_path / "hub")(torch.from_numpy(x)).numpy(), answers.probabilities, atol=1e-5
    )


@pytest.mark.slow
def test_from_four_folders_of_photographs_to_labels_of_new_ones_in_two_commands(shared, tmp_path):
    """Seven tenths of every domain at its site, the rest new: what took no part is labelled."""
    rng = random.Random(0)
    for photo in sorted((shared / "data" / "images" / "office_caltech10").rglob("*.jpg")):
        domain, label = photo.parts[-3:-1]
        place = tmp_path / domain / label if rng.random() < 0.7 else tmp_path / "new" / label
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{domain}-{photo.name}").symlink_to(photo)
    began = time.perf_counter()
    for command in (
        ["fit", "amazon", "caltech", "dslr", "webcam", "--out", "model"],
        ["predict", "model", "new", "--out", "labels.csv"],
    ):
        argv = [sys.executable, "-m", "ggeur", *command, "--encoder", tower(shared)]
        subprocess.run(argv, cwd=tmp_path, check=True)
    lines = list(csv.DictReader((tmp_path / "labels.csv").open(newline="")))
    right = np.mean([line["class"] == line["file"].split("/")[0] for line in lines])
    print(f"{100 * right:.2f} % of {len(lines)} new photographs, {time.perf_counter() - began:.0f} seconds")
    assert len(lines) > 600 and right > 0.95
    said = json.loads((tmp_path / "model" / "model.json").read_text())["calibration"]
    assert said["validation"]["error"] < 3
