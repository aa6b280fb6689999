"""Statistics of samples that come in pieces: the same bits however they are cut into pieces, files or workers.

A class's samples are taken in the order in which they come, in blocks of a fixed size whose products are added up from
left to right. Workers take whole classes, or for pooled moments whole blocks, so no sum depends on their number. What
is held in memory is the statistics, less than a block of each class, and the piece at hand.
"""

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import islice
from queue import Full, Queue
from threading import Event, Thread
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from ggeur.stats.errors import GgeurError
from ggeur.stats.site_statistics import Covariance, SiteStatistics, matrices
from ggeur.stats.types import Float, Int
from ggeur.stats.validate import fits_memory

BLOCK = 256  # samples of one class in a product: their float64 copy stays in the processor's cache
POOLED_BLOCK = 1024  # samples of any class in a product
FIRST = 1024  # samples of a domain whose mean its moments are formed about, until the mean of all is known
_SHARES = 32  # tasks into which the classes of a piece are split
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
    pieces: Iterable[Piece], n_classes: int, kind: Covariance, *, workers: int = 0, small: bool = True
) -> dict[int, SiteStatistics]:
    """Return the statistics of every domain in `pieces`, with moments about the mean of its samples.

    Parameters
    ----------
    pieces : finite samples in the order of their files; how they are cut does not matter to a bit.
    n_classes : how many classes there are, present or not.
    kind : second moments "per-class", "pooled" over the classes, or "none".
    workers : threads that form the products; 0: one for each processor. Their number does not matter to a bit.
    small : whether the second moments of classes with at most p samples are needed; else theirs mean nothing.

    >>> x, y, d = np.eye(4), np.array([0, 1, 1, 0]), np.zeros(4, int)
    >>> streamed_statistics([Piece(x[:1], y[:1], d[:1]), Piece(x[1:], y[1:], d[1:])], 2, "per-class")[0].count
    array([2., 2.])
    """
    found: dict[int, _Domain] = {}
    with threadpool_limits(1), _workers(workers or default_workers()) as each, closing(_ahead(pieces)) as read:
        for x, y, domain in read:
            for d in np.unique(domain).tolist():
                samples = np.flatnonzero(domain == d)
                whole = len(samples) == len(x)
                for at in range(0, len(samples), _PIECE):
                    part = slice(at, at + _PIECE) if whole else samples[at : at + _PIECE]
                    if d not in found:
                        found[d] = (_PerClass if kind == "per-class" else _Pooled)(n_classes, x.shape[1], kind, small)
                    found[d].add(x[part], y[part], each)
        return {d: found[d].finish(each) for d in sorted(found)}


def _ahead(pieces: Iterable[Piece]) -> Generator[Piece]:
    """Yield the same pieces, of which one is read while the one before is worked on."""
    if isinstance(pieces, list | tuple):
        yield from pieces
        return
    waiting: Queue[Piece | BaseException | None] = Queue(1)
    stopped = Event()

    def put(one: Piece | BaseException | None) -> None:
        while not stopped.is_set():
            with suppress(Full):
                waiting.put(one, timeout=0.1)
                return

    def read() -> None:
        try:
            for piece in pieces:
                put(piece)
                if stopped.is_set():
                    return
            put(None)
        except BaseException as error:
            put(error)

    thread = Thread(target=read, daemon=True)
    thread.start()
    try:
        while (one := waiting.get()) is not None:
            if isinstance(one, BaseException):
                raise one
            yield one
    finally:
        stopped.set()
        thread.join()


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

    def __init__(self, n_classes: int, p: int, kind: Covariance, small: bool) -> None:
        self._most = 0 if small else p  # samples of a class whose second moments are not needed
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
        self._move(shift, each)
        self.sum -= self.count[:, None] * shift
        try:
            return SiteStatistics(self.count, self.sum, self.second, self.center + shift)
        except GgeurError as error:
            raise GgeurError(
                "The embeddings are so large that their squares overflow; scale them down.", code="embeddings-overflow"
            ) from error

    def _fold(self, x: NDArray[Any], y: Int, each: Each) -> None:
        raise NotImplementedError

    def _close(self, each: Each) -> None:
        """Add the samples that did not fill a block."""
        raise NotImplementedError

    def _move(self, shift: Float, each: Each) -> None:
        """Bring the second moments to the center plus `shift`, in place."""
        per_class = len(self.second) == len(self.count)

        def one(i: int) -> None:
            count, total = (self.count[i], self.sum[i]) if per_class else (self.count.sum(), self.sum.sum(axis=0))
            with np.errstate(over="ignore", invalid="ignore"):  # said by the caller, once
                cross = np.outer(total - count / 2 * shift, shift)
                self.second[i] -= cross
                self.second[i] -= cross.T

        for _ in each(one, np.flatnonzero(self.count > self._most) if per_class else range(len(self.second))):
            pass

    def _centred(self, x: NDArray[Any]) -> Float:
        assert self.center is not None
        with np.errstate(over="ignore", invalid="ignore"):  # said at the end, once
            return np.asarray(np.subtract(x, self.center, dtype=np.float64))


class _PerClass(_Domain):
    """A product of every block of one class."""

    def __init__(self, n_classes: int, p: int, kind: Covariance, small: bool) -> None:
        super().__init__(n_classes, p, kind, small)
        self._block: dict[int, NDArray[Any]] = {}  # of every class, (BLOCK, p)
        self._filled = np.zeros(n_classes, np.int64)  # how much of it is taken

    def _fold(self, x: NDArray[Any], y: Int, each: Each) -> None:
        order = np.argsort(y, kind="stable")
        classes, starts = np.unique(y[order], return_index=True)
        groups = sorted(zip(classes.tolist(), np.split(order, starts[1:]), strict=True), key=lambda g: -len(g[1]))

        def some(number: int) -> None:
            for c, samples in groups[number::_SHARES]:
                self._take(c, x, samples)

        for _ in each(some, range(min(_SHARES, len(groups)))):
            pass

    def _take(self, c: int, x: NDArray[Any], samples: Int) -> None:
        """Add these samples of class `c`, which come after all before, and form the products of full blocks."""
        block = self._block.get(c)
        if block is None or block.dtype != x.dtype:  # of several files, one may have float16 and another float32
            wide = x.dtype if block is None else np.result_type(block, x)
            made = np.empty((BLOCK, x.shape[1]), wide)
            if block is not None:
                made[: self._filled[c]] = block[: self._filled[c]]
            self._block[c] = block = made
        filled, taken = int(self._filled[c]), 0
        while taken < len(samples):
            if not filled and len(samples) - taken >= BLOCK:
                self._product(c, x[samples[taken : taken + BLOCK]])
                taken += BLOCK
                continue
            n = min(BLOCK - filled, len(samples) - taken)
            block[filled : filled + n] = x[samples[taken : taken + n]]
            filled, taken = filled + n, taken + n
            if filled == BLOCK:
                self._product(c, block)
                filled = 0
        self._filled[c] = filled

    def _product(self, c: int, x: NDArray[Any]) -> None:
        z = self._centred(x)
        with np.errstate(over="ignore", invalid="ignore"):
            self.sum[c] += z.sum(axis=0)
            if self.count[c] > self._most or len(z) == BLOCK:  # while samples come, their number is not known
                self.second[c] += z.T @ z

    def _close(self, each: Each) -> None:
        for _ in each(
            lambda c: self._product(c, self._block[c][: self._filled[c]]), np.flatnonzero(self._filled).tolist()
        ):
            pass


class _Pooled(_Domain):
    """A product of every block of samples, of whatever classes; or none, where means suffice."""

    def __init__(self, n_classes: int, p: int, kind: Covariance, small: bool) -> None:
        super().__init__(n_classes, p, kind, small)
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
            marks = csr_array((np.ones(len(z)), order, np.append(starts, len(z))), (len(classes), len(z)))
            with np.errstate(over="ignore", invalid="ignore"):
                return classes, marks @ z, z.T @ z if len(self.second) else None

        for classes, total, second in each(one, blocks):
            self.sum[classes] += total
            if second is not None:
                self.second[0] += second

    def _close(self, each: Each) -> None:
        if self._rest is not None:
            self._blocks([self._rest], each)
            self._rest = None
