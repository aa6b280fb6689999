"""Choosing a head by the sums alone: leave rows and cells out, solve without them, and score what was left out.

A federation is asked for every class in every domain, and knows which of these cells it has seen. Rows left out say how
well a head does on seen cells, whole cells left out how well on unseen ones, and classes left out, with all their
cells, how well on classes that nobody holds, where a head is among the candidates that knows them by their text. No
test row is looked at.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np

from ggeur.core.errors import Unavailable
from ggeur.core.message import Total
from ggeur.core.seeding import generator
from ggeur.core.types import Bool, Float, Int
from ggeur.federation.start import solved_head
from ggeur.heads import resolve as resolve_head
from ggeur.heads.head import Params, double_logits
from ggeur.methods.algorithm import Candidate, Chosen, Task

Heads = Sequence[tuple[str, Params]]  # kinds and numbers
_LEAST = 3  # classes that must be left where others are left out: a head by text needs them


class Fold(NamedTuple):
    """What is left out at once: the rows that every client gives this number or, where `cells` are marked, those."""

    number: int
    cells: Bool | None = None  # (D, C)
    classes: bool = False  # whether these are all cells of some classes


class LeftOut(Protocol):
    """A federation that can be asked without some of its rows."""

    def total(self, fold: Fold) -> Total:
        """The statistics of all rows but those of `fold`."""

    def right(self, each: Iterable[tuple[Fold, Heads]]) -> Iterable[Int]:
        """Of each fold (heads, D, C): how many rows of every cell of it each head gets right."""


class Choice(NamedTuple):
    """Which candidate was taken and, where it could be told, what each is expected to reach, in percent.

    Of one that cannot be solved for here, nothing is expected: NaN.
    """

    taken: int
    expected: Float | None  # (candidates,)
    error: Float | None  # (candidates,) standard errors, over cells, of the difference to the best
    of_cells: bool = False  # whether whole cells were left out, too
    why: str = ""  # where a rule took it, that looks at no row
    of_classes: bool = False  # whether classes were, with all their cells

    def by_label(self, candidates: Sequence[Candidate]) -> dict[str, float]:
        """What is expected of every candidate of which that can be told."""
        expected = np.full(len(candidates), np.nan) if self.expected is None else self.expected
        return {c.label: float(e) for c, e in zip(candidates, expected, strict=True) if not np.isnan(e)}

    def sentence(self, candidates: Sequence[Candidate]) -> str:
        """What was taken, what it expects and how far the others are."""
        names = [c.label for c in candidates]
        if self.why:
            return self.why
        if self.expected is None:
            return f"Took {names[self.taken]}, the default: no class is held in two domains, so none can be left out."
        e = self.expected
        told = [(c.name, value) for c, value in zip(candidates, e, strict=True) if not np.isnan(value)]
        best = {name: max(value for other, value in told if other == name) for name, _ in told}
        mine = candidates[self.taken].name
        left = " and ".join(["rows", *["cells"] * self.of_cells, *["classes"] * self.of_classes])
        left = left.replace(" and ", ", ", left.count(" and ") - 1)
        others = ", ".join(f"{name} {value - e[self.taken]:+.1f}" for name, value in best.items() if name != mine)
        return (
            f"Took {names[self.taken]}, expecting {e[self.taken]:.1f} % of every class in every domain "
            f"by leaving {left} out, a rough guess" + (f"; the others at their best: {others}." if others else ".")
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


def class_folds(count: Int, n_folds: int, seed: int) -> list[Fold]:
    """Classes to leave out together, each that somebody holds once, with all its cells; of less than four, none.

    There are more than `n_folds` where too few would be left otherwise. Their numbers go on after those of cells.
    """
    held = generator(seed, "classes").permutation(np.flatnonzero(count.any(axis=0)))
    if len(held) <= _LEAST:
        return []
    n = len(held)
    parts = min(max(n_folds, -(-n // (n - _LEAST))), n)
    left = [np.isin(np.arange(count.shape[1]), held[k::parts]) for k in range(parts)]
    return [Fold(n_folds + k, (count > 0) & classes, classes=True) for k, classes in enumerate(left)]


def folds_of(count: Int, n_folds: int, seed: int, *, by_text: bool = False) -> list[Fold]:
    """All folds by which to choose for a federation with `count` (D, C) rows; of cells only where some are unseen.

    Of classes only where nobody holds some, and a candidate knows them `by_text`.
    """
    rows = [Fold(k) for k in range(n_folds)]
    cells = cell_folds(count, n_folds, seed) if unseen(count) else []
    return rows + cells + (class_folds(count, n_folds, seed) if by_text and unheld(count) else [])


def unseen(count: Int) -> int:
    """How many cells nobody has seen, of classes and domains that somebody holds."""
    return int((count[count.any(axis=1)][:, count.any(axis=0)] == 0).sum())


def unheld(count: Int) -> int:
    """How many cells are of classes that nobody holds, in domains that somebody does."""
    return int(count.any(axis=1).sum() * (~count.any(axis=0)).sum())


def choose(chosen: Chosen, count: Int, left_out: LeftOut, task: Task, seed: int) -> Choice:
    """The candidate to take in a federation with `count` (D, C) rows; what cannot be solved for is passed over."""
    by_text = bool(task.text) and chosen.wants_text
    folds = folds_of(count, chosen.folds, seed, by_text=by_text)
    rows, cells, classes = (np.zeros((len(chosen.candidates), *count.shape), np.int64) for _ in range(3))
    lost: dict[int, Unavailable] = {}
    each = ((fold, candidate_heads(chosen, left_out.total(fold), task, seed, lost)) for fold in folds)
    for fold, right in zip(folds, left_out.right(each), strict=True):
        (rows if fold.cells is None else classes if fold.classes else cells)[:] += right
    whole = [fold.cells for fold in folds if fold.cells is not None and not fold.classes]
    left = np.any(whole or [count < 0], axis=0)
    return pick(chosen, rows, cells, count, left, classes if folds[-1].classes else None, lost)


def candidate_heads(
    chosen: Chosen, total: Total, task: Task, seed: int, lost: dict[int, Unavailable]
) -> list[tuple[str, Params]]:
    """Every candidate's kind of head and its numbers; of one that is `lost`, as it cannot be solved for, another's."""
    found: dict[int, tuple[str, Params]] = {}
    for i, (name, _, solved) in enumerate(chosen.candidates):
        try:
            found[i] = solved.head, solved_head(solved, name, total, task, seed)
        except Unavailable as error:
            lost[i] = error
    alike = dict(found.values())
    for i, why in lost.items():
        if chosen.candidates[i].solved.head not in alike:
            raise why
    kinds = [c.solved.head for c in chosen.candidates]
    return [found.get(i, (kind, alike[kind])) for i, kind in enumerate(kinds)]


def pick(
    chosen: Chosen,
    rows: Int,
    cells: Int,
    count: Int,
    left: Bool,
    classes: Int | None = None,
    lost: Mapping[int, Unavailable] = MappingProxyType({}),
) -> Choice:
    """From right answers (candidates, D, C): on `rows` left out, on `cells` left out whole, which are those `left`.

    And on `classes` left out, where nobody holds some. A domain's estimate is the mean over classes of what the cell's
    own rows say where it has been seen and, where not, of the mean over all cells left out; of a class that nobody
    holds, over all cells of classes left out. The best is taken, or the simplest within a standard error of it; none
    that is `lost`.
    """
    here, missing = count > 0, unseen(count)
    if missing and not left.any():
        default = [c.name for c in chosen.candidates].index("limit") if _has(chosen, "limit") else 0
        return Choice(default, None, None)
    parts = [(rows, here, int(here.sum())), (cells, left, missing)]
    parts += [] if classes is None else [(classes, here, unheld(count))]
    score = np.concatenate([right[:, of] / count[of] for right, of, _ in parts], axis=1)  # (candidates, cells)
    weight = np.concatenate([np.full(of.sum(), stands / max(of.sum(), 1)) for _, of, stands in parts])
    able = np.array([i for i in range(len(score)) if i not in lost], np.int64)
    if not able.size:
        raise lost[0]
    taken, *of_able = _first_of_the_best(score[able], weight / sum(stands for *_, stands in parts))
    expected, error = (np.full(len(score), np.nan) for _ in of_able)
    expected[able], error[able] = (100 * array for array in of_able)
    return Choice(int(able[taken]), expected, error, bool(left.any()), of_classes=classes is not None)


def _first_of_the_best(score: Float, weight: Float) -> tuple[int, Float, Float]:
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
