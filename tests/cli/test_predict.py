"""From the command line: photographs to labels, a run's head and why, exports, and what is refused in a sentence."""

import csv
import json

import numpy as np
import pytest
from PIL import Image

import ggeur as library
from ggeur.encoders.builtin import BuiltinEncoder
from ggeur.encoders.encoder import about
from ggeur.models.model import Model

RNG = np.random.default_rng(0)
PHOTOS = RNG.integers(0, 256, (3, 24, 30, 3), np.uint8)
NAMES = ("ant", "bee", "cat")
P = BuiltinEncoder.dimension
SERVE = pytest.mark.needs("serve")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a model and a flat folder of pictures without labels."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GGEUR_CACHE", str(tmp_path / "cache"))
    params = {"W": RNG.normal(size=(3, P)).astype(np.float32), "b": np.zeros(3, np.float32)}
    Model(params, "linear", P, NAMES, about(BuiltinEncoder()), calibration={"temperature": 1.0}).save(tmp_path / "m")
    (tmp_path / "new").mkdir()
    for name, photo in zip("cab", PHOTOS, strict=True):
        Image.fromarray(photo).save(tmp_path / "new" / f"{name}.png")
    (tmp_path / "link.json").symlink_to(tmp_path / "m" / "model.json")
    return tmp_path


def wanted():
    return library.load_model("m").predict(PHOTOS[[1, 2, 0]])


def test_a_folder_of_photographs_becomes_a_file_of_labels(ggeur, place):
    code, out, err = ggeur("predict", "m", "new", "--out", "labels.csv", "--top", "2")
    assert (code, err) == (0, "") and "3 predictions" in out
    lines = list(csv.DictReader((place / "labels.csv").open(newline="")))
    assert [line["file"] for line in lines] == ["a.png", "b.png", "c.png"]
    assert [line["class"] for line in lines] == wanted().labels
    assert [(line["class_2"], float(line["probability_2"])) for line in lines] == [
        (best[1][0], pytest.approx(best[1][1], abs=1e-4)) for best in wanted().top(2)
    ]


def test_every_photograph_has_a_line_with_as_many_classes_as_asked_for(ggeur, place):
    code, out, _ = ggeur("predict", "m", "new", "--top", "2")
    lines = [line for line in out.splitlines() if ".png: " in line]
    assert code == 0 and len(lines) == 3
    for line, best in zip(lines, wanted().top(2), strict=True):
        assert line.endswith(": " + ", ".join(f"{name} {100 * p:.1f} %" for name, p in best))


def test_programs_get_an_event_for_every_photograph(ggeur, place):
    _, out, _ = ggeur("predict", "m", "new", "--json-lines")
    events = [json.loads(line) for line in out.splitlines()]
    assert [one["class"] for one in events if one["event"] == "prediction"] == wanted().labels
    assert ggeur("predict", "m", "new", "--quiet")[:2] == (0, "")


def test_json_has_the_same_and_null_for_i_do_not_know(ggeur, place):
    least = str(float(np.median(wanted().confidence)))
    assert ggeur("predict", "m", "new", "--out", "labels.json", "--reject", least)[0] == 0
    each = json.loads((place / "labels.json").read_text())
    assert [one["file"] for one in each] == ["a.png", "b.png", "c.png"]
    assert [one["class"] for one in each] == library.load_model("m").predict(
        PHOTOS[[1, 2, 0]], reject=float(least)
    ).labels
    assert sum(one["class"] is None for one in each) == 1 and all(len(one["top"]) == 1 for one in each)


def test_one_photograph_is_answered_on_the_screen(ggeur, place):
    code, out, _ = ggeur("predict", "m", "new/b.png", "--top", "3")
    (best,) = library.load_model("m").predict(place / "new" / "b.png").top(3)
    assert code == 0 and all(f"{name} {100 * p:.1f} %" in out for name, p in best)
    code, out, _ = ggeur("predict", "m", "new/b.png", "--reject", "1")
    assert code == 0 and "I do not know" in out


def test_pictures_without_labels_are_embedded_and_labelled_later(ggeur, place):
    (place / "new" / "broken.png").write_bytes(b"x")
    assert ggeur("embed", "new", "--out", "new.npz", "--encoder", "builtin", "--skip-unreadable")[0] == 0
    code, out, _ = ggeur("predict", "m", "new.npz", "--out", "labels.csv")
    lines = list(csv.DictReader((place / "labels.csv").open(newline="")))
    assert code == 0 and [line["file"] for line in lines] == ["a.png", "b.png", "c.png"]
    assert [line["class"] for line in lines] == wanted().labels and "agree" not in out
    code, _, err = ggeur("fit", "new.npz", "--out", "other")
    assert code == 2 and err.code == "file-not-table" and not (place / "other").exists()


def test_folders_named_as_classes_say_how_many_agree(ggeur, place):
    for label, name in zip(wanted().labels, ("a.png", "b.png", "c.png"), strict=True):
        (place / "sorted" / label).mkdir(parents=True, exist_ok=True)
        (place / "new" / name).rename(place / "sorted" / label / name)
    code, out, _ = ggeur("predict", "m", "sorted")
    assert code == 0 and "100.00 % agree with the names of their folders" in out


@pytest.mark.parametrize(
    "argv, words",
    [
        (["predict", "m/head.npz", "new"], "folder-is-file: folder m"),
        (["predict", "m", "nothing"], "data-path-missing: nothing"),
        (["predict", "m", "new", "--out", "labels.txt"], "output-file-suffix"),
        (["predict", "m", "new", "--out", "m/model.json"], "output-file-protected"),
        (["predict", "m", "new", "--out", "link.json"], "output-file-protected"),
        (["embed", "new", "--out", "m/head.npz"], "output-file-protected"),
        (["export", "m", "--onnx", "m/model.json"], "output-file-suffix: m/model.onnx"),
        (["predict", "m", "new", "--encoder", "onnx:none.onnx"], "file-missing: none.onnx"),
        (["predict", "m", "new", "--trial", "GGEUR"], "option-trial-without-run: m...GGEUR"),
        (["export", "m", "--torch", "t", "--trial", "0"], "option-trial-without-run"),
        pytest.param(["serve", "m", "--trial", "0"], "option-trial-without-run", marks=SERVE),
        (["export", "m"], "export-target-missing"),
        (["export", "m", "--torch", "t", "--encoder", "builtin"], "option-conflict-encoder"),
        (["export", "m", "--hub", "new"], "folder-taken"),
        pytest.param(["serve", "m/model.json"], "folder-is-file: folder m", marks=SERVE),
        pytest.param(["serve", "m", "--host", "nowhere.invalid"], "server-port-unavailable", marks=SERVE),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_end_in_a_sentence(ggeur, place, argv, words):
    before = {p: p.stat().st_mtime_ns for p in place.rglob("*")}
    code, out, err = ggeur(*argv)
    assert code == 2 and err.says(words) and "Traceback" not in out + err
    assert {p: p.stat().st_mtime_ns for p in place.rglob("*")} == before


def test_a_model_of_another_encoder_is_refused(ggeur, place):
    model = library.load_model("m")
    Model(model.params, "linear", P, NAMES, {**model.encoder, "weights": "0" * 64}).save(place / "other")
    code, _, err = ggeur("predict", "other", "new")
    assert code == 2 and err.code == "encoder-mismatch"


@SERVE
def test_a_port_in_use_is_said(ggeur, place):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, _, err = ggeur("serve", "m", "--port", taken.getsockname()[1])
    assert code == 2 and err.says("server-port-unavailable: in use")


@pytest.mark.needs("onnx")
def test_exports_are_written_and_said(ggeur, place):
    code, out, err = ggeur("export", "m", "--onnx", "m.onnx", "--torch", "t", "--hub", "h")
    assert (code, err) == (0, "") and "label (B,)" in out
    assert (place / "m.onnx").stat().st_size > 1000 and not list(place.rglob("*.pkl"))
    assert (place / "h" / "README.md").read_text().startswith("---\nlibrary_name")
    np.testing.assert_array_equal(library.load_model("h").params["W"], library.load_model("m").params["W"])


def test_of_a_run_it_says_which_head_it_took_and_why(ggeur, place, table_file, tree):
    experiment = tree(
        **{"augment": {"kind": ["none", "ggeur"]}, "train": {"rounds": 1}, "run": {"seeds": [0]}}  # two trials
    )
    library.run(library.Experiment.of(experiment), out=place / "RUN")
    code, *_ = ggeur("predict", "RUN", table_file, "--out", "RUN/result.json")
    assert code == 2, "what a run is read from is not written over"
    _, out, _ = ggeur("predict", "RUN", table_file)
    text = " ".join(out.split())
    assert "Head of trial 1 of 2 (fedavg, augmentation ggeur, seed 0): the last that has one" in text
    assert "none is chosen by its test samples" in text
    assert "trial 0 of 2 (fedavg, augmentation none" in " ".join(
        ggeur("predict", "RUN", table_file, "--trial", 0)[1].split()
    )
    about_it = json.loads((place / "RUN" / "model" / "trial-001" / "model.json").read_text())
    assert about_it["algorithm"] == {"method": "fedavg", "augmentation": "ggeur", "seed": 0}
    assert about_it["settings"]["partition"]["kind"] == "label-and-domain" and str(place) not in json.dumps(about_it)
    card = (place / "RUN" / "model" / "trial-001" / "card.md").read_text()
    for words in ("Method: fedavg", "Augmentation: ggeur", "Seed: 0", "beta = 0.5", "uncalibrated", "Not for:", " ± "):
        assert words in card
    (place / "handed").mkdir()
    (place / "RUN" / "model" / "trial-001").rename(place / "handed" / "trial-001")
    assert ggeur("predict", "handed/trial-001", table_file, "--out", "p.csv")[0] == 0
