"""The encoder that keeps the pictures: whatever a folder mixes becomes bytes of one size, or is named."""

import numpy as np
import pytest
from PIL import Image

from ggeur.data.image_table import ImageTable
from ggeur.data.readers import image_folder
from ggeur.encoders.encoder import is_custom_encoder, load_encoder
from ggeur.encoders.job import embed
from refusal import refused

RNG = np.random.default_rng(0)


@pytest.fixture
def folder(tmp_path):
    """Pictures of several sizes, of one channel, of 16 bits, with transparency, and one as it should be."""
    place = tmp_path / "images" / "cat"
    place.mkdir(parents=True)
    whole = RNG.integers(0, 256, (16, 16, 3), np.uint8)
    Image.fromarray(whole).save(place / "a.png")
    Image.fromarray(RNG.integers(0, 256, (40, 23), np.uint8)).save(place / "b.png")
    Image.fromarray(np.full((9, 30), 200 << 8, np.uint16)).save(place / "c.png")
    Image.fromarray(RNG.integers(0, 256, (20, 20, 4), np.uint8)).save(place / "d.png")
    return tmp_path / "images", whole


def test_a_folder_that_mixes_kinds_of_pictures_becomes_bytes_of_one_size(folder):
    path, whole = folder
    told = []
    table, unreadable = embed(
        image_folder(path), load_encoder("pixels:16"), batch=2, on_batch=lambda *n: told.append(n)
    )
    assert isinstance(table, ImageTable) and table.pictures.shape == (4, 16, 16, 3) and not unreadable
    np.testing.assert_array_equal(table.pictures[0], whole)  # of the right size, so left alone
    assert np.ptp(table.pictures[1], axis=-1).max() == 0 and (table.pictures[2] == 200).all()
    assert table.meta["encoder"] == "pixels:16" and told == [(2, 2), (4, 4)]


def test_rows_for_a_network_are_the_same_numbers(folder):
    path, _ = folder
    encoder = load_encoder("pixels:16")
    image = np.asarray(Image.open(path / "cat" / "d.png").convert("RGB"))
    np.testing.assert_array_equal(encoder.encode([image])[0], encoder.picture(image).ravel())


def test_a_damaged_picture_is_named_or_left_out(folder):
    path, _ = folder
    (path / "cat" / "e.png").write_bytes(b"no picture")
    with refused("image-unreadable: e.png...known format"):
        embed(image_folder(path), load_encoder("pixels:16"))
    table, unreadable = embed(image_folder(path), load_encoder("pixels:16"), skip_unreadable=True)
    assert len(table) == 4 and "e.png" in unreadable[0]


@pytest.mark.parametrize("name", ["pixels:", "pixels:0", "pixels:big", "pixels:5000"])
def test_a_size_that_will_not_do_is_a_sentence(name):
    assert not is_custom_encoder(name)
    with refused("encoder-pixels-size"):
        load_encoder(name)
