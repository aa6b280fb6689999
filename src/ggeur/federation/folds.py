"""The folds of a cross-validation over a federation: parts of every group's samples, whole groups, whole classes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ggeur.stats.seeding import generator
from ggeur.stats.types import Bool, Float, Int

_LEAST = 3  # classes that must be left where others are left out: a head by text needs them


class Fold(NamedTuple):
    """One fold: the samples that every client gives this number or, where `groups` are marked,
    those.
    """

    number: int
    groups: Bool | None = None  # (D, C)
    classes: bool = False  # whether these are all groups of some classes


def sample_folds(y: Int, domains: Int, n_folds: int, seed: int, client: int, least: int = 0) -> Int:
    """(n,) the fold of every sample of a client: its samples of every class and domain are spread evenly, by chance.

    A fold has at `least` so many samples of a group, or none.
    """
    seed = 0 if least else seed  # divided alike under every seed: many divisions would give the samples away
    rng = generator(seed, "folds", client)
    fold = np.zeros(len(y), np.int64)
    for group in np.unique(np.stack([domains, y]), axis=1).T:
        samples = np.flatnonzero((domains == group[0]) & (y == group[1]))
        several = min(n_folds, max(len(samples) // least, 1)) if least else n_folds
        first = rng.integers(n_folds)
        fold[rng.permutation(samples)] = (np.arange(len(samples)) % several + first) % n_folds
    return fold


def group_folds(count: Int, n_folds: int, seed: int) -> list[Fold]:
    """Groups to leave out together, of `count` (D, C) samples each: never all that there are of a class."""
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


_SAMPLE_FOLDS, _GROUP_FOLDS = 5, 4  # one of so many is held back


class ValidationSplit(NamedTuple):
    """Samples that no client trains on, and from which groups they are."""

    kept: list[Int]  # of each client, the samples that it goes on with
    samples: Int  # held back by all clients together
    before: Int  # (D, C): training samples of every group, before anything was held back
    whole: Bool  # (D, C): groups of which nothing is kept

    def weight(self, scored: Bool) -> Float:
        """(D, C): what each of the groups that were `scored` counts for in the accuracy to expect.

        Every class of every domain counts alike. What samples of a group say stands for groups that somebody has seen,
        what groups held back whole say for those that nobody has.
        """
        seen, unknown = scored & ~self.whole, scored & self.whole
        weight = np.where(seen, np.count_nonzero(self.before) / max(seen.sum(), 1), 0.0)
        weight[unknown] = unseen(self.before) / max(unknown.sum(), 1)
        return np.asarray(weight / weight.sum())


def validation_split(y: Int, domains: Int, shape: tuple[int, int], parts: Sequence[Int], seed: int) -> ValidationSplit:
    """The split of clients with the samples `parts` of a table whose samples have classes `y` and `domains`, by `seed`.

    `shape` is how many domains and classes there are.
    """
    samples = np.concatenate(parts)
    count = np.zeros(shape, np.int64)
    np.add.at(count, (domains[samples], y[samples]), 1)
    folds = group_folds(count, _GROUP_FOLDS, seed) if unseen(count) else []
    whole = np.zeros(shape, np.bool_) if not folds or folds[0].groups is None else folds[0].groups
    kept, held = [], []
    for k, own in enumerate(parts):
        out = (sample_folds(y[own], domains[own], _SAMPLE_FOLDS, seed, k) == 0) | whole[domains[own], y[own]]
        kept.append(own[~out])
        held.append(own[out])
    return ValidationSplit(kept, np.sort(np.concatenate(held)), count, whole)
