"""`ggeur export --without-statistics`: the model in full, and nothing of what its sites sent."""

import json
import shutil
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import ggeur
from ggeur.cli.app import app
from ggeur.models.exports.export_folder import write_without_statistics
from ggeur.models.joining import add_site, forget_site
from ggeur.stats.errors import GgeurError
from ggeur.stats.storage import read_arrays
from refusal import refused

P, NAMES = 7, ("ant", "bee", "cat")
SEALED = Path(__file__).parent / "data" / "0.2.0" / "sealed"


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Three tables and `model`, an LDA of `north` and `south` that `zoo` has joined and left."""
    folder, rng = tmp_path_factory.mktemp("sites"), np.random.default_rng(0)
    for name in ("north", "south", "zoo"):
        y = np.arange(40) % 3
        x = rng.normal(size=(40, P)) + 3 * np.eye(P)[y]
        table = ggeur.EmbeddingTable(x=x, y=y, test=np.arange(40) % 5 == 0, class_names=NAMES, domain_names=(name,))
        table.save(folder / f"{name}.npz")
    sites = [folder / "north.npz", folder / "south.npz"]
    ggeur.fit(sites, method="lda", out=folder / "model", contributions=True)
    add_site(folder / "model", folder / "zoo.npz")
    forget_site(folder / "model", "zoo", sites)
    return folder


@pytest.fixture
def copy(places, tmp_path):
    write_without_statistics(places / "model", tmp_path / "new" / "copy")
    return tmp_path / "new" / "copy"


def numbers(tree):
    """All lists of numbers in a tree of JSON."""
    if isinstance(tree, dict | list):
        for part in tree.values() if isinstance(tree, dict) else tree:
            yield from numbers(part)
    if isinstance(tree, list) and all(isinstance(one, float | int) for one in tree):
        yield tree


def test_no_byte_of_the_statistics_is_in_the_copy(places, copy):
    assert sorted(p.name for p in copy.parent.rglob("*")) == ["card.md", "copy", "head.npz", "model.json"]
    sent = [read_arrays(path) for path in (places / "model" / "statistics").iterdir()]
    assert len(sent) == 2 and all(one["second0"].shape == (3, P, P) for one in sent)
    names = [name for name in sent[0] if name[:-1] in ("count", "sum", "second", "center")]
    assert len(names) == 4
    secret = [one[name] for one in sent for name in names] + [sum(one[name] for one in sent) for name in names]
    content = b"".join(path.read_bytes() for path in copy.iterdir())  # arrays lie in head.npz as they are
    assert read_arrays(copy / "head.npz")["W"].tobytes("A") in content
    for array in secret:
        for kind, order in product(("<f8", "<f4"), "CF"):
            assert array.astype(kind).tobytes(order) not in content
        whole = np.flatnonzero(array != np.round(array))
        assert not any(repr(float(array.flat[i])).encode() in content for i in whole)
    assert {k: a.shape for k, a in read_arrays(copy / "head.npz").items()} == {"W": (3, P), "b": (3,)}
    assert all(len(found) < P for found in numbers(json.loads((copy / "model.json").read_bytes())))
    ledger = json.loads((places / "model" / "ledger.json").read_bytes())
    assert not any(one[part].encode() in content for one in ledger["sites"] for part in ("hash", "salt"))


def test_the_copy_is_the_model(places, copy):
    x = ggeur.EmbeddingTable.load(places / "zoo.npz").x
    ours, theirs = ggeur.load_model(copy), ggeur.load_model(places / "model")
    np.testing.assert_array_equal(ours.predict(x).probabilities, theirs.predict(x).probabilities)
    assert ours.about() == theirs.about() and ours.temperature != 1


def test_its_card_says_what_it_is(places, copy):
    before, card = (places / "model" / "card.md").read_text(), (copy / "card.md").read_text()
    assert "export FOLDER --without-statistics" in before and "`statistics/`" in before
    assert "This copy holds no statistics" in card and "statistics/" not in card and "ggeur add" not in card
    assert card.split("This copy")[0] == before.split("Sites can join")[0], "all else, sites and history, is the same"
    assert "| north | 32 | 3 |" in card and "forget a site that is no longer in" in card and "zoo" not in card


def test_add_and_forget_ask_for_the_statistics(places, copy):
    before = {p.name: p.read_bytes() for p in copy.iterdir()}
    for ask in (lambda: add_site(copy, places / "zoo.npz"), lambda: forget_site(copy, "north")):
        with refused("model-without-statistics"):
            ask()
    assert {p.name: p.read_bytes() for p in copy.iterdir()} == before


def test_a_trial_of_a_run_and_a_sealed_model_too(places, tmp_path):
    experiment = {
        "data": {"table": str(places / "north.npz")},
        "partition": {"clients": 2, "beta": 1.0},
        "augment": {"kind": "none"},
        "train": {"method": "ncm"},
    }
    ggeur.run(ggeur.Experiment.of(experiment), out=tmp_path / "run")
    trial = tmp_path / "run" / "model" / "trial-000"
    for number, folder in enumerate((trial, SEALED)):
        copy = tmp_path / str(number)
        write_without_statistics(folder, copy)
        assert sorted(p.name for p in copy.iterdir()) == ["card.md", "head.npz", "model.json"]
        assert ggeur.load_model(copy).about() == ggeur.load_model(folder).about()
        assert "total.npz" not in (copy / "card.md").read_text()


def test_what_lies_there_is_not_written_over(places, tmp_path):
    (tmp_path / "mine").write_text("mine")
    for out in (tmp_path, tmp_path / "mine"):
        with refused("folder-taken"):
            write_without_statistics(places / "model", out)
    broken = Path(shutil.copytree(places / "model", tmp_path / "broken"))
    (broken / "head.npz").write_bytes(b"PK")
    with pytest.raises(GgeurError):
        write_without_statistics(broken, tmp_path / "new")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["broken", "mine"]


def test_the_command(places, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def typed(*words):
        return CliRunner().invoke(app, ["export", str(places / "model"), *words])

    done = typed("--without-statistics")
    assert not done.exit_code and "card.md, head.npz, model.json, and no statistics" in done.output
    assert ggeur.load_model(tmp_path / "model-without-statistics").class_names == NAMES
    assert not typed("--without-statistics", "--out", "mine").exit_code and (tmp_path / "mine" / "card.md").exists()
    with refused("option-conflict-out"):
        raise typed("--torch", "folder", "--out", "other").exception
    assert not (tmp_path / "folder").exists()
