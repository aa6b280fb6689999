"""Tables of pages: made anew from a run, and each page in agreement with its description."""

import importlib
import json
import re
from pathlib import Path

import pytest

import ggeur

ROOT = Path(__file__).parents[1]
PAGES = sorted(ROOT / "docs" / f"{path.stem}.md" for path in (ROOT / "docs" / "tables").glob("*.toml"))
PAGE = "# A page\n\n<!-- table: gain -->\n<!-- end -->\n\nWords.\n\n<!-- table: course -->\nold\n<!-- end -->\n"
EXPERIMENT = """
partition = { kind = "label-and-domain", beta = 0.5 }
augment = { target = 12, per_prototype = 4 }
train = { rounds = 3, local_epochs = 1, batch_size = 8 }
run.seeds = [0, 1]
arm = [
    { name = "trained", augment.kind = ["none", "ggeur"], train.learning_rate = [0.0001, 0.05] },
    { name = "solved", augment.kind = "none", train.method = "lda" },
    { name = "from LDA", augment.kind = "none", train.start = "lda" },
]
"""
DESCRIPTION = """
[run.tiny]
file = "{file}"
data = "{data}"
[[table]]
name = "gain"
titles = ["learning_rate"]
where = {{ run = "tiny", arm = "trained" }}
rows = [
    {{ is = ["slow"], train.learning_rate = 0.0001 }},
    {{ is = ["fast"], train.learning_rate = 0.05 }},
]
columns = [
    {{ title = "without", show = "avg", augment.kind = "none" }},
    {{ title = "gain", show = "difference", augment.kind = "ggeur", minus.augment.kind = "none" }},
    {{ title = "over lda", show = "difference", augment.kind = "none", minus = {{ arm = "solved" }} }},
    {{ title = "best", show = "avg", augment.kind = "none", best.train.learning_rate = [0.0001, 0.05] }},
]
[[table]]
name = "course"
titles = ["from"]
where = {{ run = "tiny" }}
rows = [{{ is = ["LDA"], arm = "from LDA" }}]
columns = [
    {{ title = "start", show = "start" }},
    {{ title = "1", show = "round 1" }},
    {{ title = "to 1 %", show = "rounds to 1" }},
    {{ title = "to 101 %", show = "rounds to 101" }},
    {{ title = "bytes", show = "bytes up" }},
    {{ title = "redrawn", show = "redrawn" }},
    {{ title = "steps", show = "steps" }},
]
"""


@pytest.fixture
def tools(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("tables"), importlib.import_module("table_cells")


@pytest.fixture
def page(tmp_path, table_file):
    (tmp_path / "docs" / "tables").mkdir(parents=True)
    (tmp_path / "exp.toml").write_text(EXPERIMENT, encoding="utf-8")
    told = DESCRIPTION.format(file=tmp_path / "exp.toml", data=table_file.name)
    (tmp_path / "docs" / "tables" / "page.toml").write_text(told, encoding="utf-8")
    (tmp_path / "docs" / "page.md").write_text(PAGE, encoding="utf-8")
    return tmp_path / "docs" / "page.md"


def cells(table):
    """Title and rows of a table in Markdown, as lists of words."""
    title, _, *rows = [[word.strip() for word in line[1:-1].split("|")] for line in table.splitlines()]
    return title, rows


def test_tables_are_made_from_a_run_and_made_again_the_same(tools, page, table_file, tmp_path, capsys):
    tables, _ = tools
    tables.make(page, table_file.parent, tmp_path / "runs")
    text = page.read_text(encoding="utf-8")
    assert "Words." in text and "old" not in text
    found = {name: cells(table) for name, table in tables.MARKED.findall(text)}
    rows = {tuple(row.settings.values()): row for row in ggeur.Result.load(tmp_path / "runs" / "tiny").rows()}

    title, (slow, fast) = found["gain"]
    assert title == ["learning_rate", "without", "gain", "over lda", "best"]
    base, drawn = rows["none", 0.0001, "trained"], rows["ggeur", 0.0001, "trained"]
    assert slow[:2] == ["slow", f"{base.avg:.2f} ± {base.spread:.2f}"]
    gain = ggeur.paired_difference(drawn, base)
    assert slow[2] == f"{gain.mean:+.2f} [{gain.low:+.2f}, {gain.high:+.2f}]"
    assert slow[4] == fast[4] == fast[1]
    assert float(slow[3].split()[0]) < float(fast[3].split()[0])

    _, (begun,) = found["course"]
    start, lda = rows["from LDA",], rows["solved",]
    assert begun[1] == f"{lda.avg:.2f}"  # training begins from the one-shot classifier
    assert begun[2] == f"{sum(trial.rounds[0] for trial in start.trials) / 2:.2f}"
    assert begun[3:5] == ["0", "not in 3"]
    assert begun[5] == f"{max(trial.bytes_up for trial in start.trials):,}"
    assert begun[6] == f"± {max(trial.test_deviation for trial in start.trials):.2f}"
    steps = [n for trial in start.trials for n in trial.local_steps]
    assert begun[7] == f"{min(steps)} to {max(steps)}"

    capsys.readouterr()
    tables.make(page, table_file.parent, tmp_path / "elsewhere")  # from the kept result, although the runs are gone
    assert page.read_text(encoding="utf-8") == text
    assert "as they were" in capsys.readouterr().out and not (tmp_path / "elsewhere").exists()

    described = page.parent / "tables" / "page.toml"
    told = described.read_text(encoding="utf-8").replace("[run.tiny]", '[run.tiny]\nset = ["train.rounds=2"]')
    described.write_text(told, encoding="utf-8")
    tables.make(page, table_file.parent, tmp_path / "elsewhere")  # another experiment is run
    (kept,) = (page.parent / "tables" / "results" / "page").glob("*.json")
    assert str(table_file.parent) not in kept.read_text(encoding="utf-8")
    assert [len(trial["rounds"]) for trial in json.loads(kept.read_text(encoding="utf-8"))["trials"]][:2] == [2, 2]


@pytest.mark.parametrize(
    "change", [("table: gain", "table: loss"), ("<!-- end -->\n\nWords", "\n\nWords"), ("table: course", "table: gain")]
)
def test_a_page_that_disagrees_is_told_before_anything_runs(tools, page, tmp_path, change):
    page.write_text(PAGE.replace(*change), encoding="utf-8")
    with pytest.raises(ggeur.GgeurError, match="has places for the tables"):
        tools[0].make(page, tmp_path, tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_values_that_fit_two_rows_are_refused(tools):
    with pytest.raises(ggeur.GgeurError, match="2 rows of the run 'a'"):
        tools[1].place({"run": "a", "x": 1}, [{"x": 1, "y": 1}, {"x": 1, "y": 2}])


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_page_of_ours_has_the_tables_that_are_described(tools, page):
    tables, of_cells = tools
    given, text = tables.described(page), page.read_text(encoding="utf-8")
    shown = dict(tables.MARKED.findall(text))
    tables.rewritten(text, {table["name"]: "" for table in given["table"]})
    points = {
        name: [point for one in tools[0].experiments(run, page.parent).values() for point in one.varied]
        for name, run in given["run"].items()
    }
    for table in given["table"]:
        title, rows = cells(shown[table["name"]])
        titles, words = tables.outline(table)
        assert (title, [row[: len(words[0])] for row in rows]) == (titles, words), table["name"]
        assert all(len(row) == len(titles) for row in rows), table["name"]
        for values in of_cells.wanted(table):
            of_cells.place(values, points[values["run"]])


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_figures_in_words_about_tables_stand_in_them(tools, page):
    """In a section with made tables: whatever has two decimals was made, not typed, and moves with the tables."""
    for section in re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.M):
        made = tools[0].MARKED.findall(section)
        if made:
            figures = set(re.findall(r"\d+\.\d\d\b", "".join(table for _, table in made)))
            words = tools[0].MARKED.sub("", section)
            assert set(re.findall(r"\d+\.\d\d\b", words)) <= figures
