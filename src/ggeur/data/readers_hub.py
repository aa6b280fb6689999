"""Datasets through Hugging Face `datasets`, by their hub id; needs the extra `hf`."""

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ggeur.data.image_set import DomainPictures, Item, Part, Picture, Split
from ggeur.stats.errors import GgeurError, how_to_install


class Hub(NamedTuple):
    """The id of a dataset on the hub, and the names of its columns and splits."""

    id: str
    image: str = "image"
    label: str = "label"
    domain: str | None = None
    test: str | None = None
    config: str | None = None


def read_hub(hub: Hub, domain_names: Sequence[str]) -> DomainPictures:
    """Class names and, for each of `domain_names`, its pictures, from where `hub` says.

    They are downloaded by `datasets` unless it has them in its cache.
    """
    train = _load(hub, "train")
    names = _class_names(train, hub)
    if hub.domain is None:
        test = None if hub.test is None else _part(_load(hub, hub.test), hub, names)
        return names, {domain_names[0]: Split(_part(train, hub, names), test)}
    whole, of = _part(train, hub, names), np.array(train[hub.domain])
    domains = {}
    for name in domain_names:
        samples = np.flatnonzero(of == name)
        if not len(samples):
            raise GgeurError(
                f"The dataset {hub.id} has no domain {name}; it may have changed on the hub.",
                code="dataset-domain-missing",
            )
        domains[name] = Split(Part([whole.items[i] for i in samples.tolist()], whole.y[samples]))
    return names, domains


def _load(hub: Hub, split: str) -> Any:
    try:
        import datasets
    except ImportError as error:
        raise GgeurError(
            f"Reading {hub.id} from the Hugging Face hub needs an extra: {how_to_install('hf')}.", code="extra-missing"
        ) from error
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it tells of every retry
    try:
        samples = datasets.load_dataset(hub.id, hub.config, split=split)
        return samples.cast_column(hub.image, datasets.Image(decode=False))
    except Exception as error:  # its own types, the network's and pyarrow's
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise GgeurError(
            f"Cannot load {hub.id} ({split}) from the Hugging Face hub: {reason}.", code="dataset-hub-failed"
        ) from error


def _class_names(samples: Any, hub: Hub) -> tuple[str, ...]:
    names = getattr(samples.features[hub.label], "names", None)
    return tuple(names) if names is not None else tuple(map(str, sorted(set(samples[hub.label]))))


def _part(samples: Any, hub: Hub, names: Sequence[str]) -> Part:
    items = [Item(f"{hub.id}, image {i}", partial(_read, samples, i, hub.image)) for i in range(len(samples))]
    if hasattr(samples.features[hub.label], "names"):
        return Part(items, np.array(samples[hub.label], np.int64))
    code = {name: c for c, name in enumerate(names)}
    return Part(items, np.array([code[str(label)] for label in samples[hub.label]], np.int64))


def _read(samples: Any, i: int, column: str) -> Picture:
    image = samples[i][column]
    return image["bytes"] if image["bytes"] is not None else Path(image["path"]).read_bytes()
