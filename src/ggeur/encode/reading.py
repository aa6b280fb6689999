"""Pictures read ahead: threads read and prepare what comes next while the encoder is at work."""

import os
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from ggeur.core.errors import GgeurError
from ggeur.data.image_set import Item, Picture
from ggeur.encode.pictures import Unreadable

_AHEAD = 3  # batches that may be read, decoded and waiting
Prepared = TypeVar("Prepared")


def read_ahead(
    items: Sequence[Item], prepare: Callable[[Item], Prepared], batch: int
) -> Iterator[tuple[Item, Future[Prepared]]]:
    """The items in order, read and prepared by threads, never more than a few batches ahead."""
    # Decoding releases the interpreter's lock and reading waits for disks, so both gain from threads; more than there
    # are cores would only take turns with an encoder that runs on the same.
    pool = ThreadPoolExecutor(max(2, min(8, os.cpu_count() or 1)), "ggeur-read")
    queue: deque[tuple[Item, Future[Prepared]]] = deque()
    with pool, warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="PIL")  # what it cannot read is reported by us
        try:
            for item in items:
                queue.append((item, pool.submit(prepare, item)))
                if len(queue) > _AHEAD * batch:
                    yield queue.popleft()
            yield from queue
        finally:
            pool.shutdown(cancel_futures=True)


def read_item(item: Item) -> Picture:
    """The content of a picture; Unreadable where it cannot be had."""
    try:
        return item.read()
    except OSError as error:
        raise Unreadable(error.strerror or str(error), code="image-unreadable") from error


def cannot_read(item: Item, error: Unreadable) -> GgeurError:
    """Return the error for a picture that ends the job."""
    advice = "mend or remove it, or skip it with --skip-unreadable"
    return GgeurError(f"Cannot read the image {item.where}: {error}; {advice}.", code="image-unreadable")
