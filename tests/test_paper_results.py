"""The paper's tables as pieces that are run, kept and drawn: docs/results makes the pages of docs/reproduction."""

import csv
import importlib
import json
from types import SimpleNamespace

import numpy as np
import pytest

import ggeur
from ggeur.data.table import EmbeddingTable
from ggeur.experiments.result import Trial
from ggeur.paper.paper_tables import Table, select_rows
from ggeur.report.tables import Number

TOOLS = ("paper", "paper_cells", "paper_gains", "paper_gaps", "paper_reach", "paper_results", "paper_tables", "tables")
TINY = """
[tiny-paper]
table = "table5"
protocol = "paper"
data = ["tiny.npz"]
rows = ["FedAvg", "FedAvg + GGEUR"]
rounds = 2
seeds = 2
set = ["augment.target=12", "augment.per_prototype=4", "train.local_epochs=1"]
minutes = 0.1

[tiny-sound]
table = "table5"
protocol = "sound"
data = ["tiny.npz"]
rows = ["*one-shot"]
minutes = 9
"""


@pytest.fixture
def tools(monkeypatch):
    from pathlib import Path

    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "tools"))
    return {name: importlib.import_module(name) for name in TOOLS}


@pytest.fixture
def results(tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "pieces.toml").write_text(TINY, encoding="utf-8")
    rng = np.random.default_rng(0)
    y, domain = (a.ravel() for a in np.mgrid[:10, :4].repeat(12, axis=2))
    x = (2 * rng.normal(size=(10, 5))[y] + rng.normal(size=(len(y), 5))).astype(np.float32)
    EmbeddingTable(x=x, y=y, domain=domain, domain_names=("amazon", "caltech", "dslr", "webcam")).save(
        tmp_path / "tiny.npz"
    )
    return tmp_path / "results"


@pytest.mark.usefixtures("undrawn")
def test_a_piece_is_run_kept_and_drawn(tools, results, tmp_path):
    paper, kept, tables = tools["paper"], tools["paper_results"], tools["paper_tables"]
    piece, other = kept.pieces(results)
    paper.run(piece, tmp_path, tmp_path / "runs", results)
    text = (results / "tiny-paper.json").read_text(encoding="utf-8")
    assert str(tmp_path) not in text  # nobody else has our folders
    change = json.loads(text)
    change["reading"]["order"].append("Another")
    change["reading"]["absent"].append(["Another", "Office-Caltech", "needs a reason", "Another"])
    (results / "tiny-paper.json").write_text(json.dumps(change), encoding="utf-8")
    found = kept.read(results, piece)
    result = ggeur.Result.load(tmp_path / "runs" / "tiny-paper")
    for a, b in zip(found.result.trials, result.trials, strict=True):
        assert a.avg == pytest.approx(b.avg, abs=1e-4) and a.rounds == pytest.approx(b.rounds, abs=1e-4)
    assert kept.read(results, other) is None

    with (results / "tiny-paper.csv").open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    avg = {(line["row"], line["seed"]): line for line in lines if line["column"] == "AVG"}
    for trial in result.trials:
        line = avg[trial.settings["arm"], str(trial.seed)]
        assert float(line["measured"]) == pytest.approx(trial.avg, abs=1e-3)
    assert avg["FedAvg", "0"]["published"] == "98.75"
    assert "table5,paper,Another,AVG,,,," in kept.as_csv(found)

    drawn = tables.all_tables([piece, other], [found])
    plain, full = (row for row in result.rows())
    assert f"| FedAvg | {plain.domains['amazon']:.2f} (98.26) |" in drawn["table5"]
    assert f"{full.avg:.2f} ± {full.spread:.2f}" in drawn["table5"].replace(tools["paper_cells"].JOIN, " ")
    assert "Not run: Another: needs a reason." in drawn["table5"]
    gain = ggeur.paired_difference(full, plain)
    assert f"{gain.mean:+.2f} [{gain.low:+.2f}, {gain.high:+.2f}]" in drawn["table5 gains"].replace(
        tools["paper_cells"].JOIN, " "
    )
    assert "| `tiny-sound` | all | 3 | some | not run yet |" in drawn["pieces"]
    assert drawn["tuned"] == tools["paper_cells"].NOT_RUN

    page = tmp_path / "page.md"
    page.write_text("".join(f"<!-- table: {name} -->\n<!-- end -->\n" for name in drawn), encoding="utf-8")
    assert paper.make_page(page, results) and not paper.make_page(page, results)


def test_pieces_are_named_by_table_or_pattern(tools, results):
    kept, paper = tools["paper_results"], tools["paper"]
    every = kept.pieces(results)
    assert paper.asked_for(every, []) == paper.asked_for(every, ["table5"]) == every
    assert paper.asked_for(every, ["*sound"]) == every[1:]
    with pytest.raises(ggeur.GgeurError, match="no piece 'table9'"):
        paper.asked_for(every, ["table9"])


def test_our_page_is_what_our_results_make(tools):
    paper, kept = tools["paper"], tools["paper_results"]
    pieces = kept.pieces(paper.RESULTS)
    found = [one for piece in pieces if (one := kept.read(paper.RESULTS, piece)) is not None]
    text = paper.PAGE.read_text(encoding="utf-8")
    assert paper.with_tables(text) == text
    pages = [paper.PAGE, *(paper.PAGE.parent / "reproduction").glob("*.md")]
    places = [name for page in pages for name, _ in tools["tables"].MARKED.findall(page.read_text(encoding="utf-8"))]
    assert sorted(places) == sorted(paper.all_of(paper.RESULTS))  # each table has one place
    names = {piece.name for piece in pieces}
    for path in paper.RESULTS.glob("*.json"):
        assert path.stem in names and "/work" not in path.read_text(encoding="utf-8")
    for one in found:
        assert (paper.RESULTS / f"{one.piece.name}.csv").read_text(encoding="utf-8") == kept.as_csv(one)
        asked = {row.name for row in select_rows(Table.load(one.piece.table), one.piece.rows)}
        assert set(one.reading.order) <= asked  # a row that came later is not in an earlier run
        trials = len({json.dumps(trial.settings) for trial in one.result.trials}) * one.piece.seeds
        assert len(one.result.trials) == trials


def test_the_pieces_are_the_whole_of_every_table(tools):
    """Every row of a table is in some piece under `paper`, and every piece is described within its bounds."""
    pieces = tools["paper_results"].pieces(tools["paper"].RESULTS)
    for name in {piece.table for piece in pieces}:
        table = Table.load(name)
        rows = [row for p in pieces if (p.table, p.protocol) == (name, "paper") for row in select_rows(table, p.rows)]
        assert {row.name for row in rows} == {row.name for row in table.rows}, name
    assert all(piece.minutes < 120 for piece in pieces)


def found_with(tools, of):
    """A finished piece of Table 2 for every protocol, with these lines."""
    piece = tools["paper_results"].Piece
    return [
        SimpleNamespace(piece=piece("x", "table2", protocol, [], 1), table=SimpleNamespace(lines=lines))
        for protocol, lines in of.items()
    ]


def test_rows_without_noise_are_the_same_under_sound(tools):
    tables = tools["paper_tables"]
    line = tables.Line
    of = {"paper": [line("FedAvg", (Number((1.0,)),)), line("FedAvg + GGEUR", (Number((2.0,)),))]}
    of["sound"] = [line("FedAvg + GGEUR", (Number((3.0,)),))]
    found = tables._by_protocol(found_with(tools, of), "table2")["sound"]
    assert [n.numbers[0].values for n in found.values()] == [(1.0,), (3.0,)]


def test_rows_that_keep_the_papers_numbers_are_those_of_sound(tools):
    tables = tools["paper_tables"]
    line, why = tables.Line, tables.AS_SOUND
    of = {"paper": [line("FedAvg", (Number((1.0,)),)), line("FedAvg + GGEUR", (Number((2.0,)),))]}
    of["sound"] = [line("FedAvg + GGEUR", (Number((3.0,)),))]
    of["tuned"] = [line("FedAvg", (Number(()),), why=why), line("FedAvg + GGEUR", (Number(()),), why=why)]
    found = tables._by_protocol(found_with(tools, of), "table2")["tuned"]
    assert [n.numbers[0].values for n in found.values()] == [(1.0,), (3.0,)]
    del of["sound"]
    found = tables._by_protocol(found_with(tools, of), "table2")["tuned"]
    assert [n.why for n in found.values()] == [why, why]  # until `sound` has run


def test_choices_of_the_scripts_by_hand(tools):
    """One choice alone, whose piece has only the row with GGEUR; the best round of each seed; and all of them."""
    gaps, kept = tools["paper_gaps"], tools["paper_results"]
    usual = {"FedAvg": Number((60.0, 62.0), 76.6), "FedAvg + GGEUR": Number((63.0, 65.0), 82.36)}
    each = {"paper": usual, "released": {"FedAvg": Number((50.0, 52.0)), "FedAvg + GGEUR": Number((66.0, 66.0))}}
    trials = [  # in two columns, of which the second has two points more
        Trial("m", "n", seed, {"arm": row, "beta": beta}, rounds=[best - 1 + beta, 1.0])
        for row, several in {"FedAvg": (70, 71), "FedAvg + GGEUR": (72, 75), "SCAFFOLD": (99, 99)}.items()
        for seed, best in enumerate(several)
        for beta in (0, 2)
    ]
    ran = SimpleNamespace(arms=[SimpleNamespace(row=row, arm=row) for row in (*usual, "SCAFFOLD")])
    paper = kept.Finished(kept.Piece("a", "table4", "paper", [], 1), ran, SimpleNamespace(trials=trials))
    drawn = gaps.choices(each, {"Adam": {"FedAvg + GGEUR": Number((61.0, 63.0))}}, [paper])
    rows = [row.strip("| ").split(" | ") for row in drawn.splitlines()[2:]]
    found = {row[0]: [word.replace("\u00a0", " ").split(" ")[0] for word in row[1:]] for row in rows}
    assert found == {
        "as `paper` has it": ["61.00", "64.00", "+3.00"],
        "Adam": ["61.00", "62.00", "+1.00"],
        "the best of all rounds is told": ["70.50", "73.50", "+3.00"],
        "all but the best round (`released`)": ["51.00", "66.00", "+15.00"],
        "published": ["76.60", "82.36", "+5.76"],
    }
    assert gaps.choices({}, {}, []) == tools["paper_cells"].NOT_RUN


def test_what_ggeur_adds_at_a_glance_by_hand(tools):
    """Of two seeds 2 and 2 are told from zero, 3 and 4 are not (12.7 times 0.5); one seed tells nothing."""
    plain, full, still, auto = "FedAvg", "FedAvg + GGEUR", "FedAvg, prototypes", "auto, one-shot"
    paper = {plain: Number((60.0, 62.0), 76.6), full: Number((60.0, 64.0), 82.36)}
    sound = {plain: paper[plain], full: Number((63.0, 66.0)), still: Number((61.0, 64.0)), auto: Number((60.0, 60.0))}
    one = {plain: Number((60.0,)), full: Number((61.0,)), "FedAvg, resampled": Number((62.0,))}
    drawn = tools["paper_gains"].glance({"table4": {"paper": paper, "sound": sound}, "table3": {"paper": one}})
    assert [row.strip("| ").split(" | ") for row in drawn.splitlines()[2:]] == [
        ["`table4`", "+5.76", "+1.00", "+3.50", "-", "-", "**+2.00**", "-4.50"],
        ["`table3`", "-", "+1.00", "-", "-", "-", "-1.00", "-"],
    ]


def test_reach_by_hand(tools):
    """Ten bytes before training, 100 in four rounds after it; AVG over two seeds is at 60 after the third."""
    reach = tools["paper_reach"].reach
    more = {"bytes_up": 60, "bytes_down": 50, "bytes_first": 10, "round_seconds": 2.0, "local_steps": [1]}
    trials = [Trial("m", "n", s, {}, rounds=r, **more) for s, r in enumerate([[10, 50, 70, 80], [20, 40, 50, 90]])]
    assert reach(trials, 60.0) == (3, 85.0, 6.0)
    assert reach(trials, 86.0) is None and reach([], 1.0) is None
    solved = Trial("lda", "n", 0, {}, rounds=[70.0], bytes_up=7, bytes_down=3, bytes_first=10, seconds=0.5)
    assert reach([solved], 70.0) == (0, 10.0, 0.5) and reach([solved], 71.0) is None
    before = [Trial("m", "n", 0, {}, rounds=[50.0], local_steps=[1])]  # of an earlier version
    assert reach(before, 40.0) == (1, None, None)
