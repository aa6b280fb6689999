"""`ggeur embed` and experiments that name a dataset: what is written, what is said, and what is refused."""

import io
import sys

import numpy as np
import pytest
from PIL import Image

from ggeur.data.samples import Samples
from ggeur.data.table import EmbeddingTable
from ggeur.data.tables.files import TableFiles
from ggeur.encoders.builtin import BuiltinEncoder

RNG = np.random.default_rng(0)


def jpeg(size=(40, 30)):
    file = io.BytesIO()
    Image.fromarray(RNG.integers(0, 256, (*size, 3), np.uint8)).save(file, "JPEG")
    return file.getvalue()


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder of photographs in two domains and three classes, one's own cache, and we are beside it."""
    for domain in ("north", "süden"):
        for name in ("ant", "bee", "cat"):
            (tmp_path / "photos" / domain / name).mkdir(parents=True)
            for i in range(8):
                (tmp_path / "photos" / domain / name / f"{i}.jpg").write_bytes(jpeg())
    monkeypatch.setenv("GGEUR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_folder_becomes_a_table(ggeur, place):
    code, out, _ = ggeur("embed", "photos", "--encoder", "builtin", "--out", "t.npz")
    table = EmbeddingTable.load("t.npz")
    assert code == 0 and "48 embeddings are in t.npz" in out and "embedding: 48 images in" in out
    assert table.x.shape == (48, 488) and table.domain_names == ("north", "süden")
    assert table.class_names == ("ant", "bee", "cat") and table.meta["dataset"] == "photos"
    first = np.asarray(Image.open("photos/north/ant/0.jpg"))
    np.testing.assert_allclose(table.x[0], BuiltinEncoder().encode(first[None])[0], atol=1e-5)


def test_a_second_run_is_from_the_cache_and_writes_the_same_file(ggeur, place):
    ggeur("embed", "photos", "--encoder", "builtin", "--out", "one.npz")
    _, out, _ = ggeur("embed", "photos", "--encoder", "builtin", "--out", "two.npz")
    assert "from the cache" in out and (place / "one.npz").read_bytes() == (place / "two.npz").read_bytes()


def test_unreadable_images_are_refused_or_listed(ggeur, place):
    (place / "photos/north/bee/[3].jpg").write_bytes(jpeg()[:-200])
    (place / "photos/süden/cat/readme.txt").write_text("hello")
    code, _, err = ggeur("embed", "photos", "--encoder", "builtin", "--out", "t.npz")
    assert code == 2 and err.says("image-unreadable: photos/north/bee/[3].jpg...--skip-unreadable")
    assert not (place / "t.npz").exists()
    code, out, _ = ggeur("embed", "photos", "--encoder", "builtin", "--out", "t.npz", "--skip-unreadable")
    assert code == 0 and "skipped: photos/north/bee/[3].jpg: " in out and "readme.txt: it is not an image" in out
    assert "left out as unreadable: 2" in out and len(EmbeddingTable.load("t.npz")) == 48


def test_a_class_that_a_domain_lacks_is_noted(ggeur, place):
    (place / "photos" / "north" / "dog").mkdir()
    code, out, _ = ggeur("embed", "photos", "--encoder", "builtin", "--out", "t.npz")
    assert code == 0 and "note: Domain north has no images of class dog." in out


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["nowhere"], "dataset-unknown"),
        (["photos", "--data", "nowhere", "--share", "0.5"], "dataset-without-test-set"),
        (["cifar10", "--data", "nowhere"], "folder-missing: nowhere"),
        (["office-caltech", "--data", "photos"], "dataset-not-found: photos"),
        (["photos", "--encoder", "onnx:nowhere.onnx"], "file-missing: nowhere.onnx"),
        (["photos", "--size", "32"], "encoder-preprocessing-fixed: builtin"),
        (["photos", "--prompt", "a photo"], "prompts-without-placeholder"),
        (["photos", "--prompts", "clip18"], "encoder-without-text-tower: builtin"),
        (["photos", "--prompt", "a scan of a {}"], "encoder-without-text-tower: builtin"),
        (["photos/north/ant", "--prompts", "single"], "class-names-missing"),
        (["photos", "--out", "no/such/folder/t.npz"], "output-folder-missing: no/such/folder/t.npz"),
        (["photos", "--out", "photos"], "output-folder-missing: photos"),
    ],
)
def test_mistakes_are_one_sentence_and_write_nothing(ggeur, place, arguments, words):
    options = {"--encoder": "builtin", "--out": "t.npz"} | dict(zip(arguments[1::2], arguments[2::2], strict=True))
    code, _, err = ggeur("embed", arguments[0], *(part for pair in options.items() for part in pair))
    assert code == 2 and err.count("\n") == 1 and err.startswith("error: ")
    assert err.says(words) and not (place / "t.npz").exists()


def test_a_missing_extra_names_the_pip_command(ggeur, place, monkeypatch):
    (place / "m.onnx").write_bytes(b"")
    for encoder, module, extra in (("onnx:m.onnx", "onnxruntime", "onnx"), ("some/model", "transformers", "hf")):
        monkeypatch.setitem(sys.modules, module, None)
        code, _, err = ggeur("embed", "photos", "--encoder", encoder, "--out", "t.npz")
        assert code == 2 and err.says(f"extra-missing: [{extra}]")


EXPERIMENT = """
[data]
dataset = "{dataset}"
encoder = "builtin"
[train]
rounds = 1
local_epochs = 1
"""


def test_an_experiment_may_name_a_dataset_or_a_folder(ggeur, place):
    (place / "exp.toml").write_text(EXPERIMENT.format(dataset=place / "photos"))
    code, out, err = ggeur("run", "exp.toml", "--out", "RUN", "--set", "partition.kind=domain")
    assert code == 0, err
    assert "Embedding the 48 images" in out and "north" in out and (place / "cache" / "embeddings").is_dir()
    (place / "exp.toml").write_text(EXPERIMENT.format(dataset="cifar10"))
    code, _, err = ggeur("run", "exp.toml", "--out", "RUN2", "--set", "data.encoder=builtin")
    assert code == 2 and err.says("dataset-not-found: cifar10") and not (place / "RUN2").exists()


@pytest.mark.real
def test_datasets_says_what_was_found(ggeur, place, shared):
    code, out, _ = ggeur("datasets", "--data", shared / "data" / "images")
    assert code == 0 and "office-caltech: found in" in out and "pacs: on the hub as flwrlabs/pacs" in out


def test_an_onnx_file_is_looked_for_beside_the_experiment(ggeur, place):
    (place / "deep").mkdir()
    text = EXPERIMENT.format(dataset=place / "photos").replace('"builtin"', '"onnx:tower.onnx"')
    (place / "deep" / "exp.toml").write_text(text)
    code, _, err = ggeur("run", "deep/exp.toml", "--out", "RUN")
    assert code == 2 and err.says(f"file-missing: {place / 'deep' / 'tower.onnx'}")


@pytest.mark.parametrize("end", ["npz", pytest.param("parquet", marks=pytest.mark.needs("tables"))])
def test_shards_are_the_whole_table(ggeur, place, end):
    ggeur("embed", "photos", "--encoder", "builtin", "--out", "whole.npz")
    for i in range(1, 6):
        code, *_ = ggeur("embed", "photos", "--encoder", "builtin", "--shard", f"{i}/5", "--out", f"part-{i}.{end}")
        assert code == 0
    whole, parts = EmbeddingTable.load("whole.npz"), TableFiles(f"part-*.{end}").read()
    assert parts.fingerprint() == whole.fingerprint() and parts.path == whole.path and parts.meta == whole.meta


@pytest.mark.needs("tables")
def test_pictures_without_labels_are_written_as_parquet(ggeur, place):
    (place / "new").mkdir()
    for i in range(5):
        (place / "new" / f"{i}.jpg").write_bytes(jpeg())
    ggeur("embed", "new", "--encoder", "builtin", "--out", "new.npz")
    for i in (1, 2):
        ggeur("embed", "new", "--encoder", "builtin", "--shard", f"{i}/2", "--out", f"new-{i}.parquet")
    found, want = list(TableFiles("new-*.parquet", labelled=False).pieces()), Samples.load("new.npz")
    assert np.array_equal(np.concatenate([piece.x for piece in found]), want.x)
    assert sum((piece.id for piece in found), ()) == want.names


def test_a_shard_that_cannot_be(ggeur, place):
    for shard, says in (("0/5", "option-shard-invalid"), ("6/5", "option-shard-invalid"), ("1/100", "shard-empty")):
        code, _, err = ggeur("embed", "photos", "--encoder", "builtin", "--shard", shard, "--out", "t.npz")
        assert code == 2 and err.says(says)
