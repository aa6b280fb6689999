"""Collect what each site holds before anything is computed, and refuse sites that do not fit the others."""

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from ggeur.flower.wire.records import VERSION
from ggeur.stats.errors import GgeurError
from ggeur.stats.types import Int

_MOST_CLASSES, _MOST_DOMAINS, _MOST_DIMENSIONS = 10**4, 10**3, 10**5


def _plain(names: tuple[str, ...]) -> tuple[str, ...]:
    if any(unicodedata.category(c) in ("Cc", "Cs") for name in names for c in name):  # as tables refuse them, too
        raise ValueError("names must be plain text")
    if len(set(names)) < len(names):
        raise ValueError("a name comes twice")
    return names


def _with_text(encoder: dict[str, Any]) -> dict[str, Any]:
    if not all(isinstance(encoder.get(key, ""), str) for key in ("encoder", "weights")):
        raise ValueError("its encoder must be named in text")
    return encoder


Count = Annotated[int, Field(strict=True, ge=0, lt=2**40)]
Names = Annotated[tuple[str, ...], AfterValidator(_plain)]


class Hello(BaseModel):
    """A site's description of itself; validation raises GgeurError with the end of a sentence."""

    model_config = ConfigDict(frozen=True)

    partition: Count
    classes: Names
    domains: Names
    dimension: Count
    encoder: Annotated[dict[str, Any], AfterValidator(_with_text)]
    count: tuple[tuple[Count, ...], ...]  # training samples, by its own domains and classes
    fingerprint: str
    test: Count  # samples it scores heads on
    text: Names = ()  # the prompts by which its table has text embeddings of its classes

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not 0 < len(self.classes) <= _MOST_CLASSES or not 0 < len(self.domains) <= _MOST_DOMAINS:
            raise GgeurError(
                f"it names {len(self.classes)} classes and {len(self.domains)} domains", code="message-names-number"
            )
        if len(self.count) != len(self.domains) or any(len(sample) != len(self.classes) for sample in self.count):
            raise GgeurError("its counts are not of the classes and domains it names", code="message-counts-shape")
        if not 0 < self.dimension <= _MOST_DIMENSIONS:
            raise GgeurError(f"its embeddings have {self.dimension} dimensions", code="message-dimension-range")
        return self

    @property
    def samples(self) -> int:
        """Return the number of its training samples."""
        return sum(map(sum, self.count))


@dataclass
class Client:
    """A site at the server, identified by its partition index."""

    hello: Hello
    node: int | None = None  # Flower's id of the node that holds it now; None while it is away
    ready: bool = False  # it has its training set of this run
    has_constants: bool = False  # it has the method's constant inputs

    @property
    def index(self) -> int:
        """Return its number, which identifies it in the federation."""
        return self.hello.partition

    @classmethod
    def of(cls, facts: Mapping[str, Any], node: int, n_nodes: int) -> "Client":
        """Return the client whose node `node` sent `facts` as its greeting to a federation of `n_nodes`.

        A GgeurError ends a sentence about it.
        """
        check_version(facts)
        try:
            hello = Hello.model_validate(facts)
        except ValidationError as error:
            first = error.errors()[0]
            raise GgeurError(
                f"its greeting is not one of ggeur's ({first['loc'][0]}: {first['msg']})",
                code="message-greeting-invalid",
            ) from error
        if hello.partition >= n_nodes:
            raise GgeurError(
                f"its partition-id is {hello.partition}, but [federate] sites = {n_nodes} counts from 0",
                code="message-partition-range",
            )
        return cls(hello, node, bool(facts.get("ready")))


def check_version(facts: Mapping[str, Any]) -> None:
    """Raise, with half a sentence, unless a message with these `facts` comes from a site with the same version.

    Another version might have other defaults, or compute something else under the same name.
    """
    if facts.get("ggeur") != VERSION:
        theirs = repr(facts.get("ggeur", "unknown"))[:40]
        raise GgeurError(
            f"it runs ggeur {theirs} and the server '{VERSION}': install one version everywhere",
            code="message-version-mismatch",
        )


@dataclass(frozen=True)
class Agreement:
    """The classes, domains, dimension and encoder that all sites of a run share."""

    classes: tuple[str, ...]
    domains: tuple[str, ...]
    dimension: int
    encoder: dict[str, Any]

    @classmethod
    def of(cls, clients: Sequence[Client]) -> "Agreement":
        """Return all classes and domains, in the order in which the tables of `clients` name them."""
        hellos = [client.hello for client in clients]
        encoder = next((h.encoder for h in hellos if h.encoder.get("weights")), hellos[0].encoder)
        classes = dict.fromkeys(name for hello in hellos for name in hello.classes)
        domains = dict.fromkeys(name for hello in hellos for name in hello.domains)
        return cls(tuple(classes), tuple(domains), hellos[0].dimension, encoder)

    @classmethod
    def of_most(cls, clients: Sequence[Client]) -> "Agreement":
        """Return the agreement by the encoder of most `clients`, so that one odd site does not decide for all."""
        dimension = Counter(client.hello.dimension for client in clients).most_common(1)[0][0]
        alike = [client for client in clients if client.hello.dimension == dimension]
        named = [weights for client in alike if (weights := client.hello.encoder.get("weights"))]
        weights = Counter(named).most_common(1)
        return cls.of([c for c in alike if not weights or c.hello.encoder.get("weights") == weights[0][0]])

    def check(self, client: Client) -> None:
        """Raise, with half a sentence, if the embeddings of `client` are not comparable."""
        hello = client.hello
        if hello.dimension != self.dimension:
            raise GgeurError(
                f"its embeddings have {hello.dimension} dimensions and the others' {self.dimension}: use one encoder",
                code="message-dimension-mismatch",
            )
        ours, theirs = self.encoder.get("weights"), hello.encoder.get("weights")
        if ours and theirs and ours != theirs:
            raise GgeurError(
                f"its embeddings come from '{hello.encoder.get('encoder')}' and the others' from "
                f"'{self.encoder.get('encoder')}', with other weights: use one encoder",
                code="message-encoder-mismatch",
            )

    def groups(self, client: Client) -> Int:
        """Return (D, C): the number of training samples of `client` by the federation's domains and classes."""
        table = np.zeros((len(self.domains), len(self.classes)), np.int64)
        hello = client.hello
        table[np.ix_(_places(hello.domains, self.domains), _places(hello.classes, self.classes))] = hello.count
        return table

    def counts(self, clients: Sequence[Client]) -> Int:
        """Return (K, C): the number of training samples of `clients` by the federation's classes."""
        return np.stack([self.groups(client).sum(axis=0) for client in clients])

    def homes(self, clients: Sequence[Client]) -> list[int | None]:
        """Return the domain of each client's training samples; None where they mix, or there are none."""
        held = [np.flatnonzero(self.groups(client).any(axis=1)).tolist() for client in clients]
        return [domains[0] if len(domains) == 1 else None for domains in held]


def _places(own: Sequence[str], agreed: Sequence[str]) -> list[int]:
    place = {name: i for i, name in enumerate(agreed)}
    return [place[name] for name in own]
