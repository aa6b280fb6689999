"""Pictures with labels before they are embedded: an ImageSet, and what it is put together from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ggeur.stats.errors import GgeurError
from ggeur.stats.seeding import generator
from ggeur.stats.validate import check_is, check_labels, check_share, check_whole

Picture = bytes | NDArray[np.uint8]  # the content of an image file, or pixels (H, W) or (H, W, 3)


class Item(NamedTuple):
    """One picture: where it is, for messages, and how to read it."""

    where: str
    read: Callable[[], Picture]


class Part(NamedTuple):
    """Pictures and their labels."""

    items: Sequence[Item]
    y: NDArray[np.int64]


class Split(NamedTuple):
    """A domain: its training pictures and, where there is an official one, its test set."""

    train: Part
    test: Part | None = None


DomainPictures = tuple[tuple[str, ...], dict[str, Split]]  # class names, and the pictures by domain


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Pictures, read one by one, with what an EmbeddingTable says of its samples.

    >>> black = Item("a black picture", lambda: np.zeros((8, 8, 3), np.uint8))
    >>> set_ = ImageSet.of(["night"], {"street": Split(Part([black], np.array([0])))})
    >>> len(set_), set_.domain_names
    (1, ('street',))
    """

    items: Sequence[Item]
    y: NDArray[np.int64]
    domain: NDArray[np.int64]
    class_names: tuple[str, ...]
    domain_names: tuple[str, ...]
    test: NDArray[np.bool_] | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.items)

    @classmethod
    def of(cls, class_names: Sequence[str], domains: Mapping[str, Split], **meta: Any) -> Self:
        """The set of these `class_names` and `domains`, by name: domain after domain, training before test pictures.

        `meta` is what a table says of where its samples come from.
        """
        names = check_is("class_names", class_names, Sequence | np.ndarray, "a list of names")
        for domain, split in check_is("domains", domains, Mapping, "a mapping of names to Splits").items():
            _check_split(f"The domain {domain}", split, len(names))
        parts = [(d, test, p) for d, split in enumerate(domains.values()) for test, p in enumerate(split) if p]
        if not any(len(p.items) for *_, p in parts):
            raise GgeurError("There are no pictures: the domains are empty.", code="dataset-without-images")
        tested = any(split.test is not None for split in domains.values())
        sizes = [len(p.items) for _, _, p in parts]
        return cls(
            items=[item for *_, p in parts for item in p.items],
            y=np.concatenate([p.y for *_, p in parts]).astype(np.int64),
            domain=np.repeat([d for d, _, _ in parts], sizes).astype(np.int64),
            class_names=tuple(map(str, names)),
            domain_names=tuple(map(str, domains)),
            test=np.repeat([bool(t) for _, t, _ in parts], sizes) if tested else None,
            meta=meta,
        )

    def take(self, share: float) -> Self:
        """This `share` of each domain's training pictures, drawn once and for all, and every test picture.

        The meta remembers it, so that a partition does not take its share twice.
        """
        if self.test is None:
            raise GgeurError(
                "A share can be taken in advance only of a dataset with a test set of its own; "
                "elsewhere set partition.share in the experiment.",
                code="dataset-without-test-set",
            )
        if check_share("share", share) == 1:
            return self
        keep = self.test.copy()
        for d, name in enumerate(self.domain_names):
            samples = np.flatnonzero(~self.test & (self.domain == d))
            keep[generator(0, "share", name).permutation(samples)[: int(share * len(samples) + 1e-9)]] = True
        samples = np.flatnonzero(keep)
        return replace(
            self,
            items=[self.items[i] for i in samples.tolist()],
            y=self.y[samples],
            domain=self.domain[samples],
            test=self.test[samples],
            meta={**self.meta, "share": share},
        )

    def shard(self, number: int, of: int) -> Self:
        """Return the pictures of one shard, `number` from 1 to `of`; shards one after the other are the whole set."""
        own = shard_of(len(self), number, of)
        return replace(
            self,
            items=self.items[own],
            y=self.y[own],
            domain=self.domain[own],
            test=None if self.test is None else self.test[own],
        )


def shard_of(samples: int, number: int, of: int) -> slice:
    """Return which of so many samples are those of the shard `number`, from 1 to `of`.

    >>> [shard_of(10, number, 3) for number in (1, 2, 3)]
    [slice(0, 3, None), slice(3, 6, None), slice(6, 10, None)]
    """
    check_whole("number", number, most=check_whole("of", of))
    own = slice(samples * (number - 1) // of, samples * number // of)
    if own.start == own.stop:
        raise GgeurError(f"Shard {number} of {of} is empty: there are {samples} pictures.", code="shard-empty")
    return own


def pixels(images: NDArray[np.uint8], labels: NDArray[Any], where: str) -> Part:
    """A part of pictures that are in memory already: `images` with their `labels`; `where` is for messages."""
    items = [Item(f"{where}, image {i}", partial(images.__getitem__, i)) for i in range(len(images))]
    return Part(items, np.asarray(labels).astype(np.int64).ravel())


def _check_split(whose: str, split: Any, classes: int) -> None:
    """GgeurError unless `split` is one, of pictures with a label each out of so many `classes`."""
    check_is(whose, split, Split, "a Split of one or two Parts")
    for part in [split.train] if split.test is None else split:
        check_is(f"{whose} has a part that", part, Part, "a Part of pictures and labels")
        items = check_is(f"{whose} has pictures that", part.items, Sequence, "a list of Items")
        for item in items:
            check_is(f"{whose} has a picture that", item, Item, "an Item: where it is, and how to read it")
        check_labels(part.y, classes, samples=len(items), name=f"of {whose}")
