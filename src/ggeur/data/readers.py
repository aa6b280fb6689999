"""Read a user's own folder of images as a set of pictures, with labels or to be labelled."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from ggeur.data.image_set import DomainPictures, ImageSet, Item, Part, Picture, Split, pixels
from ggeur.stats.errors import GgeurError, GgeurWarning, nearest_file
from ggeur.stats.storage import cannot

__all__ = [  # what datasets of users' own look for here, too
    "DomainPictures",
    "ImageSet",
    "Item",
    "Part",
    "Picture",
    "Split",
    "domain_folders",
    "files",
    "folder_name",
    "folders",
    "image_folder",
    "is_unlabelled",
    "picture_files",
    "pixels",
    "plain_name",
    "printable",
    "unlabelled",
]

_LEFT_BY_THE_SYSTEM = {"thumbs.db", "desktop.ini"}  # besides hidden files


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
            raise GgeurError(
                f"There is no picture, folder or table {printable(path)}.{nearest_file(path)}",
                code="data-path-missing",
            )
        return [Item(printable(path), path.read_bytes)]
    found = list(_below(path))
    if not found:
        raise GgeurError(f"There are no pictures in {printable(path)}.", code="folder-without-images")
    return [Item(printable(one.relative_to(path)), one.read_bytes) for one in found]


def is_unlabelled(path: Path) -> bool:
    """Return whether `path` is a picture, or a folder of pictures that are not sorted into folders."""
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
        raise GgeurError(f"There is no folder {printable(root)}.", code="folder-missing")
    tops = folders(root)
    with_folders = [top for top in tops if folders(top)]
    with_files = [top for top in tops if files(top)]
    if files(root) and not tops:
        raise GgeurError(
            f"{printable(root)} holds files and no class folders; sort the images into folders by class.",
            code="folder-without-classes",
        )
    if with_folders and with_files:
        raise GgeurError(
            f"{printable(with_folders[0])} holds folders and {printable(with_files[0])} holds files; a root holds "
            "either <domain>/<class>/* or <class>/* throughout.",
            code="folder-layout-mixed",
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
            f"There are no images in {printable(root)}; they belong in <domain>/<class>/ or <class>/ below it.",
            code="folder-without-images",
        )
    _tell_what_is_missing(splits, class_names)
    return tuple(class_names), splits


def _class_folders(found: Sequence[Path], code: Mapping[str, int]) -> Part:
    for folder in found:
        if deeper := folders(folder):
            raise GgeurError(
                f"{printable(deeper[0])} lies too deep; class folders hold images only.", code="folder-too-deep"
            )
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
    """Return the name as text, or raise where it is none."""
    try:
        path.name.encode()
    except UnicodeEncodeError as error:
        raise GgeurError(
            f"The name of the folder {printable(path)} is not valid text; rename it.", code="folder-name-invalid"
        ) from error
    return path.name


def plain_name(name: str) -> str:
    """A name without case, blanks and punctuation: spellings of one folder differ in these."""
    return "".join(ch for ch in name.lower() if ch.isalnum())


def printable(path: Path) -> str:
    """A path as it can be printed, whatever bytes are in it."""
    return os.fsencode(path).decode(errors="replace")
