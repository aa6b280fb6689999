"""What still speaks of a site that has left: the receipts, and nothing that is handed on but `chosen_by`."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

import ggeur
from ggeur.models.joining import add_site, forget_site
from ggeur.stats.storage import sealed

META = {"weights": "w", "encoder": "e"}
QUICK = {"candidates": ["ncm", "lda"], "folds": 2}


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Three tables with test samples."""
    folder, rng = tmp_path_factory.mktemp("sites"), np.random.default_rng(0)
    for name in ("art", "photo", "zoo"):
        y = np.arange(40) % 3
        x, test = rng.normal(size=(40, 5)) + 4 * np.eye(5)[y], np.arange(40) % 5 == 0
        table = ggeur.EmbeddingTable(x=x, y=y, test=test, class_names=("ant", "bee", "cat"), meta=META)
        table.save(folder / f"{name}.npz")
    return folder


@pytest.fixture
def tables(places):
    return lambda *names: [places / f"{name}.npz" for name in names]


def test_what_the_card_says_of_who_left_and_of_test_rows(tables, tmp_path):
    model, piped = tmp_path / "model", tmp_path / "a|b.npz"
    shutil.copy(*tables("photo"), piped)
    ggeur.fit([*tables("art", "zoo"), piped], parameters=QUICK, out=model)
    assert "| a\\|b | " in (model / "card.md").read_text()
    forget_site(model, "zoo")
    card = (model / "card.md").read_text()
    assert "zoo" not in card and "help of: art, a\\|b, 1 more, no longer in" in card
    assert "No test samples were scored since" in card and "were given" not in card


def test_what_only_one_site_says_of_the_encoder_leaves_with_it(tables, tmp_path):
    plain, model, never = tmp_path / "plain.npz", tmp_path / "model", tmp_path / "never"
    table = ggeur.EmbeddingTable.load(*tables("art"))
    dataclasses.replace(table, meta={}).save(plain)
    ggeur.fit([plain], method="lda", out=never)
    ggeur.fit([plain, *tables("photo")], method="lda", out=model)
    assert ggeur.Model.load(model).encoder == META
    forget_site(model, "photo")
    assert ggeur.Model.load(model).encoder == ggeur.Model.load(never).encoder == {}
    assert "Encoder: not known" in (model / "card.md").read_text()
    add_site(model, *tables("photo"))
    assert ggeur.Model.load(model).encoder == META


def test_an_older_ledger_says_nothing_of_encoders(tables, tmp_path):
    model = tmp_path / "model"
    ggeur.fit(tables("art", "photo"), method="lda", out=model)
    tree = json.loads((model / "ledger.json").read_bytes())
    del tree["sha256"]
    tree["schema"], tree["sites"] = 1, [{k: v for k, v in s.items() if k != "encoder"} for s in tree["sites"]]
    (model / "ledger.json").write_bytes(sealed(tree))
    forget_site(model, "photo")
    assert ggeur.Model.load(model).encoder == META
