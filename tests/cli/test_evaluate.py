"""`ggeur evaluate` at three sites and at the coordinator, which has score files and nothing else of them."""

import json

import numpy as np
import pytest
from PIL import Image

import ggeur as library
from ggeur import EmbeddingTable
from ggeur.data.holdout import held_out
from ggeur.encoders.builtin import BuiltinEncoder
from ggeur.encoders.encoder import about
from ggeur.models.model import Model


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Three sites' tables, and a model of their training samples alone."""
    monkeypatch.chdir(tmp_path)
    rng, marked = np.random.default_rng(0), {}
    for name in ("leeds", "york", "hull"):
        y = rng.integers(3, size=200)
        table = EmbeddingTable(
            (rng.normal(size=(200, 4)) + 2 * np.eye(4)[y]).astype(np.float32), y, class_names=("ant", "bee", "cat")
        )
        table.save(tmp_path / f"{name}.npz")
        test = held_out(table, 0.2, "study")
        marked[name] = EmbeddingTable(table.x, y, class_names=table.class_names, test=test)
    library.fit(marked, method="lda", calibrate=False, out=tmp_path / "model")
    return tmp_path


def test_three_sites_send_scores_and_the_coordinator_adds_them_up(ggeur, place):
    for name in ("leeds", "york", "hull"):
        code, out, err = ggeur("evaluate", "model", f"{name}.npz", "--salt", "study")
        assert (code, err) == (0, "") and f"{name}.scores" in out and "samples" in out
        (place / f"{name}.npz").unlink()
    scores = [f"{name}.scores" for name in ("leeds", "york", "hull")]
    code, out, err = ggeur("evaluate", "model", *scores, "--out", "page.html", "--specificity", "0.9")
    assert (code, err) == (0, "") and "all sites" in out and "page.html" in out
    said = json.loads((place / "page.json").read_text())
    kept = library.load_model(place / "model")
    assert 100 * said["overall"]["accuracy"]["low"] == pytest.approx(
        np.average(
            list(kept.metrics["domains"].values()),
            weights=[said["sites"][d]["samples"] for d in kept.metrics["domains"]],
        ),
        abs=1e-4,
    )
    assert set(said["sites"]) == {"leeds", "york", "hull"} and said["specificity"] == 0.9
    assert set(said["overall"]["classes"]["ant"]) >= {"recall", "precision", "f1", "auroc", "sensitivity"}
    page = (place / "page.html").read_text()
    assert "leeds" in page and "Confusion matrix" in page


def test_photographs_are_held_out_by_their_bytes(ggeur, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GGEUR_CACHE", str(tmp_path / "cache"))
    rng, p = np.random.default_rng(0), BuiltinEncoder.dimension
    for k in range(30):
        folder = tmp_path / "site" / ("ant", "bee")[k % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (20, 20, 3), np.uint8)).save(folder / f"{k}.png")
    params = {"W": rng.normal(size=(2, p)).astype(np.float32), "b": np.zeros(2, np.float32)}
    Model(params, "linear", p, ("ant", "bee"), about(BuiltinEncoder())).save("m")
    assert ggeur("evaluate", "m", "site", "--test-share", "0.5")[0] == 0
    before = (tmp_path / "site.scores").read_bytes()
    for k, path in enumerate(sorted((tmp_path / "site").rglob("*.png"))):
        path.rename(path.with_name(f"renamed{k:02d}.png"))
    assert ggeur("evaluate", "m", "site", "--test-share", "0.5", "--out", "again.scores", "--site", "site")[0] == 0
    assert (tmp_path / "again.scores").read_bytes() == before  # whatever the pictures are called


def test_small_counts_are_not_in_the_file(ggeur, place):
    assert ggeur("evaluate", "model", "leeds.npz", "--salt", "study", "--min-count", "10")[0] == 0
    with np.load(place / "leeds.scores") as file:
        for name in ("samples", "confusion", "positive", "negative"):
            assert not ((file[name] > 0) & (file[name] < 10)).any()


@pytest.mark.parametrize(
    "words, says",
    [
        (("evaluate", "model", "leeds.npz", "york.npz"), "evaluation-several-sites"),
        (("evaluate", "model", "leeds.npz", "x.scores"), "evaluation-mixed-inputs"),
        (("evaluate", "model", "x.scores"), "file-missing: x.scores"),
        (("evaluate", "model", "nowhere.npz"), "file-missing: nowhere.npz"),
        (("evaluate", "model", "leeds.npz", "--out", "leeds.txt"), "output-file-suffix"),
        (("evaluate", "model", "leeds.npz", "--test-share", "1"), "holdout-share-invalid"),
        (("evaluate", "model", "leeds.npz", "--salt", ""), "holdout-salt-invalid"),
        (("evaluate", "model", "leeds.npz", "--min-count", "500"), "evaluation-all-withheld"),
        (("evaluate", "nowhere", "leeds.npz"), "model-missing"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_nothing_is_written(ggeur, place, words, says):
    before = sorted(place.iterdir())
    code, _, err = ggeur(*words)
    assert code == 2 and err.says(says) and sorted(place.iterdir()) == before


def test_scores_of_another_model_are_refused(ggeur, place):
    assert ggeur("evaluate", "model", "leeds.npz")[0] == 0
    kept = library.load_model(place / "model")
    Model({**kept.params, "b": kept.params["b"] + 1e-3}, "linear", 4, kept.class_names, {}).save(place / "other")
    code, _, err = ggeur("evaluate", "other", "leeds.scores")
    assert code == 2 and err.says("scores-model-mismatch")


def test_what_a_plan_holds_out_is_what_is_scored(ggeur, place):
    """Three sites that share the plan, their .stats and their .scores, and nothing else."""
    names = ("leeds", "york", "hull")
    assert ggeur("plan", "federation.toml", "--salt", "our study", "--test-share", "0.3", "--min-count", "0")[0] == 0
    shared = 0
    for name in names:
        assert ggeur("summarize", f"{name}.npz", "--plan", "federation.toml", "--out", f"{name}.stats")[0] == 0
    stats = [f"{name}.stats" for name in names]
    assert ggeur("fit", *stats, "--method", "lda", "--out", "federated")[0] == 0
    for name in names:
        code, out, err = ggeur("evaluate", "federated", f"{name}.npz", "--min-count", "0")
        assert (code, err) == (0, "") and "does not say that test samples were held out" not in out
        code, _, err = ggeur("evaluate", "federated", f"{name}.npz", "--salt", "other", "--out", "x.scores")
        assert code == 2 and err.says("evaluation-holdout-mismatch")
        with np.load(f"{name}.scores") as file:
            shared += int(file["samples"].sum())
    trained = sum(site["samples"] for site in json.loads((place / "federated" / "ledger.json").read_text())["sites"])
    assert trained + shared == 600  # no sample is on both sides, none is lost
    code, out, _ = ggeur("evaluate", "federated", *(f"{name}.scores" for name in names))
    assert code == 0 and "all sites" in out


def test_fit_prints_the_figures_of_a_classifier_without_the_held_out_samples(ggeur, place):
    words = ("fit", "leeds.npz", "york.npz", "--method", "lda", "--no-calibrate")
    code, out, err = ggeur(*words, "--test-share", "0.2", "--salt", "study", "--out", "all")
    assert (code, err) == (0, "") and "all sites" in out and "without the test samples" in out
    assert ggeur(*words, "--out", "plain")[0] == 0
    assert (place / "all" / "head.npz").read_bytes() == (place / "plain" / "head.npz").read_bytes()
