"""The page "From 0.2 to 0.3" says what the program says."""

import re
from pathlib import Path

import pytest

import ggeur
from ggeur.stats.old_names import HYPERPARAMETERS, KEYS, OPTIONS, SOLVERS

PAGE = (Path(__file__).parents[2] / "docs" / "migration.md").read_text(encoding="utf-8")


def rows(title):
    """The cells of the table under a heading, without the heads of its columns."""
    section = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip("` ") for cell in line] for line in lines[2:]]


def test_the_page_has_every_old_name():
    keys = {(section.strip("[]"), old): new for section, old, new in rows("Keys of experiment files") if "=" not in old}
    told = {tuple(old.split(".")): new.split(".")[1] for old, new in KEYS.items()}
    assert keys == told | {("method.NAME", old): new for old, new in HYPERPARAMETERS.items()}
    assert dict(rows("Methods")) == SOLVERS
    old = " ".join(cell for cell, _ in rows("Commands and options"))
    assert all(re.search(rf"{option}\b", old) for option in OPTIONS)


def test_the_names_of_today_are_those_of_the_library():
    for _, new in rows("Python"):
        name = re.match(r"[A-Z]\w+(?:\.\w+)?", new)
        if name:
            owner, _, part = name[0].partition(".")
            thing = getattr(ggeur, owner)
            assert not part or hasattr(thing, part) or part in thing.__annotations__, name[0]


@pytest.mark.parametrize(
    ("argv", "new"),
    [
        ("predict model x.npz --cell 1", "--trial"),
        ("serve model --own", "--custom"),
        ("federate node --own-methods", "--custom-methods"),
        ("fit a.npz b.npz --statistics pooled --out m", "--covariance"),
        ("report run --helps", "--contributions"),
        ("inspect t.npz --kind domain", "--partition"),
    ],
)
def test_an_option_of_0_2_is_told_its_new_name(ggeur, argv, new):
    code, _, err = ggeur(*argv.split())
    assert code == 2 and f"is called {new} now" in " ".join(err.split())


def test_an_option_that_a_command_never_had_is_only_unknown(ggeur):
    code, _, err = ggeur("embed", "photos", "--own", "--out", "x.npz")
    assert code == 2 and "No such option '--own'" in err
