"""Datasets by name: the paper's, from native files or the hub, the built-in one, and a user's folder or function."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ggeur.core.custom import build_custom, is_custom, load_custom
from ggeur.core.errors import GgeurError
from ggeur.core.suggestions import nearest
from ggeur.data.datasets_paper import DATASETS, Dataset, Source
from ggeur.data.image_set import DomainPictures, ImageSet, Split, pixels
from ggeur.data.readers import folders, image_folder, plain_name, printable
from ggeur.data.readers_hub import read_hub

MINI_DIGITS = "mini-digits"  # built in


def load(source: str, data: Path | None = None, share: float | None = None) -> ImageSet:
    """Return the dataset that `source` names: one of ours, a folder of images, or a user's own function.

    One of ours is looked up in its native files below `data` (default: $GGEUR_DATA), else on the hub; a function is
    package.module:name, () -> ImageSet. `share` of the training pictures replaces the paper's.
    """
    if source == MINI_DIGITS:
        images = _mini_digits()
    elif source in DATASETS:
        images = _read(DATASETS[source], root(data))
        share = DATASETS[source].share if share is None else share
    elif Path(source).is_dir():
        images = image_folder(Path(source))
    elif is_custom(source) and not os.path.dirname(source):
        images = _own(source)
    else:
        known, close = ", ".join((*DATASETS, MINI_DIGITS)), nearest(source, (*DATASETS, MINI_DIGITS))
        raise GgeurError(
            f"'{source}' is neither a dataset nor a folder of images.{close} Datasets are {known}, or your own as "
            "package.module:name.",
            code="dataset-unknown",
        )
    return images if share is None else images.take(share)


def root(data: Path | None) -> Path | None:
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
    from ggeur.demo import digits

    images = digits.images()
    domains = {
        name: Split(pixels(images.x[images.domain == d], images.y[images.domain == d], name))
        for d, name in enumerate(images.domain_names)
    }
    return ImageSet.of(images.class_names, domains, dataset=MINI_DIGITS)
