"""What a machine lacks for a table of the paper, and which of its parts are embedded."""

import numpy as np
import pytest

from ggeur.data.table import EmbeddingTable
from ggeur.paper.paper_tables import NAMES, Table, missing, part_embeddings, part_states, runnable_rows
from ggeur.stats.errors import how_to_install
from refusal import refused

OFFICE = Table.load("table5")
MANY = next(table for table in map(Table.load, NAMES) if len(table.parts) > 1)


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """A machine without data or extras, and with a cache of its own."""
    monkeypatch.delenv("GGEUR_DATA", raising=False)
    monkeypatch.setenv("GGEUR_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("ggeur.encoders.encoder.find_spec", lambda name: None)
    return tmp_path


def test_pictures_and_extras_that_are_missing_are_named(bare):
    (part,) = OFFICE.parts
    assert "was not found; get" in missing(part, None) and missing(part, None).endswith(
        f"CLIP needs {how_to_install('hf')}"
    )
    assert f"onnx:x needs {how_to_install('onnx')}" in missing(part, None, "onnx:x")
    assert "pip install" not in missing(part, None, "builtin")
    assert all(p.missing and not p.local for p in part_states(MANY, None))


def test_what_is_local_or_on_the_hub_lacks_nothing(bare, monkeypatch):
    monkeypatch.setattr("ggeur.paper.paper_tables.find", lambda source, below: bare)
    assert [(p.part, p.missing, p.local) for p in part_states(OFFICE, None, "builtin")] == [
        ("Office-Caltech", "", True)
    ]
    monkeypatch.setattr("ggeur.paper.paper_tables.find", lambda source, below: None)
    monkeypatch.setattr("ggeur.encoders.encoder.find_spec", lambda name: object())
    by_hub = [p for name in NAMES for p in part_states(Table.load(name), None) if not p.missing]
    assert by_hub and not any(p.local for p in by_hub)


def test_rows_that_need_what_is_not_there_are_not_counted():
    assert 0 < runnable_rows(OFFICE) < len(OFFICE.rows)


def test_only_parts_without_a_gap_are_embedded(bare, monkeypatch):
    first = MANY.parts[0]
    monkeypatch.setattr(
        "ggeur.paper.paper_tables.missing", lambda part, *_: "" if part is first else "its pictures are away"
    )
    asked = []

    def embed(dataset, path):
        asked.append(dataset)
        EmbeddingTable(x=np.zeros((2, 3), np.float32), y=np.array([0, 1])).save(path)

    found = part_embeddings(MANY, None, "onnx:a/b", embed)
    assert asked == [first.dataset] and found[first.name].path == bare / "cache" / "tables" / (
        f"{first.dataset}.onnx-a-b.npz"
    )
    assert {s.why for name, s in found.items() if name != first.name} == {"its pictures are away"}
    monkeypatch.setattr("ggeur.paper.paper_tables.missing", lambda *_: "its pictures are away")
    with refused("paper-table-unavailable: its pictures are away"):
        part_embeddings(MANY, None, "builtin", embed)
    assert len(asked) == 1
