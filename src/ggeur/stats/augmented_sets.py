"""Augmented sets, stored as indices into a shared noise bank and materialised per batch.

A sample is `base[sample] + sign * bank[noise]`. Client k takes, of each class, as many consecutive rows of that class's
bank as it has draws, from where the clients before it stopped. While the bank is as large as all draws together no row
serves twice and the law is Algorithm 1's, client by client and across clients; past `BANK_BYTES` (or what one client
draws, if that is more) the bank wraps around: draws of one client stay distinct, those of different clients may then
share a noise vector up to its sign.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ggeur.stats.seeding import generator
from ggeur.stats.types import THREADS, Bool, Int


class Draws(NamedTuple):
    """The new samples as indices: around which sample (own samples, then prototypes d * C + c), of which class."""

    sample: Int
    label: Int


class DrawRule(NamedTuple):
    """The number of draws a client makes around its own samples (Step 1) and around others' prototypes (Step 2).

    Parameters
    ----------
    target : number of samples that each class the client holds is topped up to.
    per_sample : draws around each own sample, in place of `target`.
    per_prototype : draws around each other domain's class mean.
    empty_group : for a class that the client lacks, draw around "all" prototypes of it, or the "first" only.

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


BANK_BYTES = 2**28  # benchmarks/README.md has what sharing costs and what a smaller bank saves
_BLOCK = 256  # rows drawn from one stream, so that a site can make the few rows it needs


class AugmentedSet(NamedTuple):
    """One client's training set as indices; its first `originals` samples are the client's own, without noise."""

    sample: NDArray[np.int32]  # into the base: table samples, then prototypes
    noise: NDArray[np.int32]  # row of the bank, negative for sign -1; 0 is the zero row, and no noise
    y: NDArray[np.int32]
    originals: int

    def materialise(self, base: NDArray[Any], bank: NDArray[np.float32] | None) -> NDArray[np.float32]:
        """The set as an array."""
        x = base[self.sample].astype(np.float32)
        if bank is not None:
            x += np.sign(self.noise)[:, None] * bank[np.abs(self.noise)]
        return x


@dataclass(frozen=True)
class BankLayout:
    """The number of rows in each class's bank, and where each client starts in it; row 0 of the whole bank is zero."""

    size: Int  # (C,)
    offset: Int  # (K, C)

    @classmethod
    def of(cls, draws: Int, dimension: int, bank_bytes: int = BANK_BYTES) -> BankLayout:
        """The layout for `draws` (K, C), the number of draws of each client and class."""
        total, largest = draws.sum(axis=0), draws.max(axis=0, initial=0)
        room = bank_bytes // (4 * dimension)
        fair = room // max(int(np.count_nonzero(total)), 1)
        size = total if total.sum() <= room else np.maximum(np.minimum(total, fair), largest)
        before = np.cumsum(draws, axis=0) - draws
        return cls(size, before % np.maximum(size, 1))

    @property
    def whole(self) -> BankPiece:
        """All of the bank, for whoever simulates all clients."""
        return BankPiece(np.zeros_like(self.size), self.size, self.size)


class BankPiece(NamedTuple):
    """Consecutive rows of each class's bank: all of them, or those that one client draws."""

    first: Int  # (C,) row of the class's bank that comes first here; past the last it goes on at the beginning
    length: Int  # (C,)
    size: Int  # (C,) rows of the class's whole bank

    def noise_rows(self, offset: Int, client: int, label: Int, seed: int) -> NDArray[np.int32]:
        """Return signed rows for the draws of a client that starts at `offset` (C,) in this piece, class by class."""
        first = 1 + np.cumsum(self.length) - self.length
        samples = [
            first[c] + (offset[c] + np.arange(m)) % self.length[c]
            for c, m in enumerate(np.bincount(label, minlength=len(self.length)))
            if m
        ]
        sign = generator(seed, "signs", client).choice(np.array([-1, 1]), len(label))
        return np.asarray(sign * np.concatenate([np.zeros(0, np.int64), *samples]), np.int32)

    def noise(self, factors: NDArray[np.float32], factor_of: Int, seed: int) -> NDArray[np.float32]:
        """Return the piece itself, (1 + sum of lengths, p): a zero row, then each class's noise vectors in turn.

        `factors` (m, p, p) turn white noise into noise along a shape; `factor_of` (C,) says which is a class's.
        """
        held, p = np.flatnonzero(self.length).tolist(), factors.shape[-1]
        bank = np.zeros((1 + int(self.length.sum()), p), np.float32)
        end = 1 + np.cumsum(self.length)

        def fill(c: int) -> None:
            samples = bank[end[c] - self.length[c] : end[c]]
            done = 0
            while done < len(samples):  # block by block of the class's bank, and no further than its end
                sample = (int(self.first[c]) + done) % int(self.size[c])
                block, skip = sample - sample % _BLOCK, sample % _BLOCK
                some = samples[done : done + min(_BLOCK - skip, int(self.size[c]) - sample)]
                eps = generator(seed, "noise", c, block).standard_normal((_BLOCK, p), np.float32)
                some[:] = eps[skip : skip + len(some)]
                done += len(some)
            samples[:] = samples @ factors[factor_of[c]]

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(fill, held))
        return bank


class NoisePlace(NamedTuple):
    """The place in the bank where a client's draws find their noise."""

    piece: BankPiece
    offset: Int  # (C,) where the client starts in it
    client: int
    seed: int


def training_set(
    own: Int,
    y: Int,
    rule: DrawRule | None,
    present: Bool,
    noise: NoisePlace | None,
    prototypes_at: int,
    *,
    expected: bool = False,
) -> AugmentedSet:
    """The set of a client that holds base samples `own` with labels `y` and draws by `rule`, or not at all.

    `present` (D, C) marks the prototypes it may draw around, which lie in the base from `prototypes_at` on. Where the
    draws' loss is `expected`, there is no bank, and a 1 in place of its row marks what would be drawn.
    """
    draws = Draws(np.zeros(0, np.int64), np.zeros(0, np.int64))
    if rule is not None:
        draws = plan_draws(y, present.shape[1], rule, present)
    signed = np.ones(len(draws.sample), np.int32) if expected else None
    if noise is not None:
        signed = noise.piece.noise_rows(noise.offset, noise.client, draws.label, noise.seed)
    return augmented_set(own, y, draws, signed, prototypes_at)


def augmented_set(own: Int, y: Int, draws: Draws, noise: NDArray[np.int32] | None, prototypes_at: int) -> AugmentedSet:
    """The set of a client that holds table samples `own` with labels `y` and makes `draws`.

    A draw around prototype j is around base sample `prototypes_at + j`.
    """
    n = len(own)
    sample = np.where(
        draws.sample < n, np.append(own, 0)[np.minimum(draws.sample, n)], prototypes_at + draws.sample - n
    )
    still = np.zeros(len(sample), np.int32) if noise is None else noise
    return AugmentedSet(
        np.concatenate([own, sample]).astype(np.int32),
        np.concatenate([np.zeros(n, np.int32), still]),
        np.concatenate([y, draws.label]).astype(np.int32),
        n,
    )
