"""Before anything is computed, sites say what they hold, and those that do not fit the others are refused."""

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggeur.core.errors import GgeurError

_MOST_CLASSES, _MOST_DIMENSIONS = 10**4, 10**5


@dataclass
class Client:
    """A site as the server knows it, by its partition index."""

    index: int
    node: int | None  # Flower's id of the node that holds it now; None while it is away
    classes: tuple[str, ...]
    domains: tuple[str, ...]
    dimension: int
    encoder: dict[str, Any]
    count: tuple[int, ...]  # training rows of its own classes
    home: str | None
    fingerprint: str
    test: int  # rows it scores heads on
    ready: bool = False  # it has its training set of this run
    has_constants: bool = field(default=False, compare=False)

    @classmethod
    def of(cls, facts: Mapping[str, Any], node: int | None, n_nodes: int) -> "Client":
        """From a site's hello; a GgeurError ends a sentence about it."""
        try:
            client = cls(
                index=_whole(facts["partition"]),
                node=node,
                classes=tuple(_names(facts["classes"])),
                domains=tuple(_names(facts["domains"])),
                dimension=_whole(facts["dimension"]),
                encoder=_encoder(facts["encoder"]),
                count=tuple(map(_whole, facts["count"])),
                home=None if facts["home"] is None else str(facts["home"]),
                fingerprint=str(facts["fingerprint"]),
                test=_whole(facts["test"]),
                ready=bool(facts["ready"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise GgeurError(f"its greeting is not one of ggeur's ({error!r})") from error
        if client.index >= n_nodes:
            raise GgeurError(f"its partition-id is {client.index}, but [federate] nodes = {n_nodes} counts from 0")
        if len(client.count) != len(client.classes) or not 0 < len(client.classes) <= _MOST_CLASSES:
            raise GgeurError(f"it counts {len(client.count)} classes and names {len(client.classes)}")
        if not 0 < client.dimension <= _MOST_DIMENSIONS:
            raise GgeurError(f"its embeddings have {client.dimension} dimensions")
        if client.home is not None and client.home not in client.domains:
            raise GgeurError("its home is not one of its domains")
        return client

    def facts(self) -> dict[str, Any]:
        """As kept in a checkpoint; `of` reads it back."""
        named = ("classes", "domains", "dimension", "encoder", "count", "home", "fingerprint", "test", "ready")
        return {"partition": self.index, **{name: getattr(self, name) for name in named}}


@dataclass(frozen=True)
class Agreement:
    """What all sites of a run have in common."""

    classes: tuple[str, ...]
    domains: tuple[str, ...]
    dimension: int
    encoder: dict[str, Any]

    @classmethod
    def of(cls, clients: Sequence[Client]) -> "Agreement":
        """All classes and domains there are, in the order in which the clients' tables name them."""
        encoder = next((c.encoder for c in clients if c.encoder.get("weights")), clients[0].encoder)
        classes = dict.fromkeys(name for client in clients for name in client.classes)
        domains = dict.fromkeys(name for client in clients for name in client.domains)
        return cls(tuple(classes), tuple(domains), clients[0].dimension, encoder)

    @classmethod
    def of_most(cls, clients: Sequence[Client]) -> "Agreement":
        """What most of the clients embed with, so that one odd site, whatever its index, is not everybody's measure."""
        dimension = Counter(client.dimension for client in clients).most_common(1)[0][0]
        alike = [client for client in clients if client.dimension == dimension]
        weights = Counter(str(c.encoder["weights"]) for c in alike if c.encoder.get("weights")).most_common(1)
        return cls.of([c for c in alike if not weights or c.encoder.get("weights") == weights[0][0]])

    def check(self, client: Client) -> None:
        """Raise, with half a sentence, for a site whose embeddings are not comparable."""
        if client.dimension != self.dimension:
            raise GgeurError(
                f"its embeddings have {client.dimension} dimensions and the others' {self.dimension}: use one encoder"
            )
        ours, theirs = self.encoder.get("weights"), client.encoder.get("weights")
        if ours and theirs and ours != theirs:
            raise GgeurError(
                f"its embeddings come from '{client.encoder.get('encoder')}' and the others' from "
                f"'{self.encoder.get('encoder')}', with other weights: use one encoder"
            )

    def counts(self, clients: Sequence[Client]) -> NDArray[np.int64]:
        """(K, C): every client's training rows of the federation's classes."""
        place = {name: c for c, name in enumerate(self.classes)}
        table = np.zeros((len(clients), len(self.classes)), np.int64)
        for row, client in zip(table, clients, strict=True):
            row[[place[name] for name in client.classes]] = client.count
        return table


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**40:
        raise ValueError(f"{value!r} is not a whole number")
    return value


def _encoder(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(value.get(k, ""), str) for k in ("encoder", "weights")):
        raise ValueError("its encoder must be named in text")
    return value


def _names(value: Any) -> list[str]:
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise ValueError("names must be text")
    if any(unicodedata.category(c) in ("Cc", "Cs") for name in value for c in name):  # as tables refuse them, too
        raise ValueError("names must be plain text")
    if len(set(value)) < len(value):
        raise ValueError("a name comes twice")
    return list(value)
