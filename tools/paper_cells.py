"""What stands in a cell of the page's tables: a figure with its spread, a paired difference with its interval."""

from collections.abc import Iterable, Sequence

import ggeur
from ggeur.experiments.result import Row, Trial
from ggeur.report.tables import Number

NOT_RUN = "Not run yet.\n"
JOIN = "\u00a0"  # a figure stays on one line


def markdown(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; nothing where it has no rows."""
    body = [f"| {' | '.join(row)} |\n" for row in rows]
    return f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}\n{''.join(body)}" if body else ""


def figure(number: Number, *, spread: bool = True) -> str:
    """The mean over seeds, with its spread, and the paper's figure in brackets."""
    if number.mean is None:
        return number.remark or "-"
    text = f"{number.mean:.2f}" + (f"{JOIN}±{JOIN}{number.spread:.2f}" if spread and number.spread is not None else "")
    return text if number.published is None else f"{text} ({number.published:.2f})"


def signed(value: float) -> str:
    """With its sign and two digits; nothing is +0.00 from either side."""
    return f"{round(value, 2) + 0.0:+.2f}"


def minus(a: Number | None, b: Number | None) -> str:
    """The paired difference with its interval."""
    if (difference := _difference(a, b)) is None:
        return "-"
    mean, interval = difference
    if interval is None:
        return signed(mean) + (" (one seed)" if a and b and len(a.values) == len(b.values) == 1 else "")
    return f"{signed(mean)} [{signed(interval[0])},{JOIN}{signed(interval[1])}]"


def told(a: Number | None, b: Number | None) -> str:
    """The paired difference alone, bold where its interval excludes zero."""
    if (difference := _difference(a, b)) is None:
        return "-"
    mean, interval = difference
    return f"**{signed(mean)}**" if interval and interval[0] * interval[1] > 0 else signed(mean)


def _difference(a: Number | None, b: Number | None) -> tuple[float, tuple[float, float] | None] | None:
    """The difference and, where it can be paired by seed, its interval."""
    if a is None or b is None or a.mean is None or b.mean is None:
        return None
    if len(a.values) != len(b.values) or len(a.values) < 2:
        return a.mean - b.mean, None
    found = ggeur.paired_difference(_row(a), _row(b))
    return found.mean, (found.low, found.high)


def _row(number: Number) -> Row:
    cells = [Trial("", "", seed, {}, avg=value) for seed, value in enumerate(number.values)]
    return Row({}, cells, {}, None, None, None)
