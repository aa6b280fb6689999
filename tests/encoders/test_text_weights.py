"""CLIP folders that load and do not fit, each said in a sentence that names the file; and what a tower is known by."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from ggeur.encoders.text_weights import load_tower, tower_hash
from ggeur.heads import resolve as resolve_head
from ggeur.methods import resolve
from ggeur.methods.algorithm import Task
from ggeur.stats.errors import Unavailable
from refusal import refused

TOKENS = "text_model.embeddings.token_embedding.weight"
POSITIONS = "text_model.embeddings.position_embedding.weight"
DOWN = "text_model.encoder.layers.1.mlp.fc2.weight"


@pytest.fixture
def folder(language, tmp_path):
    return Path(shutil.copytree(language.folder, tmp_path / "clip"))


def configure(folder, **changes):
    about = json.loads((folder / "config.json").read_text())
    about["text_config"] |= changes
    (folder / "config.json").write_text(json.dumps(about))


def reweigh(folder, change):
    from safetensors.numpy import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file({name: np.ascontiguousarray(array) for name, array in weights.items()}, folder / "model.safetensors")


def cut(folder):
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])


def put(name, make):
    return lambda folder: reweigh(folder, lambda w: w.update({name: make(w[name])}))


def retoken(folder, *without):
    codes = json.loads((folder / "vocab.json").read_text())
    (folder / "vocab.json").write_text(json.dumps({part: code for part, code in codes.items() if part not in without}))


def nan(array):
    array = array.copy()
    array.flat[5] = np.nan
    return array


@pytest.mark.parametrize(
    "damage, words",
    [
        (
            lambda f: configure(f, num_attention_heads=3),
            "text-tower-invalid: config.json...3 num_attention_heads...16",
        ),
        (lambda f: configure(f, num_attention_heads=0), "text-tower-invalid: config.json...num_attention_heads is 0"),
        (
            lambda f: configure(f, num_attention_heads="2"),
            "text-tower-invalid: config.json...num_attention_heads is '2'",
        ),
        (lambda f: configure(f, num_hidden_layers=0), "text-tower-invalid: config.json...num_hidden_layers is 0"),
        (
            lambda f: configure(f, num_hidden_layers=3),
            "text-tower-invalid: model.safetensors...no text_model...layers.2",
        ),
        (
            lambda f: configure(f, num_hidden_layers=1),
            "text-tower-invalid: config.json...num_hidden_layers is 1",
        ),
        (lambda f: configure(f, layer_norm_eps="small"), "text-tower-invalid: config.json...layer_norm_eps is 'small'"),
        (lambda f: configure(f, hidden_act="relu"), "text-tower-invalid: config.json...hidden_act is 'relu'"),
        (lambda f: (f / "config.json").write_text("[1]"), "text-tower-invalid: config.json...cannot be read"),
        (
            put(DOWN, lambda w: w[:, :-1]),
            "text-tower-invalid: model.safetensors...fc2.weight...(16, 63)...(16, 64)",
        ),
        (put(POSITIONS, lambda w: w[:, :8]), "text-tower-invalid: model.safetensors...position_embedding is (16, 8)"),
        (
            put(TOKENS, lambda w: w[0]),
            "text-tower-invalid: model.safetensors...token_embedding.weight has the shape (16,)",
        ),
        (put(DOWN, nan), "text-tower-invalid: model.safetensors...fc2.weight holds numbers that are NaN"),
        (
            lambda f: reweigh(f, lambda w: w.pop("text_projection.weight")),
            "text-tower-invalid: model.safetensors...no text_projection",
        ),
        (cut, "text-tower-invalid: model.safetensors...cut short"),
        (lambda f: (f / "model.safetensors").unlink(), "text-tower-missing: model.safetensors"),
    ],
)
def test_what_does_not_fit_is_one_sentence_that_names_the_file(folder, damage, words):
    damage(folder)
    with refused(words) as caught:
        load_tower(folder)
    assert "\n" not in str(caught.value)


def built(folder, names=("ant", "bee"), d=16, **given):
    return resolve("fedtpg", resolve_head("linear"), {"clip": str(folder), **given}, task=Task(d, names)).method


@pytest.mark.parametrize(
    "damage, given, words",
    [
        (put(TOKENS, lambda w: w[:50]), {}, "tokenizer-vocabulary-mismatch: token 55...50 alone"),
        (put("text_projection.weight", lambda w: w[:12]), {"d": 12}, "text-tower-shape: 16 wide...12 dimensions"),
        (cut, {}, "text-tower-invalid: fedtpg:...model.safetensors...cut short"),
        (put("text_projection.weight", lambda w: 0 * w + 1e38), {}, "text-tower-not-finite"),
        (lambda f: retoken(f, "t</w>"), {}, "tokenizer-token-missing: t</w>...ant"),
        (None, {"contexts": 12}, "prompts-too-long: ant...18 tokens...12 contexts...16"),
        (None, {"contexts": 1000}, "prompts-too-long"),
        (None, {"names": ("ant", "a" * 40)}, "prompts-too-long"),
    ],
)
def test_what_fedtpg_cannot_use_leaves_it_out(folder, damage, given, words):
    if damage is not None:
        damage(folder)
    with refused(words, Unavailable):
        built(folder, **given)


def test_as_many_contexts_as_fit_are_taken(folder):
    assert built(folder, contexts=10).head.init is not None  # start, ten, three letters, a stop and the end are 16


def test_a_tower_is_known_by_its_files_and_not_by_where_it_lies(folder, tmp_path):
    before, text = tower_hash(folder), built(folder).head.frozen()["E"]
    moved = shutil.copytree(folder, tmp_path / "elsewhere")
    assert tower_hash(moved) == before == built(moved).head.weights()
    put(DOWN, lambda w: 2 * w)(folder)
    assert tower_hash(folder) != before
    assert np.abs(built(folder).head.frozen()["E"] - text).max() > 1e-3, "no old tower is kept"
    (moved / "merges.txt").write_text("#version: 0.2\na n\n")
    assert tower_hash(moved) != before
