"""Commands that are killed: whatever lies there then, the same command given again ends as if it had not been."""

import os
import shutil
import threading

import numpy as np
import pytest

import ggeur
from ggeur.models.joining import add_site, forget_site
from ggeur.models.site_files import load_ledger
from ggeur.report.model_page import read_model_folder
from ggeur.stats.errors import GgeurError
from ggeur.stats.storage import lock_file, read_arrays


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Three tables; only `zoo` holds the class elk, so that classes change with it."""
    folder, rng = tmp_path_factory.mktemp("sites"), np.random.default_rng(0)
    for i, name in enumerate(("art", "photo", "zoo")):
        names = ("ant", "bee", "elk") if name == "zoo" else ("ant", "bee")
        y = np.arange(20 + i) % len(names)
        x = rng.normal(size=(len(y), 4)) + 4 * np.eye(4)[y]
        ggeur.EmbeddingTable(x=x, y=y, class_names=names).save(folder / f"{name}.npz")
    return folder


@pytest.fixture
def tables(places):
    return lambda *names: [places / f"{name}.npz" for name in names]


@pytest.fixture
def snapshots(tmp_path, monkeypatch):
    """Runs a command on a folder; what lies there around each rename and removal, as a kill would leave it."""

    def run(folder, command):
        taken = []

        def watched(real):
            def call(*args, **more):
                keep()
                found = real(*args, **more)
                keep()
                return found

            return call

        def keep():
            if folder.exists():
                taken.append(shutil.copytree(folder, tmp_path / f"cut-{len(taken):03d}" / folder.name))

        with monkeypatch.context() as m:
            for name in ("replace", "unlink", "rmdir"):
                m.setattr(os, name, watched(getattr(os, name)))
            command(folder)
        return taken

    return run


def state(folder):
    """All that a folder says, but for dates and salts."""
    head = {k: a.tobytes() for k, a in read_arrays(folder / "head.npz").items()}
    files = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.name != ".lock")
    card = [line for line in (folder / "card.md").read_text().splitlines() if not line.startswith("- 2")]
    return head, files, (folder / "model.json").read_bytes(), card, load_ledger(folder).names


@pytest.mark.parametrize("what", ["add", "forget"])
def test_a_killed_command_given_again(tables, tmp_path, snapshots, what):
    model, rest = tmp_path / "model", tables("art", "photo")
    ggeur.fit(rest if what == "add" else [*rest, *tables("zoo")], method="lda", out=model)
    (model / "report.html").write_text("of the sites before")

    def command(folder):
        return add_site(folder, *tables("zoo")) if what == "add" else forget_site(folder, "zoo")

    before = ggeur.Model.load(model).class_names
    cuts = snapshots(model, command)
    wanted, classes, done = state(model), {before, ggeur.Model.load(model).class_names}, 0
    assert len(classes) == 2 and len(cuts) > 20
    for cut in cuts:
        assert ggeur.Model.load(cut).class_names in classes  # whoever only reads has one or the other
        assert len(read_model_folder(cut).counts) > 0
        try:
            assert command(cut).parent.name == "receipts"
        except GgeurError as error:  # only where all was done
            assert ("already in" if what == "add" else "not in this model") in str(error)
            done += 1
        assert state(cut) == wanted
    assert done <= 3


def test_a_killed_fit_given_again(tables, tmp_path, snapshots):
    model, other = tmp_path / "model", tmp_path / "other"
    ggeur.fit(tables("art", "photo"), method="lda", out=other)
    cuts = snapshots(model, lambda folder: ggeur.fit(tables("art", "zoo"), method="lda", out=folder))
    done = 0
    for cut in cuts:
        try:
            ggeur.fit(tables("art", "photo"), method="lda", out=cut)
            assert state(cut) == state(other)
        except GgeurError as error:
            assert "is not empty" in str(error) and state(cut)[-1] == ("art", "zoo")
            done += 1
    assert done <= 3


def test_a_folder_with_anything_else_is_not_begun_in(tables, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "head.npz").write_bytes(b"mine")
    with pytest.raises(GgeurError, match="is not empty"):
        ggeur.fit(tables("art"), method="lda", out=tmp_path / "model")


def test_a_killed_fit_can_be_added_to(tables, tmp_path, snapshots):
    model = tmp_path / "model"
    cuts = snapshots(model, lambda folder: ggeur.fit(tables("art", "photo"), method="lda", out=folder))
    cut = next(cut for cut in cuts if (cut / ".next").exists())
    add_site(cut, *tables("zoo"))
    assert load_ledger(cut).names == ("art", "photo", "zoo") and not (cut / ".next").exists()


def test_other_rows_under_the_name_of_who_was_being_added(tables, tmp_path, snapshots):
    model = tmp_path / "model"
    ggeur.fit(tables("art", "photo"), method="lda", out=model)
    cuts = snapshots(model, lambda folder: add_site(folder, *tables("zoo")))
    shutil.copy(*tables("art"), tmp_path / "zoo.npz")
    with pytest.raises(GgeurError, match="'zoo' is already in"):
        add_site(next(cut for cut in cuts if (cut / ".next").exists()), tmp_path / "zoo.npz")


@pytest.mark.parametrize("damage", [b"", b"PK", None])
def test_a_damaged_head_is_mended_from_the_statistics(tables, tmp_path, damage):
    model, never = tmp_path / "model", tmp_path / "never"
    ggeur.fit(tables("art", "photo", "zoo"), method="lda", out=model)
    ggeur.fit(tables("art", "photo"), method="lda", out=never)
    (model / "head.npz").unlink()
    if damage is not None:
        (model / "head.npz").write_bytes(damage)
    with pytest.raises(GgeurError):
        ggeur.Model.load(model)
    forget_site(model, "zoo")
    assert state(model)[0] == state(never)[0]


def test_statistics_that_the_ledger_does_not_know_are_swept(tables, tmp_path):
    model = tmp_path / "model"
    ggeur.fit(tables("art", "photo"), method="lda", out=model)
    strays = [
        "statistics/zoo.npz",
        "statistics/.zoo.npz.0123abcd",
        ".ledger.json.0123abcd",
        ".next.part/statistics/zoo.npz",
    ]
    (model / ".next.part" / "statistics").mkdir(parents=True)
    for name in strays:
        (model / name).write_bytes(b"statistics")
    (model / "notes.txt").write_text("mine")
    with pytest.raises(GgeurError, match="'zoo' is not in this model"):
        forget_site(model, "zoo")
    assert not any((model / name).exists() for name in strays) and (model / "notes.txt").exists()
    assert sorted(p.name for p in (model / "statistics").iterdir()) == ["art.npz", "photo.npz"]


def test_a_full_disk_leaves_the_model_as_it_was(tables, tmp_path, monkeypatch):
    model = tmp_path / "model"
    ggeur.fit(tables("art", "photo"), method="lda", out=model)
    before = state(model)

    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ggeur.models.fitted.save_ledger", fail)
    with pytest.raises(GgeurError, match="No space left"):
        add_site(model, *tables("zoo"))
    assert state(model) == before


def test_two_fits_into_one_folder(tables, tmp_path, monkeypatch):
    model = tmp_path / "model"
    model.mkdir()
    with lock_file(model / ".lock", "taken"), pytest.raises(GgeurError, match="Another process"):
        ggeur.fit(tables("art", "photo"), method="lda", out=model)
    both, ended = threading.Barrier(2), []
    from ggeur.models import fit as module

    read = module.read_sites
    monkeypatch.setattr(module, "read_sites", lambda *a: (both.wait(), read(*a))[1])  # both found it empty

    def one(names):
        try:
            ggeur.fit(tables(*names), method="lda", out=model)
            ended.append(names)
        except GgeurError as error:
            assert "Another process" in str(error) or "is not empty" in str(error)

    threads = [threading.Thread(target=one, args=(names,)) for names in (("art", "photo"), ("art", "zoo"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ended) == 1 and load_ledger(model).names == ended[0]
    assert sorted(p.stem for p in (model / "statistics").iterdir()) == list(ended[0])
