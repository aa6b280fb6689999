"""`ggeur table`, and the commands that take tables of other programs, as a shell sees them."""

import csv
import json

import numpy as np
import pytest

import ggeur as library
from ggeur.data.table import EmbeddingTable

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(300, 4)).astype(np.float32), RNG.integers(3, size=300)
X[np.arange(300), Y] += 4
LABELS = np.array(["ant", "bee", "cat"])[Y]


def done(result):
    code, out, err = result
    assert code == 0, err
    return " ".join(out.split())


@pytest.fixture
def site(tmp_path):
    np.save(tmp_path / "leeds.npy", X)
    with (tmp_path / "leeds.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["photo", "diagnosis"], *((f"{i}.jpg", one) for i, one in enumerate(LABELS))])
    return tmp_path / "leeds.npy"


def test_a_table_is_converted_and_said(ggeur, site, tmp_path):
    columns = ("--y", "diagnosis", "--id", "photo", "--encoder-id", "uni@3a7c")
    out = done(ggeur("table", site, *columns, "--out", tmp_path / "t.npz"))
    assert "300 samples, 4 dimensions, 3 classes" in out
    table = EmbeddingTable.load(tmp_path / "t.npz")
    assert np.array_equal(table.x, X) and [table.class_names[c] for c in table.y] == LABELS.tolist()
    assert table.path[7] == "7.jpg" and table.meta == {"encoder": "uni", "weights": "3a7c"}


@pytest.mark.needs("tables")
def test_parquet_is_written_and_fitted(ggeur, site, tmp_path):
    done(ggeur("table", site, "--y", "diagnosis", "--out", tmp_path / "york.parquet"))
    done(ggeur("fit", tmp_path / "york.parquet", "--method", "lda", "--out", tmp_path / "m"))
    assert json.loads((tmp_path / "m" / "model.json").read_text())["class_names"] == ["ant", "bee", "cat"]


def test_fit_and_predict_take_it(ggeur, site, tmp_path):
    done(ggeur("fit", site, "--y", "diagnosis", "--method", "lda", "--out", tmp_path / "model"))
    columns = ("--y", "diagnosis", "--id", "photo")
    said = done(ggeur("predict", tmp_path / "model", site, *columns, "--out", tmp_path / "a.csv"))
    assert "300 predictions" in said and "agree with the labels" in said
    lines = list(csv.DictReader((tmp_path / "a.csv").open()))
    assert (
        lines[7]["file"] == "7.jpg" and sum(line["class"] == one for line, one in zip(lines, LABELS, strict=True)) > 270
    )
    done(ggeur("predict", tmp_path / "model", site, "--y", "diagnosis", "--out", tmp_path / "a.json"))
    assert [one["class"] for one in json.loads((tmp_path / "a.json").read_text())] == [line["class"] for line in lines]


def test_what_cannot_be_is_one_sentence(ggeur, site, tmp_path):
    for argv, says in (
        (("table", site, "--out", tmp_path / "t.txt"), "output-file-suffix"),
        (("table", site, "--out", tmp_path / "t.npz"), "table-column-ambiguous: 'photo', 'diagnosis'"),
        (("table", site, "--y", "diagnosis", "--encoder-id", "uni", "--out", tmp_path / "t.npz"), "encoder-id-invalid"),
        (("fit", site, "--y", "kind", "--out", tmp_path / "m"), "table-column-missing"),
    ):
        code, _, err = ggeur(*argv)
        assert code == 2 and err.says(says)
    assert not (tmp_path / "t.npz").exists() and not (tmp_path / "m").exists()


def test_experiments_and_inspect_take_it(ggeur, site, tmp_path):
    site.with_suffix(".csv").write_text("\n".join(["label", *LABELS, ""]))
    EmbeddingTable.load(site).save(tmp_path / "same.npz")
    found = []
    for table in (site, tmp_path / "same.npz"):
        tree = {"data": {"table": str(table)}, "partition": {"clients": 2, "beta": 1.0}, "augment": {"kind": "none"}}
        result = library.run(library.Experiment.of(tree | {"train": {"method": "lda"}}))
        found.append((result.trials[0].avg, result.trials[0].domains))
        assert "ant" in done(ggeur("inspect", table))
    assert found[0] == found[1]
