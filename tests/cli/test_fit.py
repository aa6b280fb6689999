"""`ggeur fit`, `add` and `forget` as they are typed, and one sentence for everything that cannot be."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import ggeur as library
from ggeur.cli import main
from ggeur.stats.storage import lock_file

META = {"encoder": "toy", "weights": "abc"}


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    """Tables to fit, and others that cannot go with them."""
    folder, rng = tmp_path_factory.mktemp("sites"), np.random.default_rng(0)

    def save(path, p=3, classes=2, names=("ant", "bee"), **more):
        y = np.arange(20) % classes
        values = dict(x=rng.normal(size=(20, p)) + 5 * np.eye(p)[y], y=y, class_names=names, meta=META)
        path.parent.mkdir(exist_ok=True)
        library.EmbeddingTable(**(values | more)).save(path)

    for name in ("art", "photo", "sketch"):
        save(folder / f"{name}.npz", test=np.arange(20) < 6)
    save(folder / "wide.npz", p=4)
    save(folder / "other.npz", meta={"encoder": "toy2", "weights": "xyz"})
    save(folder / "numbered.npz", names=())
    save(folder / "one.npz", classes=1, names=("ant",))
    save(folder / "again" / "art.npz")
    save(folder / "mixed.npz", domain=np.arange(20) // 10, domain_names=("ink", "oil"))
    np.savez(folder / "twice.npz", x=np.eye(4), y=[0, 1, 0, 1], class_names=["ant", "ant"])
    return folder


@pytest.fixture(scope="module")
def fitted(sites, tmp_path_factory):
    """The folder that `ggeur fit` leaves of two sites."""
    folder = tmp_path_factory.mktemp("fitted") / "model"
    words = ("fit", sites / "art.npz", sites / "photo.npz", "--method", "lda", "--out", folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["ggeur", *map(str, words)])
        patch.setattr(sys, "stdout", sys.stdout)  # which it wraps: put it back
        with pytest.raises(SystemExit) as end:
            main()
    assert not end.value.code
    return folder


@pytest.fixture
def model(fitted, undrawn, tmp_path):
    """The same, to change."""
    return Path(shutil.copytree(fitted, tmp_path / "model"))


def contents(folder):
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != ".lock"}


def test_from_tables_to_predictions_and_back(ggeur, sites, model):
    code, out, _ = ggeur("add", model, sites / "sketch.npz")
    assert code == 0 and "receipt" in out
    assert ggeur("predict", model, sites / "sketch.npz")[0] == 0
    assert ggeur("forget", model, "sketch", "--yes")[0] == 0
    beside = {"ledger.json", "statistics", "receipts", "report.html", ".lock"}
    assert {p.name for p in model.iterdir()} == {"head.npz", "model.json", "card.md", *beside}
    card = (model / "card.md").read_text()
    assert "| art | 14 | 2 |" in card and "forget a site" in card and "sketch" not in card


def test_without_calibration_the_head_is_the_same(ggeur, sites, model, tmp_path):
    tables = sites / "art.npz", sites / "photo.npz"
    code, *_ = ggeur("fit", *tables, "--method", "lda", "--no-calibrate", "--out", tmp_path / "plain")
    plain, warm = (library.Model.load(folder) for folder in (tmp_path / "plain", model))
    assert code == 0 and plain.calibration == {} != warm.calibration
    for name, array in plain.params.items():  # but for the order of sums: lda alone asks for pooled moments
        np.testing.assert_allclose(array, warm.params[name], rtol=1e-9, atol=1e-9)
    assert "uncalibrated" in (tmp_path / "plain" / "card.md").read_text()


@pytest.mark.usefixtures("undrawn")
def test_the_report_and_the_domains_of_a_table(ggeur, sites, tmp_path):
    code, out, _ = ggeur("fit", sites / "mixed.npz", sites / "art.npz", "--method", "mixture", "--out", tmp_path / "m")
    assert code == 0 and "right on the test samples of art" in out and "Selected mixture" in out
    assert library.Model.load(tmp_path / "m").parameters == {"sites": 3}  # ink, oil and art


@pytest.mark.usefixtures("undrawn")
def test_pictures_are_embedded_on_the_way(ggeur, tmp_path, monkeypatch):
    monkeypatch.setenv("GGEUR_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    for site in ("north", "south"):
        for c, name in enumerate(("dark", "light")):
            (tmp_path / site / name).mkdir(parents=True)
            for i in range(4):
                pixels = rng.integers(100, size=(16, 16, 3)) + 150 * c
                Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / site / name / f"{i}.png")
    where = tmp_path / "north", tmp_path / "south"
    code, _, err = ggeur("fit", *where, "--out", tmp_path / "m")
    assert code == 2 and err.code == "encoder-missing" and not (tmp_path / "m").exists()
    given = ("--encoder", "builtin", "--method", "lda")
    code, out, err = ggeur("fit", *where, *given, "--out", tmp_path / "m")
    assert code == 0 and "dark" in (tmp_path / "m" / "card.md").read_text() and "8 samples" in out, err
    assert library.Model.load(tmp_path / "m").encoder["encoder"] == "builtin"


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ([], "sites-missing"),
        (["art", "wide"], "embeddings-dimension-mismatch: 4 dimensions...'art' 3"),
        (["art", "other"], "encoder-mismatch"),
        (["art", "numbered"], "site-labels-mixed"),
        (["twice"], "table-name-repeated: class...ant"),
        (["one"], "classes-too-few: ant"),
        (["art", "again/art"], "site-name-repeated: art"),
        (["art", "nowhere"], "site-missing"),
    ],
)
@pytest.mark.parametrize("method", ["lda", "auto"])
def test_sites_that_cannot_be_fitted(ggeur, sites, tmp_path, names, sentence, method):
    given = [sites / f"{name}.npz" for name in names]
    code, _, err = ggeur("fit", *given, "--method", method, "--out", tmp_path / "m")
    assert code == 2 and err.says(sentence) and "Traceback" not in err and not (tmp_path / "m").exists()
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--method", "fedavg"], "method-not-one-shot: fedavg"),
        (["--method", "nothing"], "component-unknown: method...nothing"),
        (["--covariance", "none"], "covariance-unknown: per-class or pooled"),
    ],
)
def test_methods_that_cannot_be_fitted(ggeur, sites, tmp_path, options, sentence):
    code, _, err = ggeur("fit", sites / "art.npz", *options, "--out", tmp_path / "m")
    assert code == 2 and err.says(sentence)


def test_a_folder_that_is_not_empty(ggeur, sites, model):
    code, _, err = ggeur("fit", sites / "art.npz", "--out", model)
    assert code == 2 and err.code == "folder-not-empty"


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (["add", "art"], "site-already-added: art"),
        (["add", "wide"], "embeddings-dimension-mismatch: 4 dimensions...model 3"),
        (["add", "other"], "encoder-mismatch"),
        (["add", "numbered"], "site-labels-mixed"),
        (["forget", "sketch", "--yes"], "site-not-added: sketch...art, photo"),
        (["add", "sketch", "--choose-again"], "model-method-not-chosen"),
    ],
)
def test_sites_that_cannot_join_or_leave(ggeur, sites, model, command, sentence):
    what, *names = command
    before = contents(model)
    code, _, err = ggeur(what, model, *(n if n.startswith("--") else sites / f"{n}.npz" for n in names))
    assert code == 2 and err.says(sentence) and "Traceback" not in err
    assert before == contents(model)


def test_a_site_is_removed_only_if_that_is_confirmed(ggeur, model, monkeypatch):
    before = contents(model)
    code, _, err = ggeur("forget", model, "art")  # there is no terminal to ask at
    assert code == 2 and err.says("confirmation-missing: --yes") and before == contents(model)
    monkeypatch.setattr("sys.stdin", type("Terminal", (), {"isatty": lambda self: True})())
    monkeypatch.setattr("typer.confirm", lambda question: False)
    assert ggeur("forget", model, "art")[0] == 1 and before == contents(model)


def test_the_last_site_stays(ggeur, sites, model):
    assert ggeur("forget", model, "art", "--yes")[0] == 0
    code, _, err = ggeur("forget", model, "photo", "--yes")
    assert code == 2 and err.code == "site-only-one"


def test_no_model_and_a_damaged_ledger(ggeur, sites, model, tmp_path):
    code, _, err = ggeur("forget", tmp_path / "nothing", "art", "--yes")
    assert code == 2 and err.code == "model-missing"
    (model / "ledger.json").write_text("{")
    code, _, err = ggeur("forget", model, "art", "--yes")
    assert code == 2 and err.says("ledger-damaged: ledger.json")


def test_one_process_at_a_time(ggeur, sites, model):
    with lock_file(model / ".lock", "taken"):
        code, _, err = ggeur("add", model, sites / "sketch.npz")
    assert code == 2 and err.code == "folder-locked"
    assert ggeur("add", model, sites / "sketch.npz")[0] == 0


@pytest.mark.usefixtures("undrawn")
def test_one_class_alone_cannot_remain(ggeur, sites, tmp_path):
    given = sites / "one.npz", sites / "art.npz"
    assert ggeur("fit", *given, "--method", "lda", "--out", tmp_path / "m")[0] == 0
    before = contents(tmp_path / "m")
    code, _, err = ggeur("forget", tmp_path / "m", "art", "--yes")
    assert code == 2 and err.says("classes-too-few: ant") and before == contents(tmp_path / "m")


def test_the_page_and_contributions(ggeur, sites, tmp_path):
    model = tmp_path / "m"
    words = ["--method", "lda", "--contributions", "--out", model]
    code, out, _ = ggeur("fit", sites / "art.npz", sites / "photo.npz", *words)
    assert code == 0 and "report.html" in out and (model / "contributions.json").exists()
    page = (model / "report.html").read_text(encoding="utf-8")
    (model / "report.html").unlink()
    assert ggeur("report", model)[0] == 0 and (model / "report.html").read_text(encoding="utf-8") == page
    code, _, err = ggeur("report", model, "--latex")
    assert code == 2 and err.code == "option-conflict-report"
    assert ggeur("add", model, sites / "sketch.npz")[0] == 0
    page = (model / "report.html").read_text(encoding="utf-8")
    assert "sketch" in page and "Contributions" not in page and not (model / "contributions.json").exists()


@pytest.mark.parametrize("method", ["lda", "auto", "kernel"])
def test_it_imports_neither_jax_nor_scikit_learn_which_take_seconds(sites, tmp_path, method):
    words = ["ggeur", "fit", *(str(sites / f"{name}.npz") for name in ("art", "photo")), "--method", method]
    heavy = ("jax", "optax", "sklearn", "scipy.stats", "pandas", "torch", "flwr")
    code = f"import sys\nfrom ggeur.cli import main\nsys.argv = {[*words, '--out', str(tmp_path / 'm')]!r}\n"
    code += f"try: main()\nfinally: print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert (tmp_path / "m" / "report.html").is_file()
