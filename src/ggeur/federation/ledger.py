"""Who is in: every site that was added, and a salted hash of what it sent, by which it is known again."""

import hashlib
import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ggeur.federation.stored_statistics import StoredStatistics
from ggeur.stats.errors import GgeurError, nearest
from ggeur.stats.site_statistics import Covariance, SiteStatistics


class Entry(NamedTuple):
    """A site: its classes, how many samples its statistics are of, their kind, and the hash of salt and statistics.

    `encoder` is what its table says of the encoder, so that it leaves with the site; None in older ledgers.
    """

    name: str
    class_names: tuple[str, ...]
    samples: int
    kind: Covariance
    salt: str
    hash: str
    encoder: Mapping[str, Any] | None = None
    features: str = ""  # the hash of salt and statistics of features, if it sent any
    sequence: int = 0  # of the file that its statistics came in, if they did

    @classmethod
    def of(cls, sent: StoredStatistics, encoder: Mapping[str, Any] | None = None) -> "Entry":
        """The entry of what a site `sent`, with a salt of its own."""
        salt = secrets.token_hex(16)
        digest = digest_of_statistics(sent, salt)
        features = "" if sent.features is None else sent.features.digest(salt)
        return cls(sent.name, sent.class_names, sent.samples, sent.kind, salt, digest, encoder, features, sent.sequence)

    def holds(self, sent: StoredStatistics) -> bool:
        """Whether the site `sent` this, to the bit; features, if any, too."""
        if sent.features is not None and self.features != sent.features.digest(self.salt):
            return False
        return self.hash == digest_of_statistics(sent, self.salt)


class Ledger(NamedTuple):
    """All that are in, by name."""

    entries: tuple[Entry, ...]

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> "Ledger":
        """Return the ledger of `entries`, given in any order."""
        return cls(tuple(sorted(entries, key=lambda e: e.name)))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(e.name for e in self.entries)

    def entry(self, name: str) -> Entry:
        """That of the site `name`."""
        self.check_in(name)
        return next(e for e in self.entries if e.name == name)

    def check_new(self, name: str, sequence: int = 0) -> None:
        """GgeurError where the site `name` is in already, unless a file with a higher `sequence` number replaces it."""
        if name not in self.names:
            return
        known = self.entry(name).sequence
        if sequence and known >= sequence:
            raise GgeurError(
                f"The model has the statistics of '{name}' with the sequence number {known}, and this file has "
                f"{sequence}: to replace them, the site writes them with `ggeur summarize --sequence {known + 1}`.",
                code="statistics-sequence-old",
            )
        if not sequence:
            raise GgeurError(
                f"The site '{name}' is already in; forget it first, or rename it if it is another.",
                code="site-already-added",
            )

    def check_in(self, name: str) -> None:
        """GgeurError where the site `name` was never added."""
        if name not in self.names:
            raise GgeurError(
                f"The site '{name}' is not in this model; there are {', '.join(self.names)}."
                f"{nearest(name, self.names)}",
                code="site-not-added",
            )

    def without(self, name: str) -> "Ledger":
        """The others."""
        self.check_in(name)
        return Ledger(tuple(e for e in self.entries if e.name != name))

    def encoder(self, before: Mapping[str, Any]) -> dict[str, Any]:
        """Return the encoder as all sites describe it; `before` stands in where a site does not."""
        told = [e.encoder for e in self.entries if e.encoder is not None]
        known = dict(before) if len(told) < len(self.entries) else {}
        for one in told:
            known = {**one, **known}
        return known

    def fingerprint(self) -> str:
        """A hash of all that are in and of what they sent."""
        return hashlib.sha256(json.dumps([[e.name, e.hash] for e in self.entries]).encode()).hexdigest()


def digest_of_statistics(sent: StoredStatistics, salt: str = "") -> str:
    """A hash of `salt` and all that a site `sent`, to the last bit."""
    about = [salt, sent.name, sent.class_names, {"none": "means"}.get(sent.kind, sent.kind), list(sent.messages)]
    return digest_of_messages(list(sent.messages.values()), json.dumps(about))


def digest_of_messages(messages: Sequence[SiteStatistics], about: str = "") -> str:
    """A hash of the text `about` and of every number of the `messages`."""
    digest = hashlib.sha256(about.encode())
    for m in messages:
        for array in (m.count, m.sum, m.second, m.center):
            digest.update(str(array.shape).encode())
            digest.update(np.ascontiguousarray(array, "<f8").data)
    return digest.hexdigest()
