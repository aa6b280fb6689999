"""Datasets that are named as package.module:name: what goes before them, and what is said of one that is none."""

import sys

import pytest

from ggeur.data.datasets import load, paper_partition
from refusal import refused

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
    with refused("dataset-unknown"):
        load("folder/own_sets:pets")


@pytest.mark.parametrize(
    "name, why",
    [
        ("own_sets:table", "custom-dataset-type: own_sets:table"),
        ("own_sets:uneven", "dataset-labels-mismatch: own_sets:uneven...14 images"),
        ("own_sets:broken", "custom-code-failed: own_sets:broken...OSError: the disk is gone"),
        ("own_sets:nothing", "custom-load-failed: own_sets:nothing"),
        ("nowhere:pets", "custom-load-failed: nowhere:pets"),
    ],
)
def test_what_is_wrong_with_ones_own_dataset_is_said_in_a_sentence(own, name, why):
    with refused(why) as caught:
        load(name)
    assert "\n" not in str(caught.value)
