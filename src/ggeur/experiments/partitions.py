"""Who holds which samples of a table; and, with [partition] validation, which of them are scored in place of test
samples.
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from ggeur.data import partition
from ggeur.data.datasets import MINI_DIGITS, load
from ggeur.data.image_table import load_any
from ggeur.data.readers_native import as_benchmark
from ggeur.data.table import EmbeddingTable
from ggeur.experiments.settings import Data, Partition
from ggeur.federation.folds import ValidationSplit, validation_split
from ggeur.federation.local_federation import LocalFederation
from ggeur.stats.errors import GgeurError, GgeurWarning
from ggeur.stats.types import Int


def partition_samples(table: EmbeddingTable, p: Partition, seed: int) -> list[Int]:
    """Each client's samples of a table that has been split, without those that are left out."""
    parts = client_samples(table, p, seed)
    return validation_of(table, parts, seed).kept if p.validation else parts


def client_samples(table: EmbeddingTable, p: Partition, seed: int) -> list[Int]:
    """Each client's samples of a table that has been split, with those that would be left out."""
    if p.kind == "dirichlet":
        return partition.dirichlet(
            table.y, p.clients, p.beta, min_per_class=p.min_per_class, test=table.test, seed=seed
        )
    if p.kind == "domain":
        taken = table.meta.get("share")
        if not (taken is None or (isinstance(taken, int | float) and 0 < taken <= 1)):
            raise GgeurError(
                f"The table's meta says share = {taken!r}; it must be a number above 0 and at most 1.",
                code="table-share-invalid",
            )
        return partition.by_domain(table.domains, share=p.share, taken=taken, test=table.test, seed=seed)
    return partition.label_and_domain(table.y, table.domains, p.beta, test=table.test, seed=seed)


def clients_of(table: EmbeddingTable, p: Partition, seed: int, least: int = 0) -> LocalFederation:
    """The clients of a table that has been split, with classes of at `least` so many samples; one must hold
    something.
    """
    parts = partition_samples(table, p, seed)
    if not any(len(samples) for samples in parts):
        raise GgeurError(
            f"The federation has no training samples at all (seed {seed}).", code="training-samples-missing"
        )
    clients = LocalFederation.of(table.x, table.y, table.domains, table.n_classes, parts, least)
    if not any(len(samples) for samples in clients.parts):
        raise GgeurError(
            f"[privacy] min_count = {least} is above every group: no class has so many samples at any client.",
            code="privacy-min-count-excessive",
        )
    return clients


def client_names(table: EmbeddingTable, parts: Sequence[Int]) -> list[str]:
    """Each client's domain, where it has one and the table several, else its number."""
    names = [f"client {k}" for k in range(len(parts))]
    if table.n_domains > 1 and len(parts) == table.n_domains:
        for k, samples in enumerate(parts):
            homes = np.unique(table.domains[samples])
            if len(homes) <= 1:
                names[k] = table.domain_names[homes[0] if len(homes) else k]
    return names


def validation_of(table: EmbeddingTable, parts: Sequence[Int], seed: int) -> ValidationSplit:
    """Return what is taken from clients with these `parts` of the table's samples."""
    return validation_split(table.y, table.domains, (table.n_domains, table.n_classes), parts, seed)


def group_name(table: EmbeddingTable, domain: int, label: int) -> str:
    """A class in a domain, as a score is kept under."""
    return f"{table.class_names[label]} of {table.domain_names[domain]}"


def scored_by_group(table: EmbeddingTable, samples: Int) -> EmbeddingTable:
    """The table with these `samples` for test samples, and groups for domains."""
    names = [group_name(table, d, c) for d in range(table.n_domains) for c in range(table.n_classes)]
    test = np.zeros(len(table), np.bool_)
    test[samples] = True
    return replace(table, test=test, domain=table.domains * table.n_classes + table.y, domain_names=tuple(names))


def load_table(data: Data) -> EmbeddingTable:
    """The table of `[data]`, read or made."""
    if data.table is not None:
        return load_any(data.table)
    assert data.dataset is not None  # [data] has one or the other
    if data.dataset == MINI_DIGITS and data.encoder in (None, "builtin"):
        return mini_digits()
    from ggeur.encoders.encoder import DEFAULT, load_encoder
    from ggeur.encoders.job import embed

    images = load(data.dataset)
    images = images if data.svhn == "correct" else as_benchmark(images)
    encoder = load_encoder(data.encoder or DEFAULT)
    cached = "" if encoder.name.startswith("pixels:") else ", unless the cache has them"
    warnings.warn(
        f"Embedding the {len(images):,} images of {data.dataset} with {encoder.name}{cached}; "
        "`ggeur embed` makes a table of them and shows how far it is.",
        GgeurWarning,
        stacklevel=3,
    )
    return embed(images, encoder).table


@cache
def mini_digits() -> EmbeddingTable:
    """The built-in digits through the built-in encoder, made once in a process: they are a constant of the package."""
    from ggeur.data import digits
    from ggeur.encoders.builtin import BuiltinEncoder
    from ggeur.encoders.encoder import about

    images, encoder = digits.images(), BuiltinEncoder()
    return EmbeddingTable(
        x=encoder.encode(images.x),
        y=images.y,
        domain=images.domain,
        class_names=images.class_names,
        domain_names=images.domain_names,
        meta={"dataset": MINI_DIGITS, **about(encoder)},
    )
