"""Embedding as a job: right samples, one call per image for ever, bad files by name, and kill -9 in the middle."""

import io
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from ggeur.data.image_set import ImageSet, Split, pixels
from ggeur.data.readers import image_folder
from ggeur.encoders import job as reading
from ggeur.encoders.builtin import BuiltinEncoder
from ggeur.encoders.cache import EmbeddingCache
from ggeur.encoders.encoder import Encoder
from ggeur.encoders.job import embed
from ggeur.encoders.prompts import Prompts
from ggeur.stats.errors import GgeurError, GgeurWarning
from refusal import refused

TWO = Prompts.of(["a {}", "one {}"])


class Counting(Encoder):
    """The mean colour of an image, and a record of every call."""

    name, dimension, preprocessing, weights_hash = "mean colour", 3, "none", "0" * 64

    def __init__(self):
        self.batches = []

    def prepare(self, image):
        return image.reshape(-1, 3).mean(axis=0, dtype=np.float32)

    def forward(self, prepared):
        self.batches.append(len(prepared))
        return prepared


def picture(colour, size=(9, 7)):
    file = io.BytesIO()
    Image.new("RGB", size, tuple(int(c) for c in colour)).save(file, "PNG")
    return file.getvalue()


def colours(n):
    return np.stack([np.arange(n) % 256, np.arange(n) // 256, 255 - np.arange(n) % 256], axis=1)


@pytest.fixture
def folder(tmp_path):
    """50 images, each of its own colour and size, in two domains and two classes."""
    for i, colour in enumerate(colours(50)):
        place = tmp_path / "images" / "ab"[i // 25] / ("cat", "dog")[i % 2]
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{i:02d}.png").write_bytes(picture(colour, (5 + i, 60 - i)))
    return tmp_path / "images"


def expected(images):
    return colours(50)[[int(item.where[-6:-4]) for item in images.items]]


def test_rows_keep_their_order_labels_and_meta(folder, tmp_path):
    images = image_folder(folder)
    table, unreadable = embed(images, Counting(), batch=8, cache=tmp_path / "cache")
    np.testing.assert_allclose(table.x, expected(images))
    assert (table.y == images.y).all() and (table.domains == images.domain).all() and unreadable == []
    assert table.class_names == ("cat", "dog") and table.domain_names == ("a", "b")
    assert table.meta == {
        "dataset": "images",
        "encoder": "mean colour",
        "weights": "0" * 64,
        "preprocessing": "none",
    }


def test_a_second_run_calls_the_encoder_zero_times(folder, tmp_path):
    first, second, seen = Counting(), Counting(), []
    a = embed(image_folder(folder), first, batch=8, cache=tmp_path / "cache").table
    b = embed(image_folder(folder), second, batch=8, cache=tmp_path / "cache",
              on_batch=lambda done, computed: seen.append((done, computed))).table  # fmt: skip
    assert first.batches == [8] * 6 + [2] and second.batches == []
    assert a.x.tobytes() == b.x.tobytes() and seen[-1] == (50, 0)


def test_only_new_images_are_computed_and_copies_once(folder, tmp_path):
    embed(image_folder(folder), Counting(), cache=tmp_path / "cache")
    for name in ("new.png", "copy.png"):
        (folder / "a" / "cat" / name).write_bytes(picture((1, 2, 3)))
    encoder = Counting()
    table = embed(image_folder(folder), encoder, cache=tmp_path / "cache").table
    assert encoder.batches == [1] and len(table) == 52


def test_other_weights_or_preprocessing_share_nothing(folder, tmp_path):
    embed(image_folder(folder), Counting(), cache=tmp_path / "cache")
    for change in ({"weights_hash": "1" * 64}, {"preprocessing": "other"}):
        encoder = Counting()
        encoder.__dict__.update(change)
        embed(image_folder(folder), encoder, cache=tmp_path / "cache")
        assert sum(encoder.batches) == 50


@pytest.mark.parametrize("damage", ["cut", "flip", "rubbish"])
def test_a_damaged_cache_costs_its_records_and_never_a_wrong_row(folder, tmp_path, damage):
    images = image_folder(folder)
    embed(images, Counting(), batch=8, cache=tmp_path / "cache")
    (journal,) = (tmp_path / "cache").glob("*/*.journal")
    content = bytearray(journal.read_bytes())
    if damage == "cut":
        content = content[:-5]
    elif damage == "flip":
        content[40] ^= 1
    else:
        content = bytearray(b"rubbish" * 100)
    journal.write_bytes(content)
    encoder = Counting()
    table = embed(images, encoder, cache=tmp_path / "cache").table
    np.testing.assert_allclose(table.x, expected(images))
    assert sum(encoder.batches) == (50 if damage == "rubbish" else 1)


def test_the_cache_is_where_the_environment_says(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("GGEUR_CACHE", str(tmp_path / "elsewhere"))
    embed(image_folder(folder), Counting())
    assert list((tmp_path / "elsewhere" / "embeddings").glob("*/*.journal"))


def test_a_cache_that_cannot_be_written_says_what_to_set(folder, tmp_path):
    (tmp_path / "file").write_text("")
    with refused("cache-unusable"):
        embed(image_folder(folder), Counting(), cache=tmp_path / "file")


# ---------------------------------------------------------------- unreadable images


@pytest.fixture
def spoilt(folder):
    (folder / "a" / "cat" / "zz empty.png").write_bytes(b"")
    (folder / "b" / "dog" / "notes.txt").write_text("not a picture")
    whole = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (30, 30, 3), np.uint8)).save(whole, "JPEG")
    (folder / "b" / "dog" / "zz cut.jpg").write_bytes(whole.getvalue()[:-300])
    return folder


def test_an_unreadable_image_is_an_error_with_its_path(spoilt, tmp_path):
    encoder = Counting()
    with refused("image-unreadable: zz empty.png...empty...--skip-unreadable"):
        embed(image_folder(spoilt), encoder, batch=8, cache=tmp_path / "cache")
    assert sum(encoder.batches) == 13, "what was decoded before it is kept for the next run"


def test_or_is_counted_and_listed(spoilt, tmp_path):
    images = image_folder(spoilt)
    table, unreadable = embed(images, Counting(), skip_unreadable=True, cache=tmp_path / "cache")
    assert len(table) == 50 and len(unreadable) == 3
    for line, (name, why) in zip(
        unreadable, [("zz empty.png", "empty"), ("notes.txt", "not an image"), ("zz cut.jpg", "truncated")], strict=True
    ):
        assert name in line and why in line
    good = [i for i, item in enumerate(images.items) if item.where[-6:-4].isdigit()]
    assert (table.y == images.y[good]).all()


def test_nothing_readable_is_an_error(tmp_path):
    (tmp_path / "images" / "cat").mkdir(parents=True)
    (tmp_path / "images" / "cat" / "x.png").write_bytes(b"")
    with refused("image-none-readable"):
        embed(image_folder(tmp_path / "images"), Counting(), skip_unreadable=True, cache=tmp_path / "cache")


def test_an_image_that_vanishes_is_unreadable_not_a_crash(folder, tmp_path):
    images = image_folder(folder)
    (folder / "a" / "cat" / "00.png").unlink()
    with refused("image-unreadable: 00.png...No such file"):
        embed(images, Counting(), cache=tmp_path / "cache")


def test_infinite_embeddings_are_neither_cached_nor_returned(folder, tmp_path):
    encoder = Counting()
    encoder.forward = lambda prepared: np.full_like(prepared, np.inf)
    with refused("encoder-output-not-finite: mean colour"):
        embed(image_folder(folder), encoder, cache=tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("*/*.journal"))


def test_a_defect_in_an_encoder_is_not_hidden(folder, tmp_path):
    encoder = Counting()
    encoder.prepare = lambda image: 1 / 0
    with pytest.raises(ZeroDivisionError):
        embed(image_folder(folder), encoder, cache=tmp_path / "cache")


# ---------------------------------------------------------------- text, splits, builtin


class Speaking(Counting):
    has_text = True

    def encode_text(self, class_names, templates):
        if "silence" in templates:
            raise GgeurError("There is no tokenizer.")
        return np.full((len(class_names), 3), len(templates), np.float32)


def test_text_is_stored_with_its_templates(folder, tmp_path):
    table = embed(image_folder(folder), Speaking(), prompts={"mine": TWO}, cache=tmp_path / "cache").table
    assert list(table.text) == ["mine"] and table.text["mine"].shape == (2, 3) and (table.text["mine"] == 2).all()
    assert table.meta["templates"] == {"mine": ["a {}", "one {}"]}


def test_a_text_tower_that_fails_costs_a_warning_not_the_table(folder, tmp_path):
    with pytest.warns(GgeurWarning, match="no text embeddings: There is no tokenizer"):
        table = embed(
            image_folder(folder), Speaking(), prompts={"mine": Prompts(("silence",))}, cache=tmp_path / "cache"
        ).table
    assert table.text == {}


def test_test_masks_and_shares_reach_the_table(tmp_path):
    x = np.random.default_rng(0).integers(0, 256, (40, 16, 16, 3), np.uint8)
    images = ImageSet.of(
        ("0", "1"), {"a": Split(pixels(x[:30], np.arange(30) % 2, "m"), pixels(x[30:], [0] * 10, "m"))}
    )
    table = embed(images.take(0.5), BuiltinEncoder(), cache=tmp_path / "cache").table
    assert table.test.sum() == 10 and len(table) == 25 and table.meta["share"] == 0.5
    np.testing.assert_allclose(table.x[table.test], BuiltinEncoder().encode(x[30:]), atol=1e-5)


def test_no_more_than_a_few_batches_are_read_ahead(folder, tmp_path, monkeypatch):
    images = image_folder(folder)
    started, ahead = [], []
    items = [replace_read(item, started) for item in images.items]
    encoder = Counting()
    forward = encoder.forward
    encoder.forward = lambda prepared: (ahead.append(len(started) - sum(encoder.batches)), forward(prepared))[1]
    embed(replace(images, items=items), encoder, batch=4, cache=tmp_path / "cache")
    assert max(ahead) <= (reading._AHEAD + 1) * 4 + 1 and max(ahead) > 4


def replace_read(item, started):
    return item._replace(read=lambda: (started.append(1), item.read())[1])


# ---------------------------------------------------------------- kill -9

SLOW = """
import sys, time
from pathlib import Path
sys.path[:0] = {folders!r}
from test_job import Counting
from ggeur.data.readers import image_folder
from ggeur.encoders.job import embed

class Slow(Counting):
    def forward(self, prepared):
        time.sleep(0.2)
        return super().forward(prepared)

embed(image_folder(Path({folder!r})), Slow(), batch=5, cache=Path({cache!r}),
      on_batch=lambda done, computed: print(done, flush=True))
"""


def test_kill_9_in_the_middle_loses_at_most_one_batch(folder, tmp_path):
    here = os.path.dirname(__file__)
    folders = [here, os.path.join(here, "..", "helpers")]  # its own helpers are not on a new process's path
    script = SLOW.format(folders=folders, folder=str(folder), cache=str(tmp_path / "cache"))
    run = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    reported = [int(run.stdout.readline()) for _ in range(4)]
    time.sleep(0.1)  # in the middle of the fifth batch
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert reported == [5, 10, 15, 20]
    encoder = Counting()
    kept = EmbeddingCache(encoder, tmp_path / "cache")
    images = image_folder(folder)
    table = embed(images, encoder, batch=5, cache=tmp_path / "cache").table
    assert len(kept._known) >= 20 and sum(encoder.batches) <= 30, "finished batches are not done again"
    np.testing.assert_allclose(table.x, expected(images))
