"""Tables of pictures: bytes in and out, what is no picture refused, SVHN as the benchmark reads it."""

import numpy as np
import pytest
from PIL import Image

from ggeur.data.image_set import ImageSet, Split, pixels
from ggeur.data.image_table import ImageTable, is_image_table, load_any
from ggeur.data.readers_native import as_benchmark, garbled
from ggeur.data.table import EmbeddingTable
from refusal import refused

PICTURES = np.random.default_rng(0).integers(0, 256, (12, 16, 16, 3), np.uint8)


def table(**changes):
    given = {"x": PICTURES, "y": np.arange(12) % 3, "domain": np.arange(12) // 6, "meta": {"dataset": "toy"}}
    return ImageTable(**(given | changes))


def test_a_file_has_pictures_and_comes_back_the_same(tmp_path):
    first = table().split(1)
    first.save(tmp_path / "t.npz")
    assert np.load(tmp_path / "t.npz")["x"].shape == (12, 16, 16, 3)
    found = load_any(tmp_path / "t.npz")
    assert isinstance(found, ImageTable) and found.fingerprint() == first.fingerprint() and found.x.dtype == np.uint8
    np.testing.assert_array_equal(found.subset([3, 5]).pictures, PICTURES[[3, 5]])
    assert isinstance(found.subset([3]), ImageTable)


def test_embeddings_are_told_from_pictures(tmp_path):
    EmbeddingTable(x=np.eye(4), y=[0, 1, 0, 1]).save(tmp_path / "e.npz")
    table().save(tmp_path / "t.npz")
    assert is_image_table(tmp_path / "t.npz") and not is_image_table(tmp_path / "e.npz")
    assert type(load_any(tmp_path / "e.npz")) is EmbeddingTable
    with refused("table-not-embeddings"):
        EmbeddingTable.load(tmp_path / "t.npz")
    with refused("file-missing"):
        load_any(tmp_path / "nowhere.npz")


@pytest.mark.parametrize("x", [PICTURES.astype(np.float32), PICTURES[..., 0], PICTURES[:, :8], PICTURES[..., :1]])
def test_what_is_no_picture_is_refused(x):
    with refused("table-pixels-invalid"):
        table(x=x)


def test_svhn_as_the_benchmark_reads_it_is_the_red_plane_taken_for_rgb():
    picture = np.random.default_rng(1).integers(0, 256, (32, 32, 3), np.uint8)
    planes = picture.transpose(2, 0, 1).tobytes()  # as torch's datasets hold it
    read = Image.frombytes("RGB", (32, 3), planes[: 32 * 3 * 3])
    np.testing.assert_array_equal(garbled(picture), np.asarray(read.resize((32, 32), Image.Resampling.BILINEAR)))


def test_only_svhn_is_garbled():
    x = np.random.default_rng(1).integers(0, 256, (2, 32, 32, 3), np.uint8)
    domains = {name: Split(pixels(x, np.arange(2), name)) for name in ("mnist", "svhn")}
    images = as_benchmark(ImageSet.of(("a", "b"), domains))
    np.testing.assert_array_equal(images.items[0].read(), x[0])
    np.testing.assert_array_equal(images.items[2].read(), garbled(x[0]))
    assert images.meta["svhn"] == "as-benchmark"
    with refused("settings-svhn-domain"):
        as_benchmark(ImageSet.of(("a", "b"), {"mnist": domains["mnist"]}))
