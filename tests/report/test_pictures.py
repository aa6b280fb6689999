"""Runs on pictures in a report: beside those on embeddings, and never in their place."""

import numpy as np
import pytest

from ggeur.data.image_table import ImageTable
from ggeur.report.entries import Variant, pairs
from ggeur.report.folders import read_run
from ggeur.report.page import write_report

PLAIN = {"partition": {"kind": "domain"}, "augment": {"kind": "none"}}


@pytest.fixture
def pictures(tmp_path):
    """What an experiment on pictures has in the place of one on embeddings."""
    rng, n = np.random.default_rng(0), 96
    x = rng.integers(0, 256, (n, 64, 64, 3)).astype(np.uint8)
    domains = ("amazon", "caltech", "dslr", "webcam")
    table = ImageTable(x=x, y=np.arange(n) % 3, domain=np.arange(n) % 4, domain_names=domains)
    table.save(tmp_path / "pictures.npz")
    return {"data": {"table": str(tmp_path / "pictures.npz")}, "train": {"head": "simplecnn", "rounds": 3}}


def test_a_gain_is_over_the_same_method_on_embeddings(build_run, pictures):
    arms = [
        {"name": "images", **pictures},
        {"name": "plain"},
        {"name": "full", "augment": {"kind": "ggeur"}},
    ]
    entries = read_run(build_run({**PLAIN, "arm": arms})).entries
    assert [e.variant for e in entries] == [Variant.PICTURES, Variant.PLAIN, Variant.FULL]
    (pair,) = pairs(entries)
    assert pair.other is entries[1] and pair.mean == 1


@pytest.mark.usefixtures("undrawn")
def test_pictures_have_no_spectra(build_run, pictures, tmp_path):
    folder = build_run({**PLAIN, **pictures}, name="images")
    text = write_report([folder], tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Who holds what" in text and "Spectra" not in text
