"""Which messages a site is asked for, and of which of its rows each is: both ends count them out alike."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ggeur.core.message import Statistics
from ggeur.core.types import Bool, Float, Int

ALL = -1  # domains, or folds


class Part(NamedTuple):
    """Those rows of a site that have a message of their own."""

    domain: int = ALL
    fold: int = ALL

    @property
    def prefix(self) -> str:
        """What the names of its arrays begin with; of a message of all rows, nothing."""
        return "" if self == Part() else f"{self.domain}.{self.fold}."


class Wanted(NamedTuple):
    """What every site is asked for: moments of that `kind`, where that is needed domain by domain.

    To leave rows out, a message for each of so many `folds` of rows. To leave `cells` (any, D, C) out of moments that
    are pooled, from which they cannot be dropped later, also one of all rows but those, for each fold of cells.
    What is `protected` cannot be held against what a site said before: there is noise in it, or folds are uneven.
    """

    kind: Statistics
    by_domain: bool = False
    folds: int = 0
    cells: Bool | None = None
    protected: Literal["noise", "folds"] | None = None

    @classmethod
    def read(cls, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> "Wanted":
        """What a message asks for."""
        return cls(facts["kind"], bool(facts["by_domain"]), int(facts["folds"]), arrays.get("cells"))

    @property
    def facts(self) -> dict[str, Any]:
        """All of it but the cells, which travel as an array."""
        return {"kind": self.kind, "by_domain": self.by_domain, "folds": self.folds}

    def parts(self, domains: Sequence[int]) -> list[Part]:
        """What a site with rows of these `domains` sends; one without rows says that, too."""
        folds = [ALL]
        if self.folds:
            cells = [] if self.cells is None else np.flatnonzero(self.cells.any(axis=(1, 2))).tolist()
            folds = [*range(self.folds), *(self.folds + k for k in cells)]
        return [Part(d, fold) for d in (domains if self.by_domain and domains else [ALL]) for fold in folds]

    def rows(self, part: Part, y: Int, domains: Int, fold: Int) -> Bool:
        """(n,): which rows are of `part`, where they are of classes `y`, of `domains`, and each of a `fold`."""
        mine = domains == part.domain if part.domain != ALL else np.ones(len(y), np.bool_)
        if part.fold == ALL:
            return mine
        if part.fold < self.folds:
            return np.asarray(mine & (fold == part.fold))
        assert self.cells is not None
        return np.asarray(mine & ~self.cells[part.fold - self.folds][domains, y])

    def announced(self, part: Part, held: Int) -> tuple[Float, int]:
        """(C,): the rows of which `part` is a share, of a site with `held` (D, C); and one in how many it is."""
        own = held.sum(axis=0) if part.domain == ALL else held[part.domain]
        if part.fold < self.folds:
            return own.astype(np.float64), self.folds if part.fold != ALL else 1
        assert self.cells is not None
        return np.where(self.cells[part.fold - self.folds, part.domain], 0.0, own), 1
