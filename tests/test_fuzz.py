"""Every file we read, damaged in thousands of ways: it loads to a valid object or gives a GgeurError, nothing else."""

import hashlib
import json
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ggeur
from ggeur.engine.simulate import State
from ggeur.experiments.checkpoint import Checkpoints, InFlight
from ggeur.experiments.grid import Experiment
from ggeur.experiments.result import Result, Trial
from ggeur.models.model import Model
from ggeur.stats.errors import GgeurError

PER_FORMAT = 320  # with the formats below, more than 2,000 files
SLOWEST, GROWTH = 5.0, 2**30

TRIAL = Trial(
    "fedavg", "ggeur", 0, {"arm": "a"}, domains={"x": 50.0}, avg=50.0, rounds=[49.0, 51.0], recall=[1.0, None]
)


def table(path: Path) -> None:
    rng = np.random.default_rng(0)
    ggeur.EmbeddingTable(
        x=rng.normal(size=(12, 3)).astype(np.float16),
        y=np.arange(12) % 3,
        domain=np.arange(12) % 2,
        test=np.arange(12) % 4 == 0,
        class_names=("cat", "dog", "épée"),
        text=rng.normal(size=(3, 3)),
        meta={"encoder": "builtin"},
    ).save(path)


def compressed_table(path: Path) -> None:
    np.savez_compressed(path.with_suffix(".npz"), x=np.zeros((40, 4), np.float32), y=np.arange(40) % 4)
    path.with_suffix(".npz").rename(path)


def experiment(path: Path) -> None:
    path.write_text(
        '[data]\ntable = "t.npz"\n[partition]\nkind = "dirichlet"\nbeta = [0.1, 0.5]\n'
        '[augment]\nkind = ["none", "ggeur"]\n'
        "[train]\nlearning_rate = 1e-3\nrounds = 3\n[method.fedprox]\nmu = 0.1\n[run]\nseeds = [0, 1]\n"
        '[[arm]]\nname = "a"\ntrain.batch_size = 8\n[[arm]]\nname = "b"\ntrain.batch_size = 16\n'
    )


def result(path: Path) -> None:
    path.write_text(Result([TRIAL, TRIAL]).to_json())


def checkpoint(path: Path) -> None:
    params = {"W": np.zeros((2, 3), np.float32), "b": np.zeros(2, np.float32)}
    path.mkdir()
    Checkpoints(path).save(0, State(2, [{"params": params}], (), ()), [InFlight(0, TRIAL, [{"x": 50.0}])])
    (path / "state-0").rename(path.with_suffix(".bytes"))
    path.rmdir()
    path.with_suffix(".bytes").rename(path)


def load_checkpoint(path: Path) -> object:
    folder = path.with_suffix(".folder")
    folder.mkdir(exist_ok=True)
    (folder / "state-0").write_bytes(path.read_bytes())
    return Checkpoints(folder).newest()


def load_signed_checkpoint(path: Path) -> object:
    """As an attacker would: the checksum made to fit the damage."""
    payload = path.read_bytes()[32:]
    path.write_bytes(hashlib.sha256(payload).digest() + payload)
    return load_checkpoint(path)


def head(path: Path) -> None:
    params = {"W": np.zeros((3, 4), np.float32), "b": np.zeros(3, np.float32)}
    Model(params, "linear", 4, ("a", "b", "c"), {"encoder": "builtin"}).save(path.parent / "model")
    path.write_bytes((path.parent / "model" / "head.npz").read_bytes())


def description(path: Path) -> None:
    head(path)
    path.write_bytes((path.parent / "model" / "model.json").read_bytes())


def load_with(name: str) -> Callable[[Path], object]:
    def load(path: Path) -> object:
        (path.parent / "model" / name).write_bytes(path.read_bytes())
        return Model.load(path.parent / "model")

    return load


def picture(kind: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        from PIL import Image

        pixels = np.random.default_rng(0).integers(0, 256, (12, 10, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path, format=kind)

    return make


def load_picture(path: Path) -> object:
    from ggeur.encoders.pictures import to_rgb

    return to_rgb(path.read_bytes())


def settings_of_a_tower(path: Path) -> None:
    path.write_text(json.dumps({"size": 64, "mean": [0.5, 0.5, 0.5], "std": [0.2, 0.2, 0.2], "resize": "squeeze"}))


def load_settings(path: Path) -> object:
    from ggeur.encoders.pictures import Preprocessing, read_side_file, side_file

    model = path.parent / "tower.onnx"
    side_file(model).write_bytes(path.read_bytes())
    return Preprocessing(**read_side_file(model))


FORMATS: dict[str, tuple[Callable[[Path], None], Callable[[Path], object]]] = {
    "table": (table, ggeur.EmbeddingTable.load),
    "compressed table": (compressed_table, ggeur.EmbeddingTable.load),
    "experiment": (experiment, Experiment.load),
    "result": (result, Result.load),
    "checkpoint": (checkpoint, load_checkpoint),
    "signed checkpoint": (checkpoint, load_signed_checkpoint),
    "head": (head, load_with("head.npz")),
    "model description": (description, load_with("model.json")),
    "jpeg": (picture("JPEG"), load_picture),
    "png": (picture("PNG"), load_picture),
    "tiff": (picture("TIFF"), load_picture),
    "onnx side file": (settings_of_a_tower, load_settings),
}


def mutations(original: bytes, how_many: int) -> Iterator[bytes]:
    """Flipped bits, overwritten, inserted, removed and doubled stretches, and cuts; seeded."""
    rng = np.random.default_rng(len(original))
    for i in range(how_many):
        content = bytearray(original)
        for _ in range(int(rng.integers(1, 5))):
            at = int(rng.integers(0, max(len(content), 1)))
            length = int(rng.integers(1, 17))
            kind = i % 6
            if kind == 0 and content:
                content[at] ^= 1 << int(rng.integers(8))
            elif kind == 1:
                content[at : at + length] = rng.bytes(length)
            elif kind == 2:
                content[at:at] = rng.bytes(length)
            elif kind == 3:
                del content[at : at + length]
            elif kind == 4:
                content[at:at] = content[max(0, at - length) : at]
            else:
                content = content[:at]
        yield bytes(content)


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_files_load_or_are_refused_in_a_sentence(name, tmp_path):
    make, load = FORMATS[name]
    path = tmp_path / "file"
    make(path)
    original = path.read_bytes()
    load(path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused = 0
    for content in mutations(original, PER_FORMAT):
        path.write_bytes(content)
        began = time.monotonic()
        try:
            load(path)
        except GgeurError as error:
            refused += 1
            assert "\n" not in str(error)
        assert time.monotonic() - began < SLOWEST
    assert refused or name == "checkpoint"  # a checkpoint whose checksum fails is as good as absent
    assert 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) < GROWTH


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150)
@given(key=st.sampled_from(sorted(asdict(TRIAL))), value=json_values)
def test_a_result_with_any_value_anywhere_is_valid_or_refused(tmp_path_factory, key, value):
    path = tmp_path_factory.mktemp("result") / "result.json"
    path.write_text(json.dumps({"schema": 1, "trials": [asdict(TRIAL) | {key: value}]}))
    try:
        loaded = Result.load(path)
    except GgeurError:
        return
    loaded.rows()
    loaded.to_json()


@settings(max_examples=150)
@given(
    section=st.sampled_from(["data", "partition", "augment", "train", "method", "run", "arm", "privacy"]),
    value=json_values,
)
def test_an_experiment_with_any_value_anywhere_is_valid_or_refused(section, value):
    tree = {"data": {"dataset": "mini-digits"}, section: value}
    with suppress(GgeurError):
        Experiment.of(tree).to_toml()
