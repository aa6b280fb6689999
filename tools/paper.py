"""Run the paper's tables, piece by piece, and make the pages of docs/reproduction anew from what was found.

    python tools/paper.py --data FOLDER [--piece 'table4*' ...] [--runs runs/paper] [--list]

FOLDER holds the embedding tables. docs/results/pieces.toml says what the pieces are; each is a `ggeur reproduce` that
goes on where it stopped, so the command may be stopped and given again. What a finished piece found is kept as
docs/results/NAME.json and NAME.csv, and the pages follow from these alone. The summary, docs/reproduction.md, keeps its
table in the file: without `--data` only that is made. The pages in docs/reproduction get theirs when the site is built.
"""

import argparse
import functools
import subprocess
import sys
import time
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

from paper_results import Piece, keep, pieces, read
from paper_tables import all_tables
from tables import MARKED, ROOT, answered, rewritten

import ggeur

RESULTS, PAGE = ROOT / "docs" / "results", ROOT / "docs" / "reproduction.md"


def asked_for(all_pieces: Sequence[Piece], patterns: Sequence[str]) -> list[Piece]:
    """The pieces that any of the `patterns` names, as "table4" for all of that table; all without them."""
    for pattern in patterns:
        if not any(_named(piece, pattern) for piece in all_pieces):
            raise ggeur.GgeurError(f"There is no piece '{pattern}'; there are {', '.join(p.name for p in all_pieces)}.")
    return [piece for piece in all_pieces if not patterns or any(_named(piece, pattern) for pattern in patterns)]


def _named(piece: Piece, pattern: str) -> bool:
    return fnmatch(piece.name, pattern) or piece.table == pattern


def run(piece: Piece, data: Path, runs: Path, results: Path) -> None:
    """Begin a piece or go on with it, and keep what it found."""
    folder, began = runs / piece.name, time.monotonic()
    runs.mkdir(parents=True, exist_ok=True)
    print(f"{piece.name}: about {piece.minutes:g} minutes in all, in {folder}", flush=True)
    done = subprocess.run([sys.executable, "-m", "ggeur", *piece.command(data, folder)], check=False)
    if done.returncode == 130:
        raise KeyboardInterrupt
    if done.returncode:
        raise ggeur.GgeurError(f"{piece.name} ended with code {done.returncode}; the same command goes on.")
    keep(results, piece, folder)
    print(f"{piece.name}: kept in {results}, {(time.monotonic() - began) / 60:.0f} minutes", flush=True)


def make_page(page: Path, results: Path) -> bool:
    """Rewrite the tables of `page` from the `results`; whether anything changed."""
    text = page.read_text(encoding="utf-8")
    all_of.cache_clear()
    new = with_tables(text, results)
    page.write_text(new, encoding="utf-8")
    return new != text


def with_tables(text: str, results: Path = RESULTS) -> str:
    """The `text` of a page with those tables that it has places for."""
    tables, places = all_of(results), [name for name, _ in MARKED.findall(text)]
    return rewritten(text, {name: table for name, table in tables.items() if name in places})


@functools.cache
def all_of(results: Path) -> dict[str, str]:
    """Every table that the `results` make, by name."""
    described = pieces(results)
    return all_tables(described, [one for piece in described if (one := read(results, piece)) is not None])


def show(asked: Sequence[Piece], results: Path) -> None:
    """What is asked for, what each takes, and which are done."""
    left = [piece for piece in asked if not (results / f"{piece.name}.json").exists()]
    for piece in asked:
        state = f"about {piece.minutes:g} min" if piece in left else "done"
        print(f"  {piece.name:24} {piece.table:9} {piece.protocol:9} {state}")
    hours = sum(piece.minutes for piece in left) / 60
    print(f"{len(left)} of {len(asked)} pieces are left, about {hours:.1f} hours on two quiet cores.", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="where the embedding tables are")
    parser.add_argument("--piece", action="append", default=[], help="a piece, a table or a pattern; may be repeated")
    parser.add_argument("--runs", type=Path, default=Path("runs/paper"), help="where the runs are kept")
    parser.add_argument("--list", action="store_true", help="say what there is and what it takes, and stop")
    parser.add_argument("--again", action="store_true", help="also pieces whose results are kept already")
    asked = parser.parse_args()
    return answered(lambda: make(asked))


def make(asked: argparse.Namespace) -> None:
    """Say what is asked for, run it, and make the page anew."""
    chosen = asked_for(pieces(RESULTS), asked.piece)
    show(chosen, RESULTS)
    if asked.list:
        return
    for piece in chosen if asked.data else ():
        if asked.again or not (RESULTS / f"{piece.name}.json").exists():
            run(piece, asked.data.absolute(), asked.runs, RESULTS)
            make_page(PAGE, RESULTS)
    print(f"{PAGE.relative_to(ROOT)}: {'changed' if make_page(PAGE, RESULTS) else 'as it was'}")


if __name__ == "__main__":
    sys.exit(main())
