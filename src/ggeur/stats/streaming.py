"""Statistics of samples that come in pieces: the same bits however they are cut into pieces, files or workers.

A class's samples are taken in the order in which they come, in blocks of a fixed size whose products are added up from
left to right. Workers take whole classes, or for pooled moments whole blocks, so no sum depends on their number. What
is held in memory is the statistics, less than a block of each class, and the piece at hand.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ggeur.stats.errors import GgeurError
from ggeur.stats.site_statistics import Covariance, SiteStatistics, matrices
from ggeur.stats.types import Float, Int
from ggeur.stats.validate import fits_memory

BLOCK = 256  # samples of one class in a product: their float64 copy stays in the processor's cache
POOLED_BLOCK = 1024  # samples of any class in a product
FIRST = 1024  # samples of a domain whose mean its moments are formed about, until the mean of all is known
_PIECE = 65_536  # samples that workers share out among them at a time

Each = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]


class Piece(NamedTuple):
    """Samples as they come: embeddings `x` (n, p), their classes `y` and domains `domain` (n,)."""

    x: NDArray[Any]
    y: Int
    domain: Int


def default_workers() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def streamed_statistics(
    pieces: Iterable[Piece], n_classes: int, kind: Covariance, *, workers: int = 0
) -> dict[int, SiteStatistics]:
    """Return the statistics of every domain in `pieces`, with moments about the mean of its samples.

    Parameters
    ----------
    pieces : finite samples in the order of their files; how they are cut does not matter to a bit.
    n_classes : how many classes there are, present or not.
    kind : second moments "per-class", "pooled" over the classes, or "none".
    workers : threads that form the products; 0: one for each processor. Their number does not matter to a bit.

    >>> x, y, d = np.eye(4), np.array([0, 1, 1, 0]), np.zeros(4, int)
    >>> streamed_statistics([Piece(x[:1], y[:1], d[:1]), Piece(x[1:], y[1:], d[1:])], 2, "per-class")[0].count
    array([2., 2.])
    """
    found: dict[int, _Domain] = {}
    with threadpool_limits(1), _workers(workers or default_workers()) as each:
        for x, y, domain in pieces:
            for d in np.unique(domain).tolist():
                samples = np.flatnonzero(domain == d)
                whole = len(samples) == len(x)
                for at in range(0, len(samples), _PIECE):
                    part = slice(at, at + _PIECE) if whole else samples[at : at + _PIECE]
                    if d not in found:
                        found[d] = (_PerClass if kind == "per-class" else _Pooled)(n_classes, x.shape[1], kind)
                    found[d].add(x[part], y[part], each)
        return {d: found[d].finish(each) for d in sorted(found)}


class _workers:
    """A map over `number` threads that yields results in order; one thread is the caller's own."""

    def __init__(self, number: int) -> None:
        self._pool = ThreadPoolExecutor(number) if number > 1 else None
        self._number = number

    def __enter__(self) -> Each:
        return self._each

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _each(self, task: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        if self._pool is None:
            yield from map(task, items)
            return
        rest = iter(items)
        while wave := list(islice(rest, 4 * self._number)):  # so that few results wait at a time
            yield from self._pool.map(task, wave)


class _Domain:
    """The sums of one domain's samples, about the mean of its first ones."""

    def __init__(self, n_classes: int, p: int, kind: Covariance) -> None:
        with fits_memory(f"the second moments of {n_classes:,} classes in {p} dimensions"):
            self.count, self.sum = np.zeros(n_classes), np.zeros((n_classes, p))
            self.second = np.zeros((matrices(kind, n_classes), p, p))
        self.center: Float | None = None
        self._first: list[tuple[NDArray[Any], Int]] = []

    def add(self, x: NDArray[Any], y: Int, each: Each) -> None:
        self.count += np.bincount(y, minlength=len(self.count))
        if self.center is not None:
            self._fold(x, y, each)
            return
        self._first.append((x, y))
        if sum(len(y) for _, y in self._first) >= FIRST:
            self._begin(each)

    def _begin(self, each: Each) -> None:
        """Fix the center, which depends on the first samples alone and not on how they were cut."""
        x = np.concatenate([x[:FIRST] for x, _ in self._first])[:FIRST].astype(np.float64)
        self.center = x.mean(axis=0)
        first, self._first = self._first, []
        for x, y in first:
            self._fold(x, y, each)

    def finish(self, each: Each) -> SiteStatistics:
        """Return the statistics about the mean of all samples."""
        if self.center is None:
            self._begin(each)
        assert self.center is not None
        self._close(each)
        shift = self.sum.sum(axis=0) / self.count.sum()
        self._move(shift)
        self.sum -= self.count[:, None] * shift
        return SiteStatistics(self.count, self.sum, self.second, self.center + shift)

    def _fold(self, x: NDArray[Any], y: Int, each: Each) -> None:
        raise NotImplementedError

    def _close(self, each: Each) -> None:
        """Add the samples that did not fill a block."""
        raise NotImplementedError

    def _move(self, shift: Float) -> None:
        """Bring the second moments to the center plus `shift`, in place."""
        owners: Sequence[Any] = range(len(self.count)) if len(self.second) == len(self.count) else [slice(None)]
        for second, own in zip(self.second, owners, strict=False):
            cross = np.outer(self.sum[own].reshape(-1, len(shift)).sum(axis=0), shift)
            second -= cross + cross.T - self.count[own].sum() * np.outer(shift, shift)
            if not np.isfinite(second).all():
                raise GgeurError(
                    "The embeddings are so large that their squares overflow; scale them down.",
                    code="embeddings-overflow",
                )

    def _centred(self, x: NDArray[Any]) -> Float:
        assert self.center is not None
        with np.errstate(over="ignore", invalid="ignore"):  # said at the end, once
            return np.asarray(np.subtract(x, self.center, dtype=np.float64))


class _PerClass(_Domain):
    """A product of every block of one class."""

    def __init__(self, n_classes: int, p: int, kind: Covariance) -> None:
        super().__init__(n_classes, p, kind)
        self._rest: dict[int, NDArray[Any]] = {}  # of every class, what did not fill a block

    def _fold(self, x: NDArray[Any], y: Int, each: Each) -> None:
        order = np.argsort(y, kind="stable")
        classes, starts = np.unique(y[order], return_index=True)

        def one(item: tuple[int, Int]) -> None:
            c, samples = item
            rest = self._rest.pop(c, None)
            taken = 0
            if rest is not None:
                taken = min(BLOCK - len(rest), len(samples))
                rest = np.concatenate([rest, x[samples[:taken]]])
                if len(rest) == BLOCK:
                    self._product(c, rest)
                    rest = None
            while len(samples) - taken >= BLOCK:
                self._product(c, x[samples[taken : taken + BLOCK]])
                taken += BLOCK
            if taken < len(samples):
                rest = x[samples[taken:]]
            if rest is not None:
                self._rest[c] = rest

        for _ in each(one, zip(classes.tolist(), np.split(order, starts[1:]), strict=True)):
            pass

    def _product(self, c: int, x: NDArray[Any]) -> None:
        z = self._centred(x)
        with np.errstate(over="ignore", invalid="ignore"):
            self.sum[c] += z.sum(axis=0)
            self.second[c] += z.T @ z

    def _close(self, each: Each) -> None:
        for _ in each(lambda c: self._product(c, self._rest.pop(c)), sorted(self._rest)):
            pass


class _Pooled(_Domain):
    """A product of every block of samples, of whatever classes; or none, where means suffice."""

    def __init__(self, n_classes: int, p: int, kind: Covariance) -> None:
        super().__init__(n_classes, p, kind)
        self._rest: tuple[NDArray[Any], Int] | None = None

    def _fold(self, x: NDArray[Any], y: Int, each: Each) -> None:
        if self._rest is not None:
            x, y = np.concatenate([self._rest[0], x]), np.concatenate([self._rest[1], y])
        whole = len(y) // POOLED_BLOCK * POOLED_BLOCK
        self._blocks([(x[i : i + POOLED_BLOCK], y[i : i + POOLED_BLOCK]) for i in range(0, whole, POOLED_BLOCK)], each)
        self._rest = (x[whole:].copy(), y[whole:].copy()) if whole < len(y) else None

    def _blocks(self, blocks: Iterable[tuple[NDArray[Any], Int]], each: Each) -> None:
        def one(block: tuple[NDArray[Any], Int]) -> tuple[Int, Float, Float | None]:
            z = self._centred(block[0])
            order = np.argsort(block[1], kind="stable")
            classes, starts = np.unique(block[1][order], return_index=True)
            with np.errstate(over="ignore", invalid="ignore"):
                return classes, np.add.reduceat(z[order], starts, axis=0), z.T @ z if len(self.second) else None

        for classes, total, second in each(one, blocks):
            self.sum[classes] += total
            if second is not None:
                self.second[0] += second

    def _close(self, each: Each) -> None:
        if self._rest is not None:
            self._blocks([self._rest], each)
            self._rest = None
