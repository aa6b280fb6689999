"""Datasets that are named as package.module:name: what goes before them, and what is said of one that is none."""

import sys

import pytest

from ggeur.core.errors import GgeurError
from ggeur.data.datasets import load, paper_partition

OWN = """
import numpy as np
from dataclasses import replace
from ggeur.data.image_set import ImageSet, Part, Split, pixels

def part(n):
    return pixels(np.zeros((n, 2, 2, 3), np.uint8), np.arange(n) % 2, "memory")

def pets():
    return ImageSet.of(["cat", "dog"], {"home": Split(part(10), part(4))})

def named():
    return ImageSet.of(["cat", "dog"], {"home": Split(part(2))}, dataset="mine")

def uneven():
    return replace(pets(), y=np.zeros(3, int))

def table():
    return [1, 2]

def broken():
    raise OSError("the disk is gone")
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The module own_sets in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "own_sets.py").write_text(OWN)
    yield
    sys.modules.pop("own_sets", None)


def test_ones_own_dataset_is_what_its_function_returns(own):
    images = load("own_sets:pets")
    assert (len(images), images.meta) == (14, {"dataset": "own_sets:pets"})
    assert load("own_sets:named").meta == {"dataset": "mine"}
    share = load("own_sets:pets", share=0.5)
    assert len(share) == 5 + 4 and share.meta["share"] == 0.5
    assert paper_partition("own_sets:pets") == {}


def test_a_folder_goes_before_a_function_of_the_same_name(own, tmp_path):
    (tmp_path / "own_sets:pets" / "cat").mkdir(parents=True)
    (tmp_path / "own_sets:pets" / "cat" / "1.png").write_bytes(b"")
    assert len(load("own_sets:pets")) == 1
    with pytest.raises(GgeurError, match="neither a dataset nor a folder"):
        load("folder/own_sets:pets")


@pytest.mark.parametrize(
    "name, why",
    [
        ("own_sets:table", "'own_sets:table' is not a dataset"),
        ("own_sets:uneven", "has 14 images, and its labels or domains are not as many"),
        ("own_sets:broken", "The dataset 'own_sets:broken' cannot be built: OSError: the disk is gone"),
        ("own_sets:nothing", "Cannot load the dataset 'own_sets:nothing'"),
        ("nowhere:pets", "Cannot load the dataset 'nowhere:pets'"),
    ],
)
def test_what_is_wrong_with_ones_own_dataset_is_said_in_a_sentence(own, name, why):
    with pytest.raises(GgeurError) as caught:
        load(name)
    assert why in str(caught.value) and "\n" not in str(caught.value)
