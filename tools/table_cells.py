"""What stands in a cell of a table that tables.py makes: which row of which result, and what of it is shown."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import ggeur
from ggeur.experiments.grid import flat
from ggeur.experiments.result import Row

Description = Mapping[str, Any]  # a part of the description
Values = dict[str, Any]  # "section.key": value, with "run" and "arm"
Results = Mapping[str, Sequence[Row]]

NOT_VALUES = ("is", "title", "show", "minus", "best")


def values(given: Description, over: Values) -> Values:
    """What `given` asks for, where it stands over other values."""
    own = {".".join(path): value for path, value in flat({k: v for k, v in given.items() if k not in NOT_VALUES})}
    if "run" in own:
        return own
    return {"run": over["run"], **own} if "arm" in own else {**over, **own}


def options(given: Description, over: Values) -> list[Values]:
    """What `given` asks for: one, or those of which it wants the best."""
    lists = {".".join(path): several for path, several in flat(given.get("best", {}))}
    return [values(given, over) | dict(zip(lists, one, strict=True)) for one in itertools.product(*lists.values())]


def place(wanted: Values, settings: Sequence[Values]) -> int:
    """Where in `settings` the only ones are that have all values `wanted`."""
    asked = {key: value for key, value in wanted.items() if key != "run"}
    found = [i for i, one in enumerate(settings) if asked.items() <= one.items()]
    if len(found) != 1:
        raise ggeur.GgeurError(f"{len(found)} rows of the run '{wanted['run']}' have {asked}; describe one.")
    return found[0]


def wanted(table: Description) -> Iterator[Values]:
    """Every row of a result that the table shows something of."""
    for row in table["rows"]:
        over = values(row, values(table["where"], {}))
        for column in table["columns"]:
            yield from options(column, over)
            yield from options(column["minus"], over) if "minus" in column else ()


def cell(results: Results, table: Description, row: Description, column: Description) -> str:
    """The text of a cell."""
    over = values(row, values(table["where"], {}))
    what, show = _best(results, options(column, over)), column["show"]
    if show == "difference":
        return _difference(what, _best(results, options(column["minus"], over)))
    word, _, number = show.rpartition(" ")
    return _SHOWN[word](what, float(number)) if word in _SHOWN else _SHOWN[show](what)


def _best(results: Results, several: Sequence[Values]) -> Row:
    """By AVG; one that did not finish is the worst."""
    rows = [results[one["run"]][place(one, [row.settings for row in results[one["run"]]])] for one in several]
    return max(rows, key=lambda row: -np.inf if row.avg is None else row.avg)


def _difference(a: Row, b: Row) -> str:
    if a is b:
        return ""
    if a.avg is None or b.avg is None:
        return "-"
    if len(a.trials) == len(b.trials) == 1:
        return f"{a.avg - b.avg:+.2f} (one seed)"
    found = ggeur.paired_difference(a, b)
    return f"{found.mean:+.2f} [{found.low:+.2f}, {found.high:+.2f}]"


def _average(row: Row) -> str:
    done = sum(one.status == "ok" for one in row.trials)
    if row.avg is None:
        return row.trials[0].status
    spread = "" if row.spread is None else f" ± {row.spread:.2f}"
    return f"{row.avg:.2f}{spread}" + (f" ({done} of {len(row.trials)} seeds)" if done < len(row.trials) else "")


def _start(row: Row) -> str:
    known = [one.start_avg for one in row.trials if one.start_avg is not None]
    return f"{np.mean(known):.2f}" if known else "-"


def _steps(row: Row) -> str:
    """Of the client with the fewest, to the one with the most."""
    least, most = (pick(pick(one.local_steps) for one in row.trials) for pick in (min, max))
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _after(row: Row, number: float) -> str:
    known = [one.rounds[int(number) - 1] for one in row.trials if len(one.rounds) >= number]
    return f"{np.mean(known):.2f}" if known else "-"


def _reached(row: Row, percent: float) -> str:
    """Rounds until AVG is `percent`, of the fastest seed to the slowest; a one-shot classifier is there after
    round 0.
    """
    took: list[float] = []
    for one in row.trials:
        curve = [-np.inf if one.start_avg is None else one.start_avg, *one.rounds]
        took.append(next((i for i, avg in enumerate(curve) if avg >= percent), np.inf))
    never = f"not in {max(len(one.rounds) for one in row.trials)}"
    ends = [never if end == np.inf else str(end) for end in (min(took), max(took))]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def _seconds(row: Row) -> str:
    return f"{np.mean([one.seconds for one in row.trials]):.1f}"


def _taken(row: Row) -> str:
    names = Counter(one.taken.partition(" (")[0] for one in row.trials)
    return ", ".join(f"{name} {times}" if len(names) > 1 else name for name, times in names.most_common())


_SHOWN: dict[str, Callable[..., str]] = {
    "avg": _average,
    "start": _start,
    "round": _after,
    "rounds to": _reached,
    "redrawn": lambda row: f"± {max(one.test_deviation or 0.0 for one in row.trials):.2f}",
    "steps": _steps,
    "seconds": _seconds,
    "taken": _taken,
    "bytes down": lambda row: f"{max(one.bytes_down for one in row.trials):,}",
    "bytes up": lambda row: f"{max(one.bytes_up for one in row.trials):,}",
}
