"""Runs on pictures in a report: beside those on embeddings, and never in their place."""

import numpy as np
import pytest

from ggeur.data.image_table import ImageTable
from ggeur.report.entries import Variant, pairs
from ggeur.report.page import write_report
from ggeur.report.run_folder import read_run
from ggeur.report.together import together

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


def test_runs_called_alike_keep_their_own_curves(build_run, tmp_path):
    folders = [tmp_path / group / "run" for group in ("a", "b", "c", "d/c")]
    for folder in folders:
        folder.parent.mkdir(parents=True)
        build_run(PLAIN, name=str(folder.relative_to(tmp_path)))
    (found,) = together([read_run(folder) for folder in folders])
    (ax,) = (ax for ax in found.figure.axes if ax.lines)
    assert {line.get_label() for line in ax.lines} == {Variant.PLAIN, "run", "c/run", "c/run (2)"}


@pytest.mark.usefixtures("undrawn")
def test_runs_have_their_curves_in_one_figure_and_pictures_no_spectra(build_run, pictures, tmp_path):
    faster = {**pictures, "train": {**pictures["train"], "rate": 0.1}}
    trees = {"embeddings": {}, "images": pictures, "faster": faster}
    folders = [build_run({**PLAIN, **tree}, name=name) for name, tree in trees.items()]
    runs = [read_run(folder) for folder in folders]
    (found,) = together(runs)
    (ax,) = (ax for ax in found.figure.axes if ax.lines)
    assert [line.get_label() for line in ax.lines] == [Variant.PICTURES, Variant.PLAIN, runs[2].title]
    assert all(line.get_ydata().tolist() == [75, 79, 80] for line in ax.lines)
    assert together(runs[:1]) == []
    text = write_report(folders[1:], tmp_path / "page.html").read_text(encoding="utf-8")
    assert 'href="#together"' in text and "Spectra" not in text
