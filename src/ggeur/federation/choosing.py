"""Choosing a head by the sums alone: leave rows and cells out, solve without them, and score what was left out.

A federation is asked for every class in every domain, and knows which of these cells it has seen. Rows left out say how
well a head does on seen cells, whole cells left out how well on unseen ones. No test row is looked at.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ggeur.core.message import Total
from ggeur.core.seeding import generator
from ggeur.core.types import Bool, Float, Int
from ggeur.federation.start import solved_head
from ggeur.heads import resolve as resolve_head
from ggeur.heads.head import Params, double_logits
from ggeur.methods.algorithm import Candidate, Chosen, Task

Heads = Sequence[tuple[str, Params]]  # kinds and numbers


class Fold(NamedTuple):
    """What is left out at once: the rows that every client gives this number or, where `cells` are marked, those."""

    number: int
    cells: Bool | None = None  # (D, C)


class LeftOut(Protocol):
    """A federation that can be asked without some of its rows."""

    def total(self, fold: Fold) -> Total:
        """The statistics of all rows but those of `fold`."""

    def right(self, each: Iterable[tuple[Fold, Heads]]) -> Iterable[Int]:
        """Of each fold (heads, D, C): how many rows of every cell of it each head gets right."""


class Choice(NamedTuple):
    """Which candidate was taken and, where it could be told, what each is expected to reach, in percent."""

    taken: int
    expected: Float | None  # (candidates,)
    error: Float | None  # (candidates,) standard errors, over cells, of the difference to the best
    of_cells: bool = False  # whether whole cells were left out, too
    why: str = ""  # where a rule took it, that looks at no row

    def sentence(self, candidates: Sequence[Candidate]) -> str:
        """What was taken, what it expects and how far the others are."""
        names = [c.label for c in candidates]
        if self.why:
            return self.why
        if self.expected is None:
            return f"Took {names[self.taken]}, the default: no class is held in two domains, so none can be left out."
        e = self.expected
        best = {c.name: max(e[i] for i, d in enumerate(candidates) if d.name == c.name) for c in candidates}
        mine = candidates[self.taken].name
        others = ", ".join(f"{name} {value - e[self.taken]:+.1f}" for name, value in best.items() if name != mine)
        return (
            f"Took {names[self.taken]}, expecting {e[self.taken]:.1f} % of every class in every domain by leaving rows "
            f"{'and cells ' if self.of_cells else ''}out, a rough guess"
            + (f"; the others at their best: {others}." if others else ".")
        )


def row_folds(
    y: Int, domains: Int, n_folds: int, seed: int, client: int, least: int = 0, *, together: bool = False
) -> Int:
    """(n,) the fold of every row of a client: its rows of every class and domain are spread evenly, by chance.

    Sums of a fold are sent, or follow by subtraction, so that each has at `least` so many rows of a cell, or none.
    With `together` all clients begin to fill folds of a cell at the same one: where only totals over clients are seen,
    a fold's is then of all clients that have few rows of it, and not of one. In both cases rows are divided the same
    way under every seed: sums of many divisions would give the rows away.
    """
    seed = 0 if least or together else seed
    rng = generator(seed, "folds", client)
    fold = np.zeros(len(y), np.int64)
    for cell in np.unique(np.stack([domains, y]), axis=1).T:
        rows = np.flatnonzero((domains == cell[0]) & (y == cell[1]))
        several = min(n_folds, max(len(rows) // least, 1)) if least else n_folds
        first = rng.integers(n_folds)
        if together:
            first = generator(seed, "first fold", *map(int, cell)).integers(n_folds)
        fold[rng.permutation(rows)] = (np.arange(len(rows)) % several + first) % n_folds
    return fold


def cell_folds(count: Int, n_folds: int, seed: int) -> list[Fold]:
    """Cells to leave out together, of `count` (D, C) rows each: never all that there are of a class."""
    rng = generator(seed, "cells")
    fold = np.full(count.shape, -1)
    for c in range(count.shape[1]):
        held = rng.permutation(np.flatnonzero(count[:, c]))
        if len(held) > 1:
            fold[held, c] = (np.arange(len(held)) + rng.integers(n_folds)) % n_folds
    return [Fold(k, fold == k) for k in range(n_folds) if (fold == k).any()]


def folds_of(count: Int, n_folds: int, seed: int) -> list[Fold]:
    """All folds by which to choose for a federation with `count` (D, C) rows; of cells only where some are unseen."""
    rows = [Fold(k) for k in range(n_folds)]
    return rows + (cell_folds(count, n_folds, seed) if unseen(count) else [])


def unseen(count: Int) -> int:
    """How many cells nobody has seen, of classes and domains that somebody holds."""
    return int((count[count.any(axis=1)][:, count.any(axis=0)] == 0).sum())


def choose(chosen: Chosen, count: Int, left_out: LeftOut, task: Task, seed: int) -> Choice:
    """The candidate to take in a federation with `count` (D, C) rows."""
    folds = folds_of(count, chosen.folds, seed)
    seen, whole = (np.zeros((len(chosen.candidates), *count.shape), np.int64) for _ in range(2))
    each = ((fold, candidate_heads(chosen, left_out.total(fold), task, seed)) for fold in folds)
    for fold, right in zip(folds, left_out.right(each), strict=True):
        (seen if fold.cells is None else whole)[:] += right
    left = np.any([fold.cells for fold in folds if fold.cells is not None] or [count < 0], axis=0)
    return pick(chosen, seen, whole, count, left)


def candidate_heads(chosen: Chosen, total: Total, task: Task, seed: int) -> list[tuple[str, Params]]:
    """Every candidate's kind of head and its numbers."""
    return [(c.solved.head, solved_head(c.solved, c.name, total, task, seed)) for c in chosen.candidates]


def pick(chosen: Chosen, seen: Int, whole: Int, count: Int, left: Bool) -> Choice:
    """From right answers (candidates, D, C): on rows left out, and on cells left out whole, which are those `left`.

    A domain's estimate is the mean over classes of what the cell's own rows say where it has been seen and, where not,
    of the mean over all cells left out. The best is taken, or the simplest within a standard error of it.
    """
    here, missing = count > 0, unseen(count)
    pairs = here.sum() + missing
    if missing and not left.any():
        default = [c.name for c in chosen.candidates].index("limit") if _has(chosen, "limit") else 0
        return Choice(default, None, None)
    score = np.concatenate([seen[:, here] / count[here], whole[:, left] / count[left]], axis=1)  # (candidates, cells)
    weight = np.concatenate([np.full(here.sum(), 1.0), np.full(left.sum(), missing / max(left.sum(), 1))]) / pairs
    taken, expected, error = first_of_the_best(score, weight)
    return Choice(taken, 100 * expected, 100 * error, bool(left.any()))


def first_of_the_best(score: Float, weight: Float) -> tuple[int, Float, Float]:
    """From `score` (candidates, cells) and what each cell counts: which to take, what to expect of each, how surely.

    The best is taken, or the first within a standard error, over cells, of its difference to the best.
    """
    expected = score @ weight
    behind = score[expected.argmax()] - score
    mean = behind @ weight
    n = np.count_nonzero(weight)
    error = np.sqrt((weight**2 * (behind - mean[:, None]) ** 2).sum(axis=1) * n / max(n - 1, 1))
    return int(np.flatnonzero(mean <= error)[0]), expected, error


def _has(chosen: Chosen, name: str) -> bool:
    return any(c.name == name for c in chosen.candidates)


def right_answers(head: tuple[str, Params], x: Any, y: Int, domains: Int, shape: tuple[int, int]) -> Int:
    """(D, C), which is `shape`: how many rows of every cell a head, by its kind and numbers, gets right."""
    logits = double_logits(resolve_head(head[0]), head[1], x)
    assert logits is not None
    hit = logits.argmax(axis=1) == y
    table = np.zeros(shape, np.int64)
    np.add.at(table, (domains[hit], y[hit]), 1)
    return table
