"""A user's own folder of images: both layouts, what may be missing, and what is caught."""

import numpy as np
import pytest

from ggeur.data.image_set import ImageSet, Split, pixels
from ggeur.data.readers import image_folder
from ggeur.stats.errors import GgeurWarning
from refusal import refused


def lay_out(root, *paths):
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(path.encode())
    return root


def read_all(images):
    return [item.read().decode() for item in images.items]


def test_domains_and_classes_come_in_the_order_of_their_names(tmp_path):
    paths = ["b/cat/2.png", "b/cat/1.png", "a/dog/1.png", "a/cat/1.png", "b/dog/1.png"]
    images = image_folder(lay_out(tmp_path, *paths))
    assert read_all(images) == sorted(paths)
    assert images.class_names == ("cat", "dog") and images.domain_names == ("a", "b")
    assert images.y.tolist() == [0, 1, 0, 0, 1] and images.domain.tolist() == [0, 0, 1, 1, 1]
    assert images.test is None and images.meta == {"dataset": tmp_path.name}
    assert images.items[0].where == str(tmp_path / "a/cat/1.png")


def test_a_root_of_class_folders_is_one_domain(tmp_path):
    images = image_folder(lay_out(tmp_path, "dog/1.png", "cat/1.png"))
    assert images.domain_names == ("all",) and images.y.tolist() == [0, 1] and not images.domain.any()


def test_hidden_files_and_what_systems_leave_behind_are_no_images(tmp_path):
    lay_out(tmp_path, "cat/1.png", "cat/.DS_Store", "cat/Thumbs.db", ".git/x", "__MACOSX/cat/1.png")
    assert read_all(image_folder(tmp_path)) == ["cat/1.png"]


def test_any_other_file_counts_as_an_image_so_that_it_is_reported_later(tmp_path):
    assert len(image_folder(lay_out(tmp_path, "cat/1.png", "cat/notes.txt"))) == 2


def test_an_empty_class_folder_keeps_its_class_and_is_told(tmp_path):
    (lay_out(tmp_path, "cat/1.png") / "dog").mkdir()
    with pytest.warns(GgeurWarning, match="no images of class dog"):
        images = image_folder(tmp_path)
    assert images.class_names == ("cat", "dog") and images.y.tolist() == [0]


def test_domains_with_different_classes_share_all_of_them_and_it_is_told(tmp_path):
    lay_out(tmp_path, "a/cat/1.png", "a/dog/1.png", "b/dog/1.png", "b/emu/1.png")
    with pytest.warns(GgeurWarning) as told:
        images = image_folder(tmp_path)
    assert images.class_names == ("cat", "dog", "emu") and images.y.tolist() == [0, 1, 1, 2]
    assert [str(w.message) for w in told] == [
        "Domain a has no images of class emu.",
        "Domain b has no images of class cat.",
    ]


def test_names_in_any_script(tmp_path):
    images = image_folder(lay_out(tmp_path, "ä/café 猫/ñ.png", "b/café 猫/ü 1.png"))
    assert images.class_names == ("café 猫",) and images.y.tolist() == [0, 0]


@pytest.mark.parametrize(
    "paths, words",
    [
        ([], "folder-without-images"),
        (["1.png"], "folder-without-classes"),
        (["a/cat/1.png", "dog/1.png"], "folder-layout-mixed"),
        (["a/cat/new/1.png", "a/dog/1.png"], "folder-too-deep"),
    ],
)
def test_a_layout_that_cannot_be_understood_is_refused(tmp_path, paths, words):
    with refused(words) as caught:
        image_folder(lay_out(tmp_path, *paths))
    assert str(tmp_path) in str(caught.value)


def test_a_folder_of_empty_folders_has_no_images(tmp_path):
    (tmp_path / "a" / "cat").mkdir(parents=True)
    with refused("folder-without-images"):
        image_folder(tmp_path)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with refused("folder-missing: nowhere"):
        image_folder(tmp_path / "nowhere")


def with_test_sets(n=100, test=10):
    def part(size):
        return pixels(np.zeros((size, 2, 2), np.uint8), np.arange(size) % 2, "memory")

    return ImageSet.of(("x", "y"), {"a": Split(part(n), part(test)), "b": Split(part(3 * n), part(test))})


def test_a_share_is_of_each_domains_training_pictures_and_is_remembered():
    images = with_test_sets().take(0.1)
    train = ~images.test
    assert np.bincount(images.domain[train]).tolist() == [10, 30]
    assert np.bincount(images.domain[images.test]).tolist() == [10, 10]
    assert images.meta["share"] == 0.1
    again = with_test_sets().take(0.1)
    assert [item.where for item in images.items] == [item.where for item in again.items]
    assert [item.where for item in images.items] != [item.where for item in with_test_sets().items[: len(images)]]


def test_the_whole_is_no_share():
    assert "share" not in with_test_sets().take(1.0).meta


@pytest.mark.parametrize("share", [0, -1, 1.5])
def test_an_impossible_share_is_refused(share):
    with refused("argument-not-fraction"):
        with_test_sets().take(share)


def test_no_share_without_an_official_test_set(tmp_path):
    with refused("dataset-without-test-set"):
        image_folder(lay_out(tmp_path, "cat/1.png")).take(0.5)
