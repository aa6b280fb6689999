"""What is kept of a piece of `make paper` in docs/results: NAME.json, of which its table is read again, and NAME.csv.

The JSON holds how to read the run as a table of the paper and its trials without what no table shows; no path is in it.
"""

import csv
import io
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from ggeur.experiments.result import Result, Trial, read_trial
from ggeur.paper.paper_tables import Table
from ggeur.paper.reproduction import Reproduction
from ggeur.report.tables import Comparison, Line, Number, compare
from ggeur.stats.storage import write_bytes

DROPPED = ("recall", "macro_f1", "message", "missing", "privacy", "expected")
DIGITS = 4  # of accuracies and seconds
HEADER = ("table", "protocol", "row", "column", "seed", "measured", "published", "numbers")


class Piece(NamedTuple):
    """One command: a table under a protocol, all rows or some of them, and about how long it takes."""

    name: str
    table: str
    protocol: str
    data: Sequence[str]
    minutes: float
    rows: Sequence[str] = ()
    rounds: int | None = None
    seeds: int = 3
    set: Sequence[str] = ()
    only_changed: bool = False
    choice: str = ""  # what `set` takes from the authors' scripts, alone

    def command(self, data: Path, out: Path) -> list[str]:
        """What to give to `ggeur`, with the embedding tables in the folder `data`."""
        words = ["reproduce", self.table, "--protocol", self.protocol, "--seeds", str(self.seeds), "--out", str(out)]
        words += [] if self.rounds is None else ["--rounds", str(self.rounds)]
        words += ["--only-changed"] if self.only_changed else []
        given = {"--table": [str(data / name) for name in self.data], "--rows": self.rows, "--set": self.set}
        return words + [word for option, values in given.items() for value in values for word in (option, value)]


def pieces(folder: Path) -> list[Piece]:
    """All that `folder`, docs/results, describes."""
    described = tomllib.loads((folder / "pieces.toml").read_text(encoding="utf-8"))
    return [Piece(name, **given) for name, given in described.items()]


class Finished(NamedTuple):
    """A piece that has run."""

    piece: Piece
    reading: Reproduction
    result: Result

    @property
    def table(self) -> Comparison:
        return compare(self.result, self.reading)

    @property
    def hours(self) -> float:
        """Of all its trials, as they took where they ran."""
        return sum(trial.seconds for trial in self.result.trials) / 3600


def keep(folder: Path, piece: Piece, run: Path) -> None:
    """Write what is kept of the finished `run` of a `piece` to `folder`."""
    reading = Reproduction.load(run)
    assert reading is not None
    one = Finished(piece, reading, Result.load(run))
    tree = {"reading": asdict(reading), "trials": [_kept(trial) for trial in one.result.trials]}
    lines = ",\n".join(json.dumps(trial) for trial in tree["trials"])
    text = f'{{"reading": {json.dumps(tree["reading"], indent=1)},\n"trials": [\n{lines}\n]}}\n'
    write_bytes(folder / f"{piece.name}.json", text.encode())
    write_bytes(folder / f"{piece.name}.csv", as_csv(read(folder, piece) or one).encode())


def _kept(trial: Trial) -> dict[str, Any]:
    return {key: _rounded(value) for key, value in asdict(trial).items() if key not in DROPPED}


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return {key: _rounded(one) for key, one in value.items()} if isinstance(value, Mapping) and value else value


def read(folder: Path, piece: Piece) -> Finished | None:
    """A `piece` as kept in `folder`; None where it has not run."""
    path = folder / f"{piece.name}.json"
    if not path.exists():
        return None
    tree = json.loads(path.read_text(encoding="utf-8"))
    return Finished(piece, Reproduction.of(tree["reading"]), Result([read_trial(trial) for trial in tree["trials"]]))


def as_csv(one: Finished) -> str:
    """A line for every figure: of each row, column and seed, beside the paper's."""
    chosen = {(c.row, c.part): c.numbers for c in one.reading.chosen}
    buffer, seeds = io.StringIO(), sorted({trial.seed for trial in one.result.trials})
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(HEADER)
    for line, column, part, number in _numbers(one):
        first = (one.reading.table, one.reading.protocol, line.name, column)
        last = ("" if number.published is None else number.published, chosen.get((line.name, part), ""))
        if len(number.values) == len(seeds):
            for seed, value in zip(seeds, number.values, strict=True):
                writer.writerow((*first, seed, f"{value:.{DIGITS}f}", *last))
        elif one.reading.measure == "seconds" and number.mean is not None:  # of all seeds, side by side
            writer.writerow((*first, "", f"{number.mean:.{DIGITS}f}", *last))
        else:  # not run, or some of it did not finish
            writer.writerow((*first, "", "", *last))
    return buffer.getvalue()


def _numbers(one: Finished) -> Iterator[tuple[Line, str, str, Number]]:
    for line in one.table.lines:
        for column, number in zip(one.reading.columns, line.numbers, strict=True):
            yield line, column.label, column.part, number


def together(found: Sequence[Finished], table: str, protocol: str) -> dict[str, Line]:
    """The rows of a `table` under a `protocol`, from all pieces of it, in its order; one that ran before one not."""
    lines: dict[str, Line] = {}
    for one in found:
        if (one.piece.table, one.piece.protocol) == (table, protocol):
            for line in one.table.lines:
                if line.name not in lines or lines[line.name].why:
                    lines[line.name] = line
    order = dict.fromkeys([row.name for row in Table.load(table).rows] + list(lines))  # which may have been renamed
    return {name: lines[name] for name in order if name in lines}
