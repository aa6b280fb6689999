"""Sites whose tables stay in their files: the same classifier as from arrays, to the bit."""

import csv

import numpy as np
import pytest

import ggeur
from ggeur.data.table import EmbeddingTable
from ggeur.data.tables.columns import TableColumns
from ggeur.data.tables.files import TableFiles
from ggeur.heads.parameter_tree import by_path
from ggeur.models.joining import add_site, forget_site
from ggeur.models.prediction import answers_in_pieces
from refusal import refused

pytestmark = pytest.mark.filterwarnings("ignore::ggeur.stats.errors.GgeurWarning")
SITES = ("leeds", "york", "hull")


def site(seed, n=240, p=6):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    x = rng.normal(size=(n, p)) + 2 * rng.normal(size=(3, p))[y] + seed
    names = ("ant", "bee", "cat")
    return EmbeddingTable(x=x.astype(np.float32), y=y, test=rng.random(n) < 0.25, class_names=names)


def as_csv(table, path):
    with path.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow([*(f"e{i}" for i in range(table.dimension)), "species", "split"])
        for x, y, test in zip(table.x, table.y, table.test, strict=True):
            lines.writerow([*(repr(float(v)) for v in x), table.class_names[y], "test" if test else "train"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("sites")
    for seed, name in enumerate(SITES):
        site(seed).save(made / f"{name}.npz")
        as_csv(site(seed), made / f"{name}.csv")
    return made


def heads(found):
    return {k: np.asarray(v).tobytes() for k, v in by_path(found.params_).items()}


@pytest.mark.parametrize("method", ["lda", "auto", "ggeur-limit", "kernel"])
def test_the_classifier_is_that_of_the_arrays_to_the_bit(method, folder):
    arrays, files = (ggeur.fit([folder / f"{s}{end}" for s in SITES], method=method) for end in (".npz", ".csv"))
    assert heads(arrays) == heads(files) and arrays.metrics_ == files.metrics_
    assert arrays.calibration_ == files.calibration_ and arrays.metrics_["test_samples"] > 100


def test_no_bit_depends_on_the_workers(folder):
    one, two, five = (ggeur.fit([folder / f"{s}.csv" for s in SITES], method="lda", workers=n) for n in (1, 2, 5))
    assert heads(one) == heads(two) == heads(five)


def test_small_groups_and_contributions(folder):
    given = [[folder / f"{s}{end}" for s in SITES] for end in (".npz", ".csv")]
    arrays, files = (ggeur.fit(g, method="lda", min_count=60, contributions=True) for g in given)
    assert heads(arrays) == heads(files) and repr(arrays.contributions_) == repr(files.contributions_)
    with refused("privacy-min-count-excessive"):
        ggeur.fit(given[1], method="lda", min_count=10**6)


def test_sites_of_files_join_and_leave(folder, tmp_path):
    ggeur.fit([folder / "leeds.csv", folder / "york.csv"], method="lda", out=tmp_path / "model")
    before = (tmp_path / "model" / "head.npz").read_bytes()
    add_site(tmp_path / "model", folder / "hull.csv", columns=TableColumns(y="species"))
    ggeur.fit([folder / f"{s}.npz" for s in SITES], method="lda", out=tmp_path / "all")
    assert (tmp_path / "model" / "head.npz").read_bytes() == (tmp_path / "all" / "head.npz").read_bytes()
    forget_site(tmp_path / "model", "hull")
    assert (tmp_path / "model" / "head.npz").read_bytes() == before


def test_a_table_in_files_is_a_site_of_python(folder):
    files = TableFiles([folder / f"{s}.csv" for s in SITES], TableColumns(y="species"))
    found = ggeur.fit({"all": files, "york": folder / "york.npz"}, method="lda")
    assert [one.name for one in found.statistics_] == ["all", "york"]
    assert found.statistics_[0].samples == files.counts[..., 0].sum()


def test_a_table_in_files_is_predicted_in_pieces(folder, tmp_path, monkeypatch):
    model = ggeur.fit([folder / "leeds.csv", folder / "york.csv"], method="lda", out=tmp_path / "model") and (
        ggeur.load_model(tmp_path / "model")
    )
    whole, files = site(2), TableFiles(folder / "hull.csv")
    assert np.array_equal(model.predict(files).probabilities, model.predict(whole).probabilities)
    monkeypatch.setattr("ggeur.data.tables.source.MOST_SAMPLES", 100)
    parts = list(answers_in_pieces(model, files, 0.0))
    assert [len(part) for part in parts] == [100, 100, 40]
    assert [label for part in parts for label in part.labels] == model.predict(whole).labels


def test_columns_that_are_not_there_are_refused_before_anything_is_written(folder, tmp_path):
    with refused("table-column-missing: kind"):
        ggeur.fit([folder / "leeds.csv"], columns=TableColumns(y="kind"), out=tmp_path / "model")
    with refused("site-missing: leds"):
        ggeur.fit([folder / "leds.csv"], out=tmp_path / "model")
    assert not (tmp_path / "model").exists()
