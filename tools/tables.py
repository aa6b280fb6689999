"""Make the tables of a page anew, from runs, so that no figure in them is typed.

    python tools/tables.py docs/methods-results.md --data FOLDER [--runs runs/tables]

FOLDER holds the embedding tables. In docs/NAME.md a table stands between `<!-- table: WHICH -->` and `<!-- end -->`;
docs/tables/NAME.toml says which runs the page needs and what each table shows. The runs lie in `--runs`: a finished one
is read, any other begun or resumed, so the command may be stopped and given again. The result of a finished run is
also kept in docs/tables/results/NAME, with its experiment, and read from there as long as the experiment is the same.
Where a change of code moves numbers, delete the kept result and name another folder for the runs.

    [run.digits]                      # ggeur run FILE --set data.table=FOLDER/DATA
    file = "examples/digits_methods.toml"  # or several, whose rows are shown together
    data = "digits.tinyvit.npz"
    set = ["partition.beta=0.5"]      # more of --set, if any

    [[table]]
    name = "methods"
    titles = ["method"]               # over the words that begin a row
    where = { run = "digits", arm = "trained" }
    rows = [{ is = ["fedavg"], train.method = "fedavg" }]
    columns = [
        { title = "without", show = "avg", augment.kind = "none" },
        { title = "gain", show = "difference", augment.kind = "ggeur", minus = { augment.kind = "none" } },
    ]

Values of `where`, the row and the column, the later over the earlier, say which row of the result is shown: the only
one that has them all. Whatever names a run or an arm begins anew, as values belong to arms. `minus` stands over the
row. `best` has lists of values, of which those with the largest AVG are taken. `show` is "avg", "difference" (paired by
seed, 95 %), "start" (before round 1), "round 5", "rounds to 65", "redrawn" (how far other test samples would move AVG),
"steps" (of a client in a round), "seconds" (of a cell, scores included), "bytes up", "bytes down", or of a chosen head
"taken" (which, in how many seeds).
"""

import argparse
import json
import re
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from table_cells import Description, Results, cell

import ggeur
from ggeur.cli.screen import progress
from ggeur.experiments.result import Row, read_trial

ROOT = Path(__file__).resolve().parents[1]
MARKED = re.compile(r"<!-- table: (.+?) -->\n(.*?)<!-- end -->", re.S)


def described(page: Path) -> dict[str, Any]:
    """The description that belongs to a page."""
    return tomllib.loads((page.parent / "tables" / f"{page.stem}.toml").read_text(encoding="utf-8"))


def outline(table: Description) -> tuple[list[str], list[list[str]]]:
    """The titles of a table, and the words that begin its rows."""
    return [*table["titles"], *(column["title"] for column in table["columns"])], [row["is"] for row in table["rows"]]


def drawn(table: Description, results: Results) -> str:
    """The table in Markdown."""
    titles, words = outline(table)
    body = [
        [*begin, *(cell(results, table, row, column) for column in table["columns"])]
        for begin, row in zip(words, table["rows"], strict=True)
    ]
    return _line(titles) + "|" + "---|" * len(titles) + "\n" + "".join(map(_line, body))


def _line(words: Sequence[str]) -> str:
    return f"| {' | '.join(words)} |\n"


def rewritten(page: str, tables: Mapping[str, str]) -> str:
    """The page with these tables, by name; it must have a place for each, and no other."""
    places = [name for name, _ in MARKED.findall(page)]
    if sorted(places) != sorted(tables) or page.count("<!-- table: ") != len(places):
        raise ggeur.GgeurError(f"The page has places for the tables {places}; described are {list(tables)}.")
    return MARKED.sub(lambda found: f"<!-- table: {found[1]} -->\n{tables[found[1]]}<!-- end -->", page)


def experiments(given: Description, data: Path) -> dict[str, ggeur.Experiment]:
    """The experiments of a run, by their files, on a table in the folder `data` or on what a file names."""
    source = [f"data.table={(data / given['data']).absolute()}"] if "data" in given else []
    files = [given["file"]] if isinstance(given["file"], str) else given["file"]
    return {file: ggeur.Experiment.load(ROOT / file, [*source, *given.get("set", [])]) for file in files}


def run(name: str, given: Description, data: Path, runs: Path, results: Path) -> list[Row]:
    """The rows of a run, which is finished first where it is not; each of its files has a folder of its own."""
    rows: list[Row] = []
    for file, experiment in experiments(given, data).items():
        title = name if isinstance(given["file"], str) else f"{name}, {Path(file).stem}"
        kept, asked = results / f"{title}.json", named(experiment, given)
        before = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {"experiment": None}
        if before["experiment"] == asked:
            rows += ggeur.Result([read_trial(trial) for trial in before["trials"]]).rows()
            continue
        folder = runs / title
        begun = (folder / "config.toml").exists()
        print(f"{name}: {file}, in {folder}", flush=True)
        with progress(experiment, folder) as on_round:
            result = ggeur.run(experiment, out=folder, resume=begun, on_round=on_round)
        keep(kept, asked, result)
        rows += result.rows()
    return rows


def named(experiment: ggeur.Experiment, given: Description) -> str:
    """The experiment as text, in which a table has its name only: where it lies differs from machine to machine."""
    return (
        re.sub(r'"[^"]*[/\\](?=[^"/\\]*\.npz")', '"', experiment.to_toml()) if "data" in given else experiment.to_toml()
    )


def keep(path: Path, experiment: str, result: ggeur.Result) -> None:
    """Write a result where the page's next making finds it, with four decimals."""
    path.parent.mkdir(parents=True, exist_ok=True)
    trials = ",\n".join(json.dumps(_rounded(asdict(trial)), sort_keys=True) for trial in result.trials)
    head = json.dumps({"experiment": experiment, "version": ggeur.__version__})
    path.write_text(f'{head[:-1]}, "trials": [\n{trials}\n]}}\n', encoding="utf-8")


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return round(value, 4) if isinstance(value, float) and abs(value) >= 0.01 else value


def make(page: Path, data: Path, runs: Path) -> None:
    """Rewrite the tables of `page`."""
    text, given = page.read_text(encoding="utf-8"), described(page)
    rewritten(text, {table["name"]: "" for table in given["table"]})  # to be told before hours of runs, not after
    kept = page.parent / "tables" / "results" / page.stem
    results = {name: run(name, one, data, runs, kept) for name, one in given["run"].items()}
    text = page.read_text(encoding="utf-8")  # it may have changed while the runs went on
    new = rewritten(text, {table["name"]: drawn(table, results) for table in given["table"]})
    page.write_text(new, encoding="utf-8")
    print(f"{page}: {len(given['table'])} tables, " + ("as they were" if new == text else "changed"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER", help="where the embedding tables are")
    parser.add_argument("--runs", type=Path, default=Path("runs/tables"), help="where the runs are kept")
    asked = parser.parse_args()
    return answered(lambda: make(asked.page, asked.data, asked.runs))


def answered(work: Callable[[], None]) -> int:
    """Do it, and say how that ended, as a command does."""
    try:
        work()
    except ggeur.GgeurError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Stopped; the same command goes on.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
