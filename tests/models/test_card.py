"""The card: what others named is shown as they named it, and nothing else comes of it."""

import json
import re

import numpy as np
import pytest

import ggeur
from ggeur.models.card import hub_card
from ggeur.models.joining import add_site
from ggeur.models.model import Model
from ggeur.report.model_page import write_model_page
from refusal import refused

HOSTILE = {
    "script": "<script>alert(1)</script>",
    "table": "a | b",
    "link": "[click](https://example.org)",
    "picture": "![x](https://example.org/x.png)",
    "bold": "**loud** __under__ `code` ~~gone~~",
    "heading": "# Model card",
    "entity": "R&D &lt;",
    "plain": "cell_phone-2 (new)",
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    rng, y = np.random.default_rng(0), np.arange(40) % len(HOSTILE)
    x = rng.normal(size=(40, 12)) + 4 * np.eye(12)[y]
    about = {"encoder": "<b>tower</b>", "weights": "|", "preprocessing": "*"}
    table = ggeur.EmbeddingTable(x=x, y=y, test=y == 1, class_names=tuple(HOSTILE.values()), meta=about)
    sites = {name.replace("/", " "): table for name in list(HOSTILE.values())[:3]}
    ggeur.fit(sites, method="lda", out=folder / "m")
    table.save(folder / "<i>late.npz")
    add_site(folder / "m", folder / "<i>late.npz")
    return folder / "m"


def cards(model):
    return {"card": (model / "card.md").read_text(), "hub": hub_card(ggeur.load_model(model))}


@pytest.mark.needs("docs")
@pytest.mark.parametrize("which", ["card", "hub"])
def test_markdown_shows_names_as_they_are(model, which):
    import markdown

    text = cards(model)[which].split("---\n")[-1] if which == "hub" else cards(model)[which]
    page = markdown.markdown(text, extensions=["tables"])
    assert not re.search(r"<(script|a|img|strong|b|i|del)\b", page) and page.count("<h1>") == 1
    shown = re.sub(r"<[^>]+>", "", page).replace("&lt;", "<").replace("&gt;", ">").replace("&#58;", ":")
    for name in (HOSTILE["script"], HOSTILE["link"], HOSTILE["plain"]):
        assert name in shown.replace("&amp;", "&"), name


def test_every_row_of_the_table_is_one(model):
    rows = [line for line in cards(model)["card"].splitlines() if re.match(r"\|.*\d+ \|$", line)]
    assert len(rows) == 4 and all(len(re.findall(r"(?<!\\)\|", row)) == 4 for row in rows)


def test_the_page_shows_text_too(model):
    page = write_model_page(model).read_text()
    assert "<script>alert" not in page and "<b>tower" not in page and "<i>late" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_the_accuracy_is_that_of_the_head_that_is_saved(tree, tmp_path):
    """Not the mean of the last rounds, which the tables show."""
    ggeur.run(ggeur.Experiment.of(tree(run={"seeds": [0]})), out=tmp_path / "run")
    events = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    metrics = ggeur.load_model(tmp_path / "run").metrics
    assert metrics["domains"] == events[-1]["domains"] != events[0]["domains"]
    assert metrics["avg"] == pytest.approx(events[-1]["avg"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"metrics": {"avg": 3}},
        {"settings": {"train": 3}},
        {"privacy": {"epsilon": "x"}},
        {"calibration": {"validation": "x"}},
        {"encoder": {"dimension": "x"}},
    ],
)
def test_what_strangers_say_of_a_model_is_not_trusted(tmp_path, wrong):
    model = Model({"W": np.zeros((2, 3)), "b": np.zeros(2)}, "linear", 3, ("a", "b"), {})
    model.save(tmp_path / "m")
    about = json.loads((tmp_path / "m" / "model.json").read_bytes())
    about = {key: value for key, value in about.items() if key in ("head", "dimension", "class_names", "encoder")}
    (tmp_path / "m" / "model.json").write_bytes(json.dumps({**about, **wrong}).encode())  # as earlier versions wrote it
    with refused("file-damaged"):
        ggeur.load_model(tmp_path / "m")
