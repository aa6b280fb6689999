"""docs/images.md shows what docs/results/images/digits.json holds, and its words keep to that."""

import importlib
import json
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def test_the_tables_of_the_page_are_those_of_the_results(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS.parent / "tools"))
    tool = importlib.import_module("images_page")
    page = (DOCS / "images.md").read_text(encoding="utf-8")
    found = json.loads((DOCS / "results" / "images" / "digits.json").read_text(encoding="utf-8"))
    for name, rows in tool.shown(found).items():
        assert f"<!-- images: {name} -->\n{tool.table(rows)}<!-- end -->" in page
    assert found["train"] == tool.TRAIN and found.get("resnet", tool.RESNET) == tool.RESNET
    assert found["digits"]["FedAvg (images)"]["domains"]["mnist"] > 85
