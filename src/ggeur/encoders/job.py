"""Embedding as a job: batch after batch through the encoder while threads read ahead; what is cached is not redone."""

import os
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from ggeur.data.image_set import ImageSet, Item, Picture
from ggeur.data.image_table import ImageTable
from ggeur.data.table import EmbeddingTable
from ggeur.encoders.builtin import Pixels
from ggeur.encoders.cache import EmbeddingCache, digest_of
from ggeur.encoders.encoder import Encoder, TextEncoder, about
from ggeur.encoders.pictures import Unreadable, to_rgb
from ggeur.encoders.prompts import Prompts, prompt_sets
from ggeur.stats.errors import GgeurError, GgeurWarning
from ggeur.stats.types import FloatArray

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


BATCH = 64
OnBatch = Callable[[int, int], None]  # images done, how many of them were computed just now


class EmbeddingResult(NamedTuple):
    """A table, and the pictures that could not be read, with the reason."""

    table: EmbeddingTable
    unreadable: list[str]


class Encoded(NamedTuple):
    """Embeddings `x` (n, p) of the items at `samples`, and the unreadable others with the reason."""

    x: FloatArray
    samples: NDArray[np.int64]
    unreadable: list[str]


class Unkept(dict[bytes, FloatArray]):
    """A store in memory, in place of a cache."""

    def put(self, digests: Sequence[bytes], x: FloatArray) -> None:
        """As a cache has it."""
        self.update(zip(digests, x, strict=True))


class _PreparedPicture(NamedTuple):
    """Return what a reading thread makes of a picture: its digest and, unless the cache has it, the encoder's input."""

    digest: bytes
    prepared: FloatArray | None


def embed(
    images: ImageSet,
    encoder: Encoder,
    *,
    batch: int = BATCH,
    skip_unreadable: bool = False,
    prompts: Mapping[str, Prompts] | None = None,
    cache: Path | None = None,
    on_batch: OnBatch | None = None,
) -> EmbeddingResult:
    """Return the pictures of `images` as an EmbeddingTable, by this `encoder`, `batch` of them at a time.

    Finished batches are kept in the cache at once, so that a run that was interrupted goes on where it stopped, and a
    second one does not call the encoder. A picture that cannot be read is an error, or with `skip_unreadable` is
    left out and listed. `prompts`, by name, are for an encoder with a text tower; each gives the table a set of text
    (default: the usual ones). `cache` is another folder than the usual one; `on_batch` is told the progress. The
    encoder `pixels` gives an ImageTable, and is not cached.
    """
    if prompts and not _speaks(encoder):
        raise GgeurError(
            f"The encoder {encoder.name} has no text tower to read prompts with; do without, or take CLIP or its like.",
            code="encoder-without-text-tower",
        )
    if isinstance(encoder, Pixels):
        return _image_table(images, encoder, batch, skip_unreadable, on_batch)
    store = EmbeddingCache(encoder, cache)
    found = encode_items(images.items, encoder, store, batch=batch, skip_unreadable=skip_unreadable, on_batch=on_batch)
    return EmbeddingResult(_table(found.x, found.samples, images, encoder, prompts), found.unreadable)


def encode_items(
    items: Sequence[Item],
    encoder: Encoder,
    store: EmbeddingCache | Unkept,
    *,
    batch: int = BATCH,
    skip_unreadable: bool = False,
    on_batch: OnBatch | None = None,
) -> Encoded:
    """Embed the pictures `items`, but for those that the `store` has; the other parameters are those of `embed`."""
    if batch < 1:
        raise GgeurError(f"The batch is {batch}; it must be at least 1.", code="encoder-batch-invalid")
    digests: list[bytes | None] = []  # None: unreadable
    unreadable: list[str] = []
    waiting: dict[bytes, FloatArray] = {}  # by digest: a picture that comes twice is embedded once
    stack = _Stack(batch)
    computed = 0

    def flush() -> None:
        nonlocal computed
        if waiting:
            computed += len(waiting)
            store.put(list(waiting), _checked(encoder.forward(stack(waiting.values())), encoder))
            waiting.clear()
        if on_batch is not None:
            on_batch(len(digests), computed)

    for item, future in read_ahead(items, partial(_prepare, encoder=encoder, store=store), batch):
        try:
            picture = future.result()
        except Unreadable as error:
            if not skip_unreadable:
                flush()  # what was decoded is not lost
                raise cannot_read(item, error) from error
            unreadable.append(f"{item.where}: {error}")
            digests.append(None)
            continue
        digests.append(picture.digest)
        if picture.prepared is not None and picture.digest not in store:
            waiting[picture.digest] = picture.prepared
        if len(waiting) == batch or len(digests) % (16 * batch) == 0:
            flush()
    flush()
    samples = np.array([i for i, digest in enumerate(digests) if digest is not None], np.int64)
    if not len(samples):
        raise GgeurError("None of the images could be read.", code="image-none-readable")
    x = np.stack([store[digest] for digest in digests if digest is not None])
    return Encoded(x, samples, unreadable)


def _image_table(
    images: ImageSet, encoder: Pixels, batch: int, skip_unreadable: bool, on_batch: OnBatch | None
) -> EmbeddingResult:
    """Return the pictures themselves, which are quicker read again than kept twice."""
    x = np.empty((len(images), encoder.side, encoder.side, 3), np.uint8)
    samples: list[int] = []
    unreadable: list[str] = []
    for i, (item, future) in enumerate(read_ahead(images.items, partial(_picture, encoder=encoder), batch)):
        try:
            x[len(samples)] = future.result()
            samples.append(i)
        except Unreadable as error:
            if not skip_unreadable:
                raise cannot_read(item, error) from error
            unreadable.append(f"{item.where}: {error}")
        if on_batch is not None and ((i + 1) % batch == 0 or i + 1 == len(images)):
            on_batch(i + 1, len(samples))
    if not samples:
        raise GgeurError("None of the images could be read.", code="image-none-readable")
    return EmbeddingResult(ImageTable(**_columns(x[: len(samples)], np.array(samples), images, encoder)), unreadable)


class _Stack:
    """Prepared images as one array, in memory that serves batch after batch: fresh pages cost more than the copy."""

    def __init__(self, batch: int) -> None:
        self._batch = batch
        self._memory: FloatArray | None = None

    def __call__(self, prepared: Iterable[FloatArray]) -> FloatArray:
        images = list(prepared)
        if self._memory is None:
            self._memory = np.empty((self._batch, *images[0].shape), np.float32)
        return np.stack(images, out=self._memory[: len(images)])


def _prepare(item: Item, encoder: Encoder, store: EmbeddingCache | Unkept) -> _PreparedPicture:
    picture = read_item(item)
    digest = digest_of(picture)
    return _PreparedPicture(digest, None if digest in store else encoder.prepare(to_rgb(picture)))


def _picture(item: Item, encoder: Pixels) -> NDArray[np.uint8]:
    return encoder.picture(to_rgb(read_item(item)))


def _checked(x: NDArray[np.float32], encoder: Encoder) -> FloatArray:
    """Kept out of the cache: whatever is not one finite vector of the right length per image."""
    if x.ndim != 2 or x.shape[1] != encoder.dimension or not np.isfinite(x).all():
        raise GgeurError(
            f"The encoder {encoder.name} gave infinite or NaN embeddings; its weights may be damaged.",
            code="encoder-output-not-finite",
        )
    return x


def _speaks(encoder: Encoder) -> TypeGuard[TextEncoder]:
    return isinstance(encoder, TextEncoder) and encoder.has_text


def _table(
    x: FloatArray, samples: NDArray[np.int64], images: ImageSet, encoder: Encoder, prompts: Mapping[str, Prompts] | None
) -> EmbeddingTable:
    table = EmbeddingTable(**_columns(x, samples, images, encoder))
    if not _speaks(encoder):
        return table
    sets = prompt_sets() if prompts is None else prompts
    try:
        text = {name: encoder.encode_text(p.names(images.class_names), p.templates) for name, p in sets.items()}
    except GgeurError as error:
        warnings.warn(f"The table has no text embeddings: {error}", GgeurWarning, stacklevel=3)
        return table
    templates = {name: list(p.templates) for name, p in sets.items()}
    return replace(table, text=text, meta={**table.meta, "templates": templates})


def _columns(x: NDArray[Any], samples: NDArray[np.int64], images: ImageSet, encoder: Encoder) -> dict[str, Any]:
    """Return the table's arrays for the pictures `samples`, whose embeddings are `x`."""
    return {
        "x": x,
        "y": images.y[samples],
        "domain": images.domain[samples],
        "test": None if images.test is None else images.test[samples],
        "class_names": images.class_names,
        "domain_names": images.domain_names,
        "path": tuple(images.items[i].where for i in samples),
        "meta": {**images.meta, **about(encoder)},
    }
