"""`ggeur reproduce`: from a table of embeddings to numbers beside the paper's and a report."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from ggeur.cli.reproduce import comparison_screens
from ggeur.data.table import EmbeddingTable
from ggeur.report.tables import Comparison, Line, Number


def one_line(text):
    return " ".join(text.split())


@pytest.fixture
def office(tmp_path, monkeypatch):
    """A toy in the shape of Office-Caltech, and we are in its folder."""
    rng = np.random.default_rng(0)
    y, domain = np.tile(np.repeat(np.arange(10), 6), 4), np.repeat(np.arange(4), 60)
    x = 3 * rng.normal(size=(10, 4))[y] + rng.normal(size=(240, 4))
    names = ("amazon", "caltech", "dslr", "webcam")
    EmbeddingTable(x=x.astype(np.float32), y=y, domain=domain, domain_names=names).save(tmp_path / "office.npz")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    return tmp_path


ROWS = ("--rows", "FedAvg", "--rows", "FedAvg, equal weights", "--rows", "FedAvg (images)")
FEW = ("--rounds", "2", "--seeds", "2", *ROWS)


def test_a_table_from_start_to_report_and_again(ggeur, office, request):
    asked = ("reproduce", "table5", "--table", "office.npz", "--out", "run", *FEW)
    code, out, _ = ggeur(*asked)
    assert code == 0
    text = one_line(out)
    for piece in ("98.75", "FedAvg, equal weights", "not run: FedAvg (images)", "Trained for 2 rounds", "AVG"):
        assert piece in text, piece
    assert "not published: FedAvg, equal weights" in text and "report.html" in text
    kept = json.loads((office / "run" / "reproduction.json").read_text())
    assert kept["table"] == "table5" and kept["protocol"] == "paper"
    assert (office / "run" / "report.html").stat().st_size < 5 * 2**20
    before = (office / "run" / "result.json").read_text()
    request.getfixturevalue("undrawn")  # once is enough
    code, again, _ = ggeur(*asked)  # goes on where it was, which is the end
    assert code == 0 and (office / "run" / "result.json").read_text() == before
    assert one_line(again)[-80:] == text[-80:]


@pytest.mark.usefixtures("undrawn")
def test_of_tuned_only_what_changed_is_run(ggeur, office):
    table = EmbeddingTable.load(office / "office.npz")
    told = np.hstack([table.x, 9 * np.eye(10, dtype=np.float32)[table.y]])  # by LDA, however much it shrinks
    replace(table, x=told).save(office / "office.npz")
    few = ("--rows", "FedAvg", "--rows", "LDA*", "--rounds", "1", "--seeds", "1", "--only-changed", "--out", "run")
    code, _, err = ggeur("reproduce", "table5", "--table", "office.npz", *few)
    assert code == 2 and err.code == "option-conflict-protocol"
    code, out, _ = ggeur("reproduce", "table5", "--table", "office.npz", "--protocol", "tuned", *few)
    text, kept = one_line(out), json.loads((office / "run" / "reproduction.json").read_text())
    numbers = {row: words for row, _, words, *_ in kept["chosen"]}
    assert code == 0 and numbers.keys() == {"FedAvg", "LDA, one-shot"} and numbers["LDA, one-shot"] == "unchanged"
    assert {arm[0] for arm in kept["arms"]} == {"FedAvg"}
    assert "its numbers stay the paper's, so that it is the row of protocol sound" in text


@pytest.mark.usefixtures("undrawn")
def test_from_pictures_to_numbers(ggeur, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    classes = (
        "backpack",
        "bike",
        "calculator",
        "headphones",
        "keyboard",
        "laptop",
        "monitor",
        "mouse",
        "mug",
        "projector",
    )
    for domain in ("amazon", "caltech", "dslr", "webcam"):
        for name in classes:
            folder = tmp_path / "office_caltech_10" / domain / name
            folder.mkdir(parents=True)
            for i in range(4):
                Image.fromarray(rng.integers(0, 256, size=(24, 24, 3), dtype=np.uint8)).save(folder / f"{i}.png")
    monkeypatch.setenv("GGEUR_CACHE", str(tmp_path / "cache"))
    asked = ("--data", tmp_path, "--encoder", "builtin", "--rows", "FedAvg", "--rounds", "1", "--seeds", "1")
    code, out, _ = ggeur("reproduce", "table5", *asked, "--out", tmp_path / "run")
    assert code == 0 and "was embedded by builtin" in one_line(out) and (tmp_path / "run" / "report.html").exists()
    monkeypatch.setattr("ggeur.encoders.encoder.find_spec", lambda name: object())  # as with ggeur[hf], for CLIP
    code, out, _ = ggeur("reproduce", "--list", "--data", tmp_path)
    assert code == 0 and "Office-Caltech: yes" in one_line(out.replace("│", " "))


def test_what_an_encoder_needs_is_told(ggeur, office, monkeypatch):
    monkeypatch.setattr("ggeur.encoders.encoder.find_spec", lambda name: None)
    monkeypatch.delenv("GGEUR_DATA", raising=False)
    for encoder, extra in (("openai/clip-vit-base-patch16", "hf"), ("onnx:tower.onnx", "onnx")):
        code, _, err = ggeur("reproduce", "table5", "--encoder", encoder)
        assert code == 2 and err.says(f"paper-table-unavailable: [{extra}]")
    assert "pip install" not in ggeur("reproduce", "table5", "--encoder", "builtin")[2]


def test_wide_tables_are_printed_in_parts_that_fit_a_terminal():
    line = Line("FedAvg + GGEUR", tuple(Number((90.0, 91.0), 94.39) for _ in range(10)))
    parts = comparison_screens(Comparison(tuple(f"CIFAR-{i} β=0.0{i}" for i in range(10)), (line,)), "table2")
    assert len(parts) == 2
    for part in parts:
        console = Console(width=80, record=True, file=io.StringIO())
        console.print(part)
        text = console.export_text()
        assert text.count("94.39") == 5 and text.count("-3.89") == 5 and text.count("± 0.71") == 5 and "…" not in text


def test_another_run_is_not_overwritten(ggeur, office):
    (office / "run").mkdir()
    (office / "run" / "config.toml").write_text('[data]\ntable = "x.npz"\n')
    code, _, err = ggeur("reproduce", "table5", "--table", "office.npz", "--out", "run", *FEW)
    assert code == 2 and err.code == "run-other-experiment"


def test_list_says_what_runs_and_what_is_missing(ggeur, tmp_path):
    code, out, _ = ggeur("reproduce", "--list", "--data", tmp_path)
    assert code == 0
    for i in (1, 2, 3, 4, 5, 6, 7, 10, 11):
        assert f"table{i}" in out
    assert "Office-Caltech-10" in out and "--table FILE.npz" in out
    assert ggeur("reproduce", "--data", tmp_path)[1] == out  # no table named: the list


@pytest.mark.parametrize(
    "argv, says",
    [
        (("table9", "--table", "office.npz"), "paper-table-unknown: table9"),
        (("table2", "--table", "office.npz"), "paper-table-data-mismatch: table2...CIFAR-10"),
        (("table5", "--table", "office.npz", "--rows", "nobody"), "paper-row-unknown: nobody"),
        (("table5", "--table", "office.npz", "--protocol", "mine"), "paper-protocol-unknown: mine"),
        (("table5", "--table", "none.npz"), "file-missing: none.npz"),
        (("table5",), "paper-table-unavailable: table5"),
    ],
)
def test_mistakes_are_one_sentence(ggeur, office, monkeypatch, argv, says):
    monkeypatch.delenv("GGEUR_DATA", raising=False)
    code, _, err = ggeur("reproduce", *argv)
    assert code == 2 and err.says(says) and "Traceback" not in err


@pytest.mark.real
@pytest.mark.usefixtures("undrawn")
def test_digits_say_that_a_domain_is_not_the_papers(ggeur, shared, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    table = shared / "data" / "embeddings" / "digits.tinyvit.npz"
    asked = ("--rows", "FedAvg", "--rounds", "1", "--seeds", "1", "--out", tmp_path / "run")
    code, out, _ = ggeur("reproduce", "table4", "--table", table, *asked)
    assert code == 0 and "mnist_m stands in for SYN" in one_line(out)
    assert "mnist_m (paper: SYN)" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
