"""Sites that join and leave: the head is, to the bit, that of a federation that never saw who left."""

import json
import shutil

import numpy as np
import pytest

import ggeur
from ggeur.models.joining import add_site, forget_site
from ggeur.models.site_files import load_ledger, read_receipts
from ggeur.stats.errors import GgeurError
from ggeur.stats.storage import read_arrays, sealed

QUICK = {"candidates": ["ncm", "lda"], "folds": 2}


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Four tables: `zoo` holds the only samples of the class elk, and samples lie far from zero."""
    folder, rng = tmp_path_factory.mktemp("sites"), np.random.default_rng(0)
    for i, name in enumerate(("art", "photo", "sketch", "zoo")):
        names = ("ant", "bee", "cat", "elk") if name == "zoo" else ("ant", "bee", "cat")
        y = np.arange(40 + i) % len(names)
        x = 1e3 + i + rng.normal(size=(len(y), 5)) + 4 * np.eye(5)[y]
        test = np.arange(len(y)) % 5 == 0
        ggeur.EmbeddingTable(x=x, y=y, test=test, class_names=names, meta={"weights": "w", "encoder": "e"}).save(
            folder / f"{name}.npz"
        )
    return folder


@pytest.fixture
def tables(places):
    return lambda *names: [places / f"{name}.npz" for name in names]


def same_head(a, b):
    ours, theirs = (read_arrays(folder / "head.npz") for folder in (a, b))
    return ours.keys() == theirs.keys() and all(np.array_equal(ours[k], theirs[k]) for k in ours)


def contents(folder):
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != ".lock"}


def last_receipt(folder):
    return json.loads(sorted((folder / "receipts").iterdir())[-1].read_bytes())


@pytest.mark.parametrize("method", ["lda", "ggeur-limit", "blend", "ncm"])
def test_who_left_was_never_there(tables, tmp_path, method):
    rest = ("art", "photo", "sketch")
    model, never, before = tmp_path / "model", tmp_path / "never", tmp_path / "before"
    ggeur.fit(tables(*rest), method=method, out=never)
    ggeur.fit(tables(*rest), method=method, out=model)
    shutil.copytree(model, before)
    add_site(model, *tables("zoo"))
    assert ggeur.Model.load(model).class_names == ("ant", "bee", "cat", "elk") and not same_head(model, before)
    whole = ggeur.fit(tables("zoo", *rest), method=method).predict_proba(samples := np.full((1, 5), 1e3))
    table = ggeur.EmbeddingTable(x=samples, y=[0])
    np.testing.assert_allclose(ggeur.Model.load(model).probabilities(table), whole, atol=1e-4)
    forget_site(model, "zoo")
    assert same_head(model, before) and same_head(model, never)
    assert ggeur.Model.load(model).class_names == ("ant", "bee", "cat")
    assert not list(model.rglob("zoo*")) and load_ledger(model).names == rest


def test_the_order_of_events_leaves_no_trace(tables, tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    ggeur.fit(tables("zoo", "art"), method="ggeur-limit", out=one)
    ggeur.fit(tables("photo", "sketch", "zoo"), method="ggeur-limit", out=other)
    add_site(one, *tables("sketch"))
    forget_site(one, "art")
    forget_site(other, "photo")
    assert same_head(one, other)
    assert last_receipt(one)["hash_of_head"] == last_receipt(other)["hash_of_head"]


def test_constants_that_were_chosen_stay_and_the_receipt_says_who_chose_them(tables, tmp_path):
    model = tmp_path / "model"
    ggeur.fit(tables("art", "photo", "zoo"), parameters=QUICK, out=model)
    taken = ggeur.Model.load(model).algorithm
    assert taken["chosen_by"] == ["art", "photo", "zoo"] and ggeur.Model.load(model).metrics["domains"].keys() == {
        "art",
        "photo",
        "zoo",
    }
    forget_site(model, "zoo")
    receipt = last_receipt(model)
    assert (
        receipt["what"] == "forget"
        and "took part in choosing" in receipt["note"]
        and receipt["remaining"]
        == [
            "art",
            "photo",
        ]
    )
    assert ggeur.Model.load(model).algorithm["constants"] == taken["constants"]
    assert "took part in choosing" in (model / "card.md").read_text()
    add_site(model, *tables("sketch"), choose_again=True)
    never = tmp_path / "never"
    ggeur.fit(tables("art", "photo", "sketch"), parameters=QUICK, out=never)
    assert same_head(model, never) and last_receipt(model)["note"].startswith("constants chosen again")
    assert ggeur.Model.load(model).algorithm == ggeur.Model.load(never).algorithm


def test_a_command_that_was_cut_short_is_mended_by_giving_it_again(tables, tmp_path, monkeypatch):
    model, never = tmp_path / "model", tmp_path / "never"
    ggeur.fit(tables("art", "photo"), method="lda", out=never)
    ggeur.fit(tables("art", "photo", "zoo"), method="lda", out=model)

    def fail(*args):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr("ggeur.models.fitted.save_ledger", fail)
        with pytest.raises(GgeurError, match="No space left"):
            forget_site(model, "zoo")
    forget_site(model, "zoo")
    assert same_head(model, never) and load_ledger(model).names == ("art", "photo")


def test_statistics_that_were_never_added_are_refused(tables, tmp_path):
    model = tmp_path / "model"
    ggeur.fit(tables("art", "photo", "sketch"), method="lda", out=model)
    other = tmp_path / "photo.npz"
    shutil.copy(*tables("art"), other)
    before = contents(model)
    with pytest.raises(GgeurError, match="'photo' do not match their hash"):
        forget_site(model, "sketch", [*tables("art"), other])
    with pytest.raises(GgeurError, match="'zoo' was never added"):
        forget_site(model, "sketch", tables("art", "photo", "zoo"))
    with pytest.raises(GgeurError, match="photo must send"):
        forget_site(model, "sketch", tables("art"))
    assert before == contents(model)


def test_a_head_that_was_trained_cannot(tables, tmp_path):
    experiment = {
        "data": {"table": str(tables("art")[0])},
        "partition": {"clients": 2, "beta": 1.0},
        "augment": {"kind": "none"},
        "train": {"method": "fedavg", "rounds": 1},
    }
    ggeur.run(ggeur.Experiment.of(experiment), out=tmp_path / "run")
    with pytest.raises(GgeurError, match="a trained head cannot add or forget"):
        forget_site(tmp_path / "run", "art")


def test_a_changed_name_in_the_ledger_is_noticed(tables, tmp_path):
    model = tmp_path / "model"
    ggeur.fit(tables("art", "photo"), method="lda", out=model)
    ledger = model / "ledger.json"
    ledger.write_bytes(ledger.read_bytes().replace(b'"art"', b'"arc"'))
    with pytest.raises(GgeurError, match="ledger.json is damaged.*checksum"):
        add_site(model, *tables("sketch"))


@pytest.mark.parametrize("array", ["count0", "sum0", "second0", "center0"])
def test_statistics_that_are_off_by_a_bit_or_gone_are_noticed(tables, tmp_path, array):
    model, file = tmp_path / "model", "statistics/art.npz"
    ggeur.fit(tables("art", "photo"), method="lda", out=model)
    arrays = read_arrays(model / file)
    arrays[array].flat[0] = np.nextafter(arrays[array].flat[0], np.inf)
    np.savez(model / file, **arrays)
    with pytest.raises(GgeurError, match="does not match its hash"):
        add_site(model, *tables("sketch"))
    del arrays[array]
    np.savez(model / file, **arrays)
    with pytest.raises(GgeurError, match="does not hold statistics"):
        add_site(model, *tables("sketch"))


def test_the_name_of_a_site_is_no_path(tables, tmp_path):
    model, victim = tmp_path / "model", tmp_path / "victim.npz"
    victim.write_bytes(b"mine")
    with pytest.raises(GgeurError, match="cannot be a file's name"):
        ggeur.fit({"../victim": tables("art")[0]}, method="lda", out=model)
    for name in (".hidden", "a" * 300):
        with pytest.raises(GgeurError, match="cannot be a file's name"):
            ggeur.fit({name: tables("art")[0]}, method="lda", out=model)
    assert not model.exists(), "it is seen before anything is made"
    ggeur.fit(tables("art", "photo"), method="lda", out=model)
    tree = json.loads((model / "ledger.json").read_bytes())
    tree["sites"][0]["name"] = "../../victim"
    del tree["sha256"]
    (model / "ledger.json").write_bytes(sealed(tree))
    with pytest.raises(GgeurError, match="not that of a file"):
        forget_site(model, "../../victim")
    assert victim.read_bytes() == b"mine"


def test_receipts_that_are_damaged_or_gone_do_not_stand_in_the_way(tables, tmp_path):
    model = tmp_path / "model"
    ggeur.fit(tables("art", "photo"), method="lda", out=model)
    first = add_site(model, *tables("zoo"))
    second = add_site(model, *tables("sketch"))
    first.unlink()
    second.write_text("[")
    assert forget_site(model, "zoo").name == "0003-forget.json"
    assert "forget a site that is no longer in" in (model / "card.md").read_text()


@pytest.mark.parametrize("said", ["[1]", "null", "3"])
def test_receipts_of_another_kind(tables, tmp_path, said):
    model = tmp_path / "model"
    ggeur.fit(tables("art", "photo"), method="lda", out=model)
    add_site(model, *tables("zoo"))
    (model / "receipts" / "0007-add.json").write_text(said)
    assert add_site(model, *tables("sketch")).name == "0008-add.json"
    assert [r["what"] for r in read_receipts(model)] == ["add", "add"]
