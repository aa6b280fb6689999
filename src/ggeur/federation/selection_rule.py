"""Choosing a head by the sums alone: leave samples and groups out, solve without them, and score what was left out.

A federation is asked for every class in every domain, and knows which of these groups it has seen. Samples left out say
how well a head does on seen groups, whole groups left out how well on unseen ones, and classes left out, with all their
groups, how well on classes that nobody holds, where a head is among the candidates that knows them by their text. No
test sample is looked at.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np

from ggeur.core.errors import Unavailable
from ggeur.core.seeding import generator
from ggeur.core.site_statistics import FederationStatistics
from ggeur.core.types import Bool, Float, Int
from ggeur.federation.start import one_shot_head
from ggeur.heads import resolve as resolve_head
from ggeur.heads.head import Params, double_logits
from ggeur.methods.algorithm import Candidate, Selection, Task

Heads = Sequence[tuple[str, Params]]  # kinds and numbers
_LEAST = 3  # classes that must be left where others are left out: a head by text needs them


class Fold(NamedTuple):
    """What is left out at once: the samples that every client gives this number or, where `groups` are marked,
    those.
    """

    number: int
    groups: Bool | None = None  # (D, C)
    classes: bool = False  # whether these are all groups of some classes


class Folds(Protocol):
    """A federation that can be asked without some of its samples."""

    def total(self, fold: Fold) -> FederationStatistics:
        """The statistics of all samples but those of `fold`."""

    def right(self, each: Iterable[tuple[Fold, Heads]]) -> Iterable[Int]:
        """Of each fold (heads, D, C): how many samples of every group of it each head gets right."""


class Choice(NamedTuple):
    """Which candidate was taken and, where it could be told, what each is expected to reach, in percent.

    Of one that cannot be solved for here, nothing is expected: NaN.
    """

    taken: int
    expected: Float | None  # (candidates,)
    error: Float | None  # (candidates,) standard errors, over groups, of the difference to the best
    of_cells: bool = False  # whether whole groups were left out, too
    why: str = ""  # where a rule took it, that looks at no sample
    of_classes: bool = False  # whether classes were, with all their groups

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
        left = " and ".join(["samples", *["groups"] * self.of_cells, *["classes"] * self.of_classes])
        left = left.replace(" and ", ", ", left.count(" and ") - 1)
        others = ", ".join(f"{name} {value - e[self.taken]:+.1f}" for name, value in best.items() if name != mine)
        return (
            f"Took {names[self.taken]}, expecting {e[self.taken]:.1f} % of every class in every domain "
            f"by leaving {left} out, a rough guess" + (f"; the others at their best: {others}." if others else ".")
        )


def sample_folds(
    y: Int, domains: Int, n_folds: int, seed: int, client: int, least: int = 0, *, together: bool = False
) -> Int:
    """(n,) the fold of every sample of a client: its samples of every class and domain are spread evenly, by chance.

    Sums of a fold are sent, or follow by subtraction, so that each has at `least` so many samples of a group, or none.
    With `together` all clients begin to fill folds of a group at the same one: where only totals over clients are seen,
    a fold's is then of all clients that have few samples of it, and not of one. In both cases samples are divided the
    same way under every seed: sums of many divisions would give the samples away.
    """
    seed = 0 if least or together else seed
    rng = generator(seed, "folds", client)
    fold = np.zeros(len(y), np.int64)
    for group in np.unique(np.stack([domains, y]), axis=1).T:
        samples = np.flatnonzero((domains == group[0]) & (y == group[1]))
        several = min(n_folds, max(len(samples) // least, 1)) if least else n_folds
        first = rng.integers(n_folds)
        if together:
            first = generator(seed, "first fold", *map(int, group)).integers(n_folds)
        fold[rng.permutation(samples)] = (np.arange(len(samples)) % several + first) % n_folds
    return fold


def group_folds(count: Int, n_folds: int, seed: int) -> list[Fold]:
    """Cells to leave out together, of `count` (D, C) samples each: never all that there are of a class."""
    rng = generator(seed, "cells")
    fold = np.full(count.shape, -1)
    for c in range(count.shape[1]):
        held = rng.permutation(np.flatnonzero(count[:, c]))
        if len(held) > 1:
            fold[held, c] = (np.arange(len(held)) + rng.integers(n_folds)) % n_folds
    return [Fold(k, fold == k) for k in range(n_folds) if (fold == k).any()]


def class_folds(count: Int, n_folds: int, seed: int) -> list[Fold]:
    """Classes to leave out together, each that somebody holds once, with all its groups; of less than four, none.

    There are more than `n_folds` where too few would be left otherwise. Their numbers go on after those of groups.
    """
    held = generator(seed, "classes").permutation(np.flatnonzero(count.any(axis=0)))
    if len(held) <= _LEAST:
        return []
    n = len(held)
    parts = min(max(n_folds, -(-n // (n - _LEAST))), n)
    left = [np.isin(np.arange(count.shape[1]), held[k::parts]) for k in range(parts)]
    return [Fold(n_folds + k, (count > 0) & classes, classes=True) for k, classes in enumerate(left)]


def folds_of(count: Int, n_folds: int, seed: int, *, by_text: bool = False) -> list[Fold]:
    """All folds by which to choose for a federation with `count` (D, C) samples; of groups only where some are unseen.

    Of classes only where nobody holds some, and a candidate knows them `by_text`.
    """
    samples = [Fold(k) for k in range(n_folds)]
    groups = group_folds(count, n_folds, seed) if unseen(count) else []
    return samples + groups + (class_folds(count, n_folds, seed) if by_text and unheld(count) else [])


def unseen(count: Int) -> int:
    """How many groups nobody has seen, of classes and domains that somebody holds."""
    return int((count[count.any(axis=1)][:, count.any(axis=0)] == 0).sum())


def unheld(count: Int) -> int:
    """How many groups are of classes that nobody holds, in domains that somebody does."""
    return int(count.any(axis=1).sum() * (~count.any(axis=0)).sum())


def select_solver(chosen: Selection, count: Int, validation: Folds, task: Task, seed: int) -> Choice:
    """The candidate to take in a federation with `count` (D, C) samples; what cannot be solved for is passed over."""
    by_text = bool(task.text) and chosen.wants_text
    folds = folds_of(count, chosen.folds, seed, by_text=by_text)
    samples, groups, classes = (np.zeros((len(chosen.candidates), *count.shape), np.int64) for _ in range(3))
    lost: dict[int, Unavailable] = {}
    each = ((fold, candidate_heads(chosen, validation.total(fold), task, seed, lost)) for fold in folds)
    for fold, right in zip(folds, validation.right(each), strict=True):
        (samples if fold.groups is None else classes if fold.classes else groups)[:] += right
    whole = [fold.groups for fold in folds if fold.groups is not None and not fold.classes]
    left = np.any(whole or [count < 0], axis=0)
    return pick(chosen, samples, groups, count, left, classes if folds[-1].classes else None, lost)


def candidate_heads(
    chosen: Selection, total: FederationStatistics, task: Task, seed: int, lost: dict[int, Unavailable]
) -> list[tuple[str, Params]]:
    """Every candidate's kind of head and its numbers; of one that is `lost`, as it cannot be solved for, another's."""
    found: dict[int, tuple[str, Params]] = {}
    for i, (name, _, solved) in enumerate(chosen.candidates):
        try:
            found[i] = solved.head, one_shot_head(solved, name, total, task, seed)
        except Unavailable as error:
            lost[i] = error
    alike = dict(found.values())
    for i, why in lost.items():
        if chosen.candidates[i].solved.head not in alike:
            raise why
    kinds = [c.solved.head for c in chosen.candidates]
    return [found.get(i, (kind, alike[kind])) for i, kind in enumerate(kinds)]


def pick(
    chosen: Selection,
    samples: Int,
    groups: Int,
    count: Int,
    left: Bool,
    classes: Int | None = None,
    lost: Mapping[int, Unavailable] = MappingProxyType({}),
) -> Choice:
    """From right answers (candidates, D, C): on `samples` left out, on `groups` left out whole, which are those `left`.

    And on `classes` left out, where nobody holds some. A domain's estimate is the mean over classes of what the group's
    own samples say where it has been seen and, where not, of the mean over all groups left out; of a class that nobody
    holds, over all groups of classes left out. The best is taken, or the simplest within a standard error of it; none
    that is `lost`.
    """
    here, missing = count > 0, unseen(count)
    if missing and not left.any():
        default = [c.name for c in chosen.candidates].index("ggeur-limit") if _has(chosen, "ggeur-limit") else 0
        return Choice(default, None, None)
    parts = [(samples, here, int(here.sum())), (groups, left, missing)]
    parts += [] if classes is None else [(classes, here, unheld(count))]
    score = np.concatenate([right[:, of] / count[of] for right, of, _ in parts], axis=1)  # (candidates, groups)
    weight = np.concatenate([np.full(of.sum(), stands / max(of.sum(), 1)) for _, of, stands in parts])
    able = np.array([i for i in range(len(score)) if i not in lost], np.int64)
    if not able.size:
        raise lost[0]
    taken, *of_able = _first_of_the_best(score[able], weight / sum(stands for *_, stands in parts))
    expected, error = (np.full(len(score), np.nan) for _ in of_able)
    expected[able], error[able] = (100 * array for array in of_able)
    return Choice(int(able[taken]), expected, error, bool(left.any()), of_classes=classes is not None)


def _first_of_the_best(score: Float, weight: Float) -> tuple[int, Float, Float]:
    """From `score` (candidates, groups) and what each group counts: which to take, what to expect of each, how surely.

    The best is taken, or the first within a standard error, over groups, of its difference to the best.
    """
    expected = score @ weight
    behind = score[expected.argmax()] - score
    mean = behind @ weight
    n = np.count_nonzero(weight)
    error = np.sqrt((weight**2 * (behind - mean[:, None]) ** 2).sum(axis=1) * n / max(n - 1, 1))
    return int(np.flatnonzero(mean <= error)[0]), expected, error


def _has(chosen: Selection, name: str) -> bool:
    return any(c.name == name for c in chosen.candidates)


def right_answers(head: tuple[str, Params], x: Any, y: Int, domains: Int, shape: tuple[int, int]) -> Int:
    """(D, C), which is `shape`: how many samples of every group a head, by its kind and numbers, gets right."""
    logits = double_logits(resolve_head(head[0]), head[1], x)
    assert logits is not None
    hit = logits.argmax(axis=1) == y
    table = np.zeros(shape, np.int64)
    np.add.at(table, (domains[hit], y[hit]), 1)
    return table
