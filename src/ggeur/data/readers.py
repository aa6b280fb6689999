"""Pictures with labels before they are embedded, and how a user's own folder of images becomes such a set."""

import os
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ggeur.core.errors import GgeurError, GgeurWarning
from ggeur.core.seeding import generator
from ggeur.data.files import cannot

Picture = bytes | NDArray[np.uint8]  # the content of an image file, or pixels (H, W) or (H, W, 3)
_LEFT_BY_THE_SYSTEM = {"thumbs.db", "desktop.ini"}  # besides hidden files


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
    """Pictures, read one by one, with what an EmbeddingTable says of its rows.

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

        `meta` is what a table says of where its rows come from.
        """
        parts = [(d, test, p) for d, split in enumerate(domains.values()) for test, p in enumerate(split) if p]
        tested = any(split.test is not None for split in domains.values())
        sizes = [len(p.items) for _, _, p in parts]
        return cls(
            items=[item for *_, p in parts for item in p.items],
            y=np.concatenate([p.y for *_, p in parts]).astype(np.int64),
            domain=np.repeat([d for d, _, _ in parts], sizes).astype(np.int64),
            class_names=tuple(class_names),
            domain_names=tuple(domains),
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
                "elsewhere set partition.share in the experiment."
            )
        if not 0 < share <= 1:
            raise GgeurError(f"The share is {share}; it must be above 0 and at most 1.")
        if share == 1:
            return self
        keep = self.test.copy()
        for d, name in enumerate(self.domain_names):
            rows = np.flatnonzero(~self.test & (self.domain == d))
            keep[generator(0, "share", name).permutation(rows)[: int(share * len(rows) + 1e-9)]] = True
        rows = np.flatnonzero(keep)
        return replace(
            self,
            items=[self.items[i] for i in rows.tolist()],
            y=self.y[rows],
            domain=self.domain[rows],
            test=self.test[rows],
            meta={**self.meta, "share": share},
        )


def pixels(images: NDArray[np.uint8], labels: NDArray[Any], where: str) -> Part:
    """A part of pictures that are in memory already: `images` with their `labels`; `where` is for messages."""
    items = [Item(f"{where}, image {i}", partial(images.__getitem__, i)) for i in range(len(images))]
    return Part(items, np.asarray(labels).astype(np.int64).ravel())


def picture_files(labelled: Iterable[tuple[Path, int]]) -> Part:
    """A part of image files, given as `labelled` paths; they are read when they are needed."""
    pairs = list(labelled)
    items = [Item(printable(path), path.read_bytes) for path, _ in pairs]
    return Part(items, np.array([label for _, label in pairs], np.int64))


def image_folder(root: Path) -> ImageSet:
    """The pictures of `root/<domain>/<class>/*` or `root/<class>/*`, in the order of their names."""
    class_names, domains = domain_folders(root)
    return ImageSet.of(class_names, domains, dataset=folder_name(root.resolve()))


def unlabelled(path: Path) -> list[Item]:
    """The picture at `path`, or all below that folder by name: to be labelled, so in whichever folders they lie."""
    if not path.is_dir():
        if not path.exists():
            raise GgeurError(f"There is no picture, folder or table {printable(path)}.")
        return [Item(printable(path), path.read_bytes)]
    found = list(_below(path))
    if not found:
        raise GgeurError(f"There are no pictures in {printable(path)}.")
    return [Item(printable(one.relative_to(path)), one.read_bytes) for one in found]


def is_unlabelled(path: Path) -> bool:
    """Whether `path` is a picture, or a folder of pictures that are not sorted into folders."""
    return path.is_file() or (path.is_dir() and bool(files(path)) and not folders(path))


def _below(path: Path) -> Iterator[Path]:
    yield from files(path)
    for folder in folders(path):
        yield from _below(folder)


def domain_folders(root: Path, rename: Callable[[str], str | None] = lambda name: name) -> DomainPictures:
    """Class names, and the pictures of `root/<domain>/<class>/*` or `root/<class>/*` by domain.

    Classes are those of all domains together: a site may lack some. `rename` gives the folder of a domain its name,
    or None to leave it out.
    """
    if not root.is_dir():
        raise GgeurError(f"There is no folder {printable(root)}.")
    tops = folders(root)
    with_folders = [top for top in tops if folders(top)]
    with_files = [top for top in tops if files(top)]
    if files(root) and not tops:
        raise GgeurError(f"{printable(root)} holds files and no class folders; sort the images into folders by class.")
    if with_folders and with_files:
        raise GgeurError(
            f"{printable(with_folders[0])} holds folders and {printable(with_files[0])} holds files; a root holds "
            "either <domain>/<class>/* or <class>/* throughout."
        )
    domains = {"all": tops}
    if with_folders:
        named = [(rename(folder_name(top)), top) for top in tops]
        domains = {name: folders(top) for name, top in named if name is not None}
    class_names = sorted({folder_name(f) for found in domains.values() for f in found})
    code = {name: c for c, name in enumerate(class_names)}
    splits = {name: Split(_class_folders(found, code)) for name, found in domains.items()}
    if not any(len(split.train.items) for split in splits.values()):
        raise GgeurError(
            f"There are no images in {printable(root)}; they belong in <domain>/<class>/ or <class>/ below it."
        )
    _tell_what_is_missing(splits, class_names)
    return tuple(class_names), splits


def _class_folders(found: Sequence[Path], code: Mapping[str, int]) -> Part:
    for folder in found:
        if deeper := folders(folder):
            raise GgeurError(f"{printable(deeper[0])} lies too deep; class folders hold images only.")
    return picture_files((path, code[folder_name(folder)]) for folder in found for path in files(folder))


def _tell_what_is_missing(splits: Mapping[str, Split], class_names: Sequence[str]) -> None:
    for domain, split in splits.items():
        absent = [class_names[c] for c in np.setdiff1d(np.arange(len(class_names)), split.train.y)]
        if absent:
            some = ", ".join(absent[:5]) + (f" and {len(absent) - 5} more" if len(absent) > 5 else "")
            place = f"Domain {domain} has" if len(splits) > 1 else "There are"
            warnings.warn(f"{place} no images of class {some}.", GgeurWarning, stacklevel=4)


def folders(path: Path) -> list[Path]:
    """The folders in `path` by name, hidden ones left out."""
    return sorted(p for p in _entries(path) if p.is_dir())


def files(path: Path) -> list[Path]:
    """The files in `path` by name, without hidden ones and what operating systems leave behind.

    All others count as images, so that a damaged or foreign one is reported and not passed over.
    """
    return sorted(p for p in _entries(path) if not p.is_dir() and p.name.lower() not in _LEFT_BY_THE_SYSTEM)


def _entries(path: Path) -> list[Path]:
    with cannot(f"read the folder {printable(path)}"):
        return [p for p in path.iterdir() if not p.name.startswith((".", "__MACOSX"))]


def folder_name(path: Path) -> str:
    """The name as text; one spelling of accents, whichever the file system prefers."""
    try:
        path.name.encode()
    except UnicodeEncodeError as error:
        raise GgeurError(f"The name of the folder {printable(path)} is not valid text; rename it.") from error
    return unicodedata.normalize("NFC", path.name)


def plain_name(name: str) -> str:
    """A name without case, blanks and punctuation: spellings of one folder differ in these."""
    return "".join(ch for ch in name.lower() if ch.isalnum())


def printable(path: Path) -> str:
    """A path as it can be printed, whatever bytes are in it."""
    return os.fsencode(path).decode(errors="replace")
