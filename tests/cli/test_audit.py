"""`ggeur audit`: a table of verdicts, a summary, and an exit code that can gate a deployment."""

from html import unescape

import numpy as np
import pytest

from ggeur.data.table import EmbeddingTable


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A table of 30 training samples of each of three classes, and as many for testing."""
    rng = np.random.default_rng(0)
    y = np.arange(180) % 3
    x = rng.normal(size=(180, 8)) + 3 * rng.normal(size=(3, 8))[y]
    names = ("ant", "[b]", "a cat with a name that is far too long for a table of eighty columns")
    EmbeddingTable(x=x.astype(np.float32), y=y, test=np.arange(180) >= 90, class_names=names).save(tmp_path / "t.npz")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def test_a_table_at_eighty_columns_and_a_summary_in_words(ggeur, place):
    code, out, _ = ggeur("audit", "t.npz", "--clients", 4)
    assert code == 0 and max(map(len, out.splitlines())) <= 80
    assert "exact" in out and "[b]" in out and "other client" in out
    assert "The server, from every site's own message: of 12 trials recovers" in out
    assert ggeur("audit", "t.npz", "--clients", 4)[1] == out  # the same to the letter


def test_exact_rows_fail_a_gate_and_a_threshold_passes_it(ggeur, place):
    assert ggeur("audit", "t.npz", "--clients", 4, "--fail-on", "exact")[0] == 1
    code, out, _ = ggeur("audit", "t.npz", "--clients", 4, "--fail-on", "exact", "--min-count", 10)
    assert code == 0 and "not sent" in out and "In all 0 of 90 samples" in out and "min_count = 10" in out


def test_a_long_table_shows_the_worst_unless_all_is_asked_for(ggeur, place):
    few, every = (ggeur("audit", "t.npz", "--clients", 20, *more)[1] for more in ((), ("--all",)))
    assert "The worst 40 of 60" in " ".join(few.split()) and "--all shows" not in every
    assert every.count("client 1") > few.count("client 1")


def test_a_run_is_audited_with_its_own_settings_and_model(ggeur, place):
    (place / "e.toml").write_text(
        '[data]\ntable = "t.npz"\n[partition]\nclients = 4\n[train]\nmethod = "lda"\n[run]\nseeds = [0]\n'
    )
    assert ggeur("run", "e.toml", "--out", "run")[0] == 0
    code, out, err = ggeur("audit", "run")
    assert code == 0, err
    assert "pooled statistics" in out and "Another client, from what it is sent to train: of 12 trials is sent" in out
    code, _, err = ggeur("audit", "run", "--covariance", "none")
    assert code == 2 and "A run already fixes" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.npz"], "nowhere.npz"),
        (["."], "no run folder"),
        (["t.npz", "--fail-on", "span"], "--fail-on takes exact"),
        (["t.npz", "--covariance", "magic"], "covariance"),
        (["t.npz", "--partition", "magic"], "kind"),
        (["t.npz", "--beta", "-1"], "beta"),
        (["t.npz", "--min-count", "99"], "above every group"),
    ],
)
def test_mistakes_are_one_sentence(ggeur, place, arguments, words):
    code, _, err = ggeur("audit", *arguments)
    assert code == 2 and words in err and err.count("\n") == 1


@pytest.mark.usefixtures("undrawn")
def test_what_was_found_of_a_run_is_kept_and_stands_in_its_report(ggeur, place):
    (place / "e.toml").write_text(
        '[data]\ntable = "t.npz"\n[partition]\nclients = 4\n[train]\nmethod = "lda"\n[run]\nseeds = [0]\n'
    )
    assert ggeur("run", "e.toml", "--out", "run")[0] == 0
    assert "What can be found out" not in page_of(ggeur, place)
    _, out, _ = ggeur("audit", "run")
    assert "keeps this for" in out
    page = page_of(ggeur, place)
    assert "What can be found out" in page
    said = next(line for line in out.replace("\n", " ").split(". ") if "own message" in line)
    assert " ".join(said.split()) in " ".join(unescape(page).split())
    kept = place / "run" / "audit.json"
    kept.write_bytes(kept.read_bytes().replace(b"server", b"sexton", 1))
    code, _, err = ggeur("report", "run", "--out", "third.html")
    assert code == 2 and "run `ggeur audit` again" in err and err.count("\n") == 1


def page_of(ggeur, place):
    """The report of the run, as it is now."""
    assert ggeur("report", "run", "--out", "page.html")[0] == 0
    text = (place / "page.html").read_text(encoding="utf-8")
    (place / "page.html").unlink()
    return text
