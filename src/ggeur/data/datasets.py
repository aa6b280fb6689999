"""Datasets by name: the paper's, from native files or the hub, the built-in one, and a user's folder or function."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ggeur.data import readers_native as native
from ggeur.data.image_set import DomainPictures, ImageSet, Split, pixels
from ggeur.data.readers import domain_folders, folders, image_folder, plain_name, printable
from ggeur.data.readers_hub import Hub, read_hub
from ggeur.stats.custom import build_custom, is_custom, load_custom
from ggeur.stats.errors import GgeurError, nearest, nearest_file
from ggeur.stats.storage import packaged_toml

Recognise = Callable[[Path], bool]  # are the native files in this folder?
ReadFiles = Callable[[Path], DomainPictures]


class Source(NamedTuple):
    """One origin of pictures: native files, found by their names below a root, or the hub."""

    domains: tuple[str, ...]
    places: tuple[str, ...]  # folders to look in, as `plain_name` spells them
    get: str  # what to get, for a user who does not have it
    complete: Recognise
    read: ReadFiles
    hub: Hub | None = None


@dataclass(frozen=True)
class Dataset:
    """A dataset of the paper; `partition` is that of its experiments, `share` what is taken in advance."""

    name: str
    n_classes: int
    images: str
    sources: tuple[Source, ...]
    partition: Mapping[str, Any]
    share: float | None = None

    @property
    def domains(self) -> tuple[str, ...]:
        return tuple(domain for source in self.sources for domain in source.domains)


def _source(name: str, entry: Mapping[str, Any]) -> Source:
    domains = entry["domains"]
    complete, read = _tree(domains) if isinstance(domains, dict) else _single_domain(name, domains[0], entry)
    hub = Hub(**entry["hub"]) if "hub" in entry else None
    return Source(tuple(domains), tuple(entry["places"]), entry["get"], complete, read, hub)


def _single_domain(reader: str, domain: str, entry: Mapping[str, Any]) -> tuple[Recognise, ReadFiles]:
    """How to recognise and read native files that are one domain."""

    def complete(folder: Path) -> bool:
        return all((folder / name).is_file() for name in entry["files"])

    def read(folder: Path) -> DomainPictures:
        class_names, split = getattr(native, reader)(folder)
        return class_names, {domain: split}

    # Two come under more names than a list of files can say.
    return {"mnist": native.has_mnist, "syn": native.has_syn}.get(reader, complete), read


def _tree(domains: Mapping[str, Sequence[str]]) -> tuple[Recognise, ReadFiles]:
    """How to recognise and read `<domain>/<class>/*`; each domain with other spellings of its folder."""
    names = {plain_name(spelling): name for name, others in domains.items() for spelling in (name, *others)}

    def complete(folder: Path) -> bool:
        return {names.get(plain_name(child.name)) for child in folders(folder)}.issuperset(domains)

    def read(folder: Path) -> DomainPictures:
        return domain_folders(folder, lambda name: names.get(plain_name(name)))

    return complete, read


def _load() -> dict[str, Dataset]:
    tree = packaged_toml("data", "paper_datasets.toml")
    sources = {name: _source(name, entry) for name, entry in tree["sources"].items()}
    return {
        name: Dataset(name, **{**entry, "sources": tuple(sources[source] for source in entry["sources"])})
        for name, entry in tree["datasets"].items()
    }


DATASETS = _load()


MINI_DIGITS = "mini-digits"  # built in


def load(source: str, data: Path | None = None, share: float | None = None) -> ImageSet:
    """Return the dataset that `source` names: one of ours, a folder of images, or a user's own function.

    One of ours is looked up in its native files below `data` (default: $GGEUR_DATA), else on the hub; a function is
    package.module:name, () -> ImageSet. `share` of the training pictures replaces the paper's.
    """
    if source == MINI_DIGITS:
        images = _mini_digits()
    elif source in DATASETS:
        images = _read(DATASETS[source], dataset_root(data))
        share = DATASETS[source].share if share is None else share
    elif Path(source).is_dir():
        images = image_folder(Path(source))
    elif is_custom(source) and not os.path.dirname(source):
        images = _own(source)
    else:
        known = ", ".join((*DATASETS, MINI_DIGITS))
        close = nearest(source, (*DATASETS, MINI_DIGITS)) or nearest_file(Path(source))
        raise GgeurError(
            f"'{source}' is neither a dataset nor a folder of images.{close} Datasets are {known}, or your own as "
            "package.module:name.",
            code="dataset-unknown",
        )
    return images if share is None else images.take(share)


def dataset_root(data: Path | None) -> Path | None:
    """Return the folder where native files are looked for: `given`, or $GGEUR_DATA."""
    given = data or (Path(os.environ["GGEUR_DATA"]) if os.environ.get("GGEUR_DATA") else None)
    if given is not None and not given.is_dir():
        raise GgeurError(f"There is no folder {printable(given)} to look for datasets in.", code="folder-missing")
    return given


def paper_partition(name: str) -> dict[str, Any]:
    """Return [partition] as the paper has it for this dataset; empty for one that the paper does not know."""
    return dict(DATASETS[name].partition) if name in DATASETS else {}


def find(source: Source, below: Path | None) -> Path | None:
    """Return the folder with a source's native files: `below` itself, or one in it under a name that is in use."""
    if below is None:
        return None
    named = [child for child in folders(below) if plain_name(child.name) in source.places]
    inner = [child for folder in named for child in folders(folder)][:100]
    deeper = [child for folder in inner if plain_name(folder.name) in source.places for child in folders(folder)][:100]
    return next((folder for folder in (below, *named, *inner, *deeper) if source.complete(folder)), None)


def _read(dataset: Dataset, below: Path | None) -> ImageSet:
    class_names: tuple[str, ...] = ()
    domains: dict[str, Split] = {}
    for source in dataset.sources:
        folder = find(source, below)
        if folder is not None:
            names, found = source.read(folder)
        elif source.hub is not None:
            names, found = _from_hub(dataset, source, below)
        else:
            raise GgeurError(_not_found(dataset, source, below), code="dataset-not-found")
        if class_names and names != class_names:
            raise GgeurError(
                f"The domains of {dataset.name} have different classes; one of them is another dataset.",
                code="dataset-classes-differ",
            )
        class_names = names
        domains |= found
    images = ImageSet.of(class_names, {name: domains[name] for name in dataset.domains}, dataset=dataset.name)
    if len(class_names) != dataset.n_classes or not len(images):
        raise GgeurError(
            f"{dataset.name} has {dataset.n_classes} classes, but {len(class_names)} were found with {len(images)} "
            "images; the files are not complete.",
            code="dataset-incomplete",
        )
    return images


def _from_hub(dataset: Dataset, source: Source, below: Path | None) -> DomainPictures:
    assert source.hub is not None
    try:
        return read_hub(source.hub, source.domains)
    except GgeurError as error:
        raise GgeurError(f"{_not_found(dataset, source, below)} {error}", code="dataset-not-found") from error


def _not_found(dataset: Dataset, source: Source, below: Path | None) -> str:
    what = dataset.name if len(dataset.sources) == 1 else f"{source.domains[0]}, a domain of {dataset.name},"
    where = f"in {printable(below)}" if below is not None else "because neither --data nor $GGEUR_DATA names a folder"
    return f"{what} was not found {where}: get {source.get}."


def _own(source: str) -> ImageSet:
    images = build_custom(source, "dataset", load_custom(source, "dataset", ()))
    if not isinstance(images, ImageSet):
        raise GgeurError(
            f"'{source}' is not a dataset: called without arguments it must return a ggeur ImageSet.",
            code="custom-dataset-type",
        )
    samples = [images.y, images.domain, *([] if images.test is None else [images.test])]
    if any(np.shape(values) != (len(images),) for values in samples):
        raise GgeurError(
            f"The dataset '{source}' has {len(images)} images, and its labels or domains are not as many.",
            code="dataset-labels-mismatch",
        )
    return replace(images, meta={"dataset": source, **images.meta})


def _mini_digits() -> ImageSet:
    from ggeur.data import digits

    images = digits.images()
    domains = {
        name: Split(pixels(images.x[images.domain == d], images.y[images.domain == d], name))
        for d, name in enumerate(images.domain_names)
    }
    return ImageSet.of(images.class_names, domains, dataset=MINI_DIGITS)
