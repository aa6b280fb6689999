"""The paper's datasets, from `paper_datasets.toml`: how their files are recognised and which reader reads them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ggeur.core.packaged import packaged_toml
from ggeur.data import readers_native as native
from ggeur.data.image_set import DomainPictures
from ggeur.data.readers import domain_folders, folders, plain_name
from ggeur.data.readers_hub import Hub

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
