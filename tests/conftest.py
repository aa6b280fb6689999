"""What the tests share: a small table and experiments on it, the real data beside the checkout, if it is there."""

import json
import os
import shutil
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import pytest
from hypothesis import settings

from ggeur.data.digits import images
from ggeur.data.table import EmbeddingTable
from ggeur.encoders.text_tower import BytePairs, Shape, TextTower, embed_tokens
from ggeur.encoders.text_weights import load_tower

SHARED = Path(__file__).resolve().parents[2] / "shared"
ABSENT = "../shared is not there"

# Three domains and four classes.
P, CLASSES, DOMAINS, PER_CELL = 5, ("ant", "bee", "cat", "dog"), ("art", "photo", "sketch"), 10

# Programs are compiled quickly rather than well: these problems are tiny. So do the commands that tests start, whose
# results are compared to the bit.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
jax.config.update("jax_disable_most_optimizations", os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] == "1")

# The first example of a test may wait for a compiler. Where CI is set, Hypothesis has a profile of its own.
settings.register_profile("ggeur", deadline=None)
if not os.environ.get("CI"):
    settings.load_profile("ggeur")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not SHARED.is_dir():
        for item in items:
            if item.get_closest_marker("real"):
                item.add_marker(pytest.mark.skip(reason=ABSENT))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data and weights; a test that asks for it is marked `real`."""
    if not SHARED.is_dir():
        pytest.skip(ABSENT)
    return SHARED


def make_table(domains=DOMAINS, seed=0, **changes):
    rng = np.random.default_rng(seed)
    y = np.tile(np.repeat(np.arange(len(CLASSES)), PER_CELL), len(domains))
    domain = np.repeat(np.arange(len(domains)), PER_CELL * len(CLASSES))
    shift = rng.normal(size=(len(domains), P))
    x = 2 * rng.normal(size=(len(CLASSES), P))[y] + shift[domain] + rng.normal(size=(len(y), P))
    values = dict(x=x.astype(np.float32), y=y, domain=domain, class_names=CLASSES, domain_names=domains)
    return EmbeddingTable(**(values | {"meta": {"encoder": "toy", "weights": "abc"}} | changes))


@pytest.fixture(scope="session")
def build_table():
    """The builder: build_table(domains=, seed=, **fields of EmbeddingTable)."""
    return make_table


@pytest.fixture(scope="session")
def table():
    return make_table()


@pytest.fixture(scope="session")
def table_file(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "toy.npz"
    table.save(path)
    return path


@pytest.fixture(scope="session")
def digits():
    """The built-in digits of seed 0, drawn once."""
    return images(seed=0)


@pytest.fixture(scope="session")
def tree(table_file):
    """A small experiment on the table, as a tree that tests may overlay."""

    def build(**sections):
        whole = {
            "data": {"table": str(table_file)},
            "partition": {"kind": "label-and-domain", "beta": 0.5},
            "augment": {"kind": "none", "target": 12, "per_prototype": 4},
            "train": {"rounds": 3, "local_epochs": 1, "batch_size": 8, "learning_rate": 0.05},
            "run": {"seeds": [0, 1]},
        }
        for name, values in sections.items():
            merge = isinstance(values, dict) and name in whole
            whole[name] = whole[name] | values if merge else values
        return whole

    return build


@pytest.fixture
def undrawn(monkeypatch):
    """Pages whose figures are made but left empty, for tests of words: drawing is nearly all of a page's time."""
    from matplotlib.figure import Figure

    empty = '<svg width="1pt" height="1pt"></svg>'
    monkeypatch.setattr(Figure, "savefig", lambda figure, file, **options: file.write(empty))


@pytest.fixture(scope="session")
def chromium():
    """A real browser, for tests marked `browser`."""
    from playwright.sync_api import sync_playwright

    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    assert path, "there is no chromium on the PATH; name one with CHROMIUM=..."
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        yield browser
        browser.close()


# ---------------------------------------------------------------- language

LETTERS = [chr(c) for c in range(ord("a"), ord("z") + 1)] + ["."]
WORDS = [*LETTERS, *(f"{c}</w>" for c in LETTERS), "<|startoftext|>", "<|endoftext|>"]


class Language(NamedTuple):
    folder: str
    shape: Shape
    tower: TextTower
    tokens: BytePairs

    def text(self, texts):
        return np.asarray(embed_tokens(self.shape, self.tower, [self.tokens(text) for text in texts]))

    def table(self, names=("ant", "bee", "cat"), each=12, domains=2, noise=0.3, seed=0, scale=10.0):
        """Rows about the texts of their classes, of every domain, every third for testing."""
        rng = np.random.default_rng(seed)
        text = self.text([f"a picture of a {name}" for name in names])
        y = np.tile(np.arange(len(names)), each * domains)
        x = text[y] + noise * rng.normal(size=(len(y), text.shape[1])) / np.sqrt(text.shape[1])
        return EmbeddingTable(
            x=(scale * x).astype(np.float32),
            y=y,
            domain=np.repeat(np.arange(domains), each * len(names)),
            test=np.arange(len(y)) // len(names) % 3 == 0,
            class_names=names,
            text={"fedclip": text, "bare": self.text(names)},
            meta={"encoder": "tiny-clip"},
        )


def write_clip(folder, d=16, layers=2, heads=2, context=16, seed=0):
    """config.json, model.safetensors and the tokens' files, as transformers writes and reads them."""
    from safetensors.numpy import save_file

    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(seed)

    def linear(rows, columns):
        return rng.normal(size=(rows, columns)).astype(np.float32) / np.sqrt(columns)

    def pair(name, rows, columns):
        bias = 0.1 * rng.normal(size=rows).astype(np.float32)
        return {f"{name}.weight": linear(rows, columns), f"{name}.bias": bias}

    def normal(name):
        return {f"{name}.weight": np.ones(d, np.float32), f"{name}.bias": np.zeros(d, np.float32)}

    stem = "text_model"
    weights = {
        f"{stem}.embeddings.token_embedding.weight": rng.normal(size=(len(WORDS), d)).astype(np.float32),
        f"{stem}.embeddings.position_embedding.weight": 0.3 * rng.normal(size=(context, d)).astype(np.float32),
        "text_projection.weight": linear(d, d),
        **normal(f"{stem}.final_layer_norm"),
    }
    for i in range(layers):
        layer = f"{stem}.encoder.layers.{i}"
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            weights |= pair(f"{layer}.self_attn.{part}", d, d)
        weights |= pair(f"{layer}.mlp.fc1", 4 * d, d) | pair(f"{layer}.mlp.fc2", d, 4 * d)
        weights |= normal(f"{layer}.layer_norm1") | normal(f"{layer}.layer_norm2")
    save_file(weights, folder / "model.safetensors")
    text = {
        "hidden_size": d,
        "intermediate_size": 4 * d,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "hidden_act": "quick_gelu",
        "layer_norm_eps": 1e-5,
        "max_position_embeddings": context,
        "vocab_size": len(WORDS),
        "projection_dim": d,
        "bos_token_id": len(WORDS) - 2,
        "eos_token_id": len(WORDS) - 1,
    }
    (folder / "config.json").write_text(json.dumps({"model_type": "clip", "projection_dim": d, "text_config": text}))
    (folder / "vocab.json").write_text(json.dumps({word: i for i, word in enumerate(WORDS)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    return Language(str(folder), *load_tower(folder), BytePairs(folder))


@pytest.fixture(scope="session")
def language(tmp_path_factory):
    """A tiny CLIP of random weights on disk, in the hub's layout, and tables whose rows lie about its texts."""
    return write_clip(tmp_path_factory.mktemp("language") / "tiny-clip")
