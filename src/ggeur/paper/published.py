"""The numbers that the paper prints, from `published.toml`."""

from functools import cache
from typing import Any, NamedTuple

from pydantic import BaseModel

from ggeur.core.packaged import packaged_toml


class Slip(NamedTuple):
    """A printed value that does not follow from the rest of its row; `computed` is None where nobody can tell."""

    row: str
    column: str
    printed: float
    why: str
    computed: float | None = None


class Gain(NamedTuple):
    """The gain of `row` over `base` that the paper quotes; `computed` only where its own table says otherwise."""

    table: str
    row: str
    base: str
    column: str
    printed: float
    computed: float | None = None


class PublishedTable(BaseModel):
    """One table as printed."""

    columns: tuple[str, ...]
    rows: dict[str, tuple[float, ...]]
    ddof: int | None = None  # degrees of freedom of its STD over domains, where it has one
    slips: tuple[Slip, ...] = ()

    def value(self, row: str, column: str) -> float | None:
        """A printed number, or None where the paper has none."""
        row = row.replace("(image network)", "(images)")  # as runs of earlier versions call it
        if row not in self.rows or column not in self.columns:
            return None
        return self.rows[row][self.columns.index(column)]

    def slip(self, row: str, column: str) -> Slip | None:
        """Return what is wrong with a printed number, if anything is."""
        return next((s for s in self.slips if (s.row, s.column) == (row, column)), None)


@cache
def _file() -> dict[str, Any]:
    return packaged_toml("paper", "published.toml")


@cache
def published_tables() -> dict[str, PublishedTable]:
    """Every table by its name, `table1` to `table11`."""
    return {name: PublishedTable(**table) for name, table in _file().items() if name != "gains"}


def published_gains() -> tuple[Gain, ...]:
    """The gains that the paper quotes."""
    return tuple(Gain(**gain) for gain in _file()["gains"])
