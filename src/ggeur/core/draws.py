"""Which samples a client draws around: Steps 1 and 2 of the paper as arithmetic, without noise."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from ggeur.core.types import Bool, Int


class Draws(NamedTuple):
    """The new samples as indices: around which sample (own samples, then prototypes d * C + c), of which class."""

    sample: Int
    label: Int


class DrawRule(NamedTuple):
    """The number of draws a client makes around its own samples (Step 1) and around others' prototypes (Step 2).

    >>> DrawRule(target=500).around_own(np.array([480, 0, 700]))  # a class that it lacks has no sample to draw around
    array([20,  0,  0])
    """

    target: int = 2000  # number of samples that each class a client holds is topped up to
    per_sample: int | None = None  # N of Algorithm 1, the draws around each own sample, in place of a target
    per_prototype: int = 500
    empty_group: Literal["all", "first"] = "all"  # which prototypes a class gets that the client lacks

    def around_own(self, held: Int) -> Int:
        """Return the draws of each class, for a client that has `held` (..., C) samples of it."""
        extra = np.maximum(self.target - held, 0) if self.per_sample is None else held * self.per_sample
        return np.where(held > 0, extra, 0)

    def prototypes(self, held: Int, present: Bool) -> Bool:
        """Return (..., D, C), which of the `present` prototypes a client with `held` (..., C) samples draws around."""
        first = np.cumsum(present, axis=-2) == 1
        return present & (first | (held > 0)[..., None, :]) if self.empty_group == "first" else present

    def draws(self, held: Int, present: Bool) -> Int:
        """Return (..., C), all draws of each class of one client or many, by what is `held` and `present`."""
        used = np.count_nonzero(self.prototypes(held, present), axis=-2)
        return np.asarray(self.around_own(held) + used * self.per_prototype)


def plan_draws(y: Int, n_classes: int, rule: DrawRule, prototypes: Bool | None = None) -> Draws:
    """Return the draws that a client with labels `y` makes by `rule`: class by class, Step 1 and then Step 2.

    Step 1: draw i is around own sample i mod n. Step 2: around each prototype that `prototypes` (D, C) marks, also for
    classes the client lacks.
    """
    if prototypes is None:
        prototypes = np.zeros((0, n_classes), np.bool_)
    held = np.bincount(y, minlength=n_classes)
    own = np.split(np.argsort(y, kind="stable"), np.cumsum(held)[:-1])
    around, used = rule.around_own(held), rule.prototypes(held, prototypes)
    samples: list[Int] = []
    for c in range(n_classes):
        samples.append(np.resize(own[c], around[c]))  # np.resize repeats in turn: own sample i mod n
        samples.append(np.repeat(len(y) + np.flatnonzero(used[:, c]) * n_classes + c, rule.per_prototype))
    sample = np.concatenate(samples) if samples else np.zeros(0, np.int64)
    labels = np.concatenate([y, np.tile(np.arange(n_classes), len(prototypes))])
    return Draws(sample, labels[sample])
