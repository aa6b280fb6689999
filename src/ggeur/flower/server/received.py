"""Sites' statistics at the server: asked for, checked, kept on disk and merged, whoever answered first.

A file of one site's answer is named by what was asked and of which data. So whoever has answered is not asked again:
not when another site is late, nor in a run that is resumed.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ggeur.federation.augmentation_plan import about_center
from ggeur.federation.summary import digits_note
from ggeur.flower.server.agreement import Agreement, Client
from ggeur.flower.server.roster import Roster
from ggeur.flower.server.round_zero import packed
from ggeur.flower.wire.ask import Answer, Question
from ggeur.flower.wire.check import checked_messages
from ggeur.flower.wire.packing import MESSAGE, Arrays, pack_message, unpack_message
from ggeur.flower.wire.records import VERSION
from ggeur.flower.wire.requested import RequestedPart, RequestedStatistics
from ggeur.stats.errors import GgeurError
from ggeur.stats.site_statistics import SiteStatistics
from ggeur.stats.storage import read_arrays, write_atomically
from ggeur.stats.types import Float, Int
from ggeur.stats.units import Units


class File(NamedTuple):
    """One client's checked messages."""

    path: Path
    samples: Mapping[RequestedPart, Int]  # (C,) of each

    @property
    def domains(self) -> list[int]:
        return sorted({part.domain for part in self.samples})


class ReceivedStatistics(NamedTuple):
    """Every client's checked messages as files, by index, and the center they are about."""

    wanted: RequestedStatistics
    files: Mapping[int, File]
    center: Float | None = None
    merged: SiteStatistics | None = None  # once they have been added up
    sites: tuple[int, ...] = ()  # behind a secure aggregation, which is in one file
    holders: Mapping[int, int] = {}  # how many of those have samples of each domain, or of all

    def total(self) -> SiteStatistics:
        """Return their sum, holding two at a time."""
        return self.merged or SiteStatistics.merge(message for _, message in self.by_domain())

    def by_domain(self) -> Iterator[tuple[int, SiteStatistics]]:
        """Every message with its domain: domain by domain, as a simulation adds up."""
        for domain in sorted({d for file in self.files.values() for d in file.domains}):
            for _, file in sorted(self.files.items()):
                if domain in file.domains:
                    yield domain, self._read(file, RequestedPart(domain))

    @property
    def senders(self) -> set[int]:
        """Whose messages these are."""
        return set(self.sites or self.files)

    def clients(self) -> dict[int, int]:
        """How many sites have sent a message of each domain."""
        if self.sites:
            return dict(self.holders)
        return dict(Counter(domain for file in self.files.values() for domain in file.domains))

    def by_site(self, *, means: bool = False) -> Iterator[SiteStatistics]:
        """Yield every site's statistics, in the order of their numbers; with `means` without second moments."""
        for _, file in sorted(self.files.items()):
            yield SiteStatistics.merge(self._read(file, RequestedPart(domain), means=means) for domain in file.domains)

    def _read(self, file: File, part: RequestedPart, *, means: bool = False) -> SiteStatistics:
        arrays = read_arrays(file.path, [part.prefix + name for name in MESSAGE])
        own = {name: arrays[part.prefix + name] for name in MESSAGE}
        return unpack_message(own | {"second": own["second"][:0]} if means else own, self.center)


def collect(
    roster: Roster, agreement: Agreement, wanted: RequestedStatistics, folder: Path, units: Units | None
) -> ReceivedStatistics:
    """Every client's messages, in `folder`, about a center where zero would lose digits.

    Who sends an impossible one is out of this run, and who sends none is left out.
    """
    received = ReceivedStatistics(wanted, {})

    def collected(center: Float | None) -> SiteStatistics:
        nonlocal received
        question = statistics_question(wanted, units, center)
        received = ReceivedStatistics(wanted, _ask(roster, agreement, wanted, question, folder), center)
        return received.total()

    if wanted.noisy:  # moments are about zero, and nobody is asked again
        collected(None)
        return received
    total = about_center(collected)
    if not total.count.any():
        raise GgeurError(
            "The federation has no training samples at all, or none in groups of [privacy] min_count samples.",
            code="training-samples-missing",
        )
    if note := digits_note(total):
        roster.journal("note", why=note)
    return received._replace(merged=total)


def statistics_question(wanted: RequestedStatistics, units: Units | None, center: Float | None) -> Question:
    """Return what sites are asked: for what is `wanted`, of samples in `units`, about `center`."""
    return Question("query.statistics", wanted.facts, packed(units) | ({} if center is None else {"center": center}))


def _ask(
    roster: Roster, agreement: Agreement, wanted: RequestedStatistics, question: Question, folder: Path
) -> dict[int, File]:
    """Whose answer is not in `folder` is asked; whoever then has none there does not take part."""
    held = {client.index: agreement.groups(client) for client in roster.known}
    paths = {
        client.index: folder / f"{client.index}-{file_name(question, agreement, [client])}" for client in roster.known
    }

    def messages(client: Client, arrays: Arrays) -> dict[RequestedPart, SiteStatistics]:
        center = question.arrays.get("center")
        return checked_messages(arrays, wanted, held[client.index], agreement.dimension, center)

    def read(client: Client, answer: Answer) -> dict[RequestedPart, SiteStatistics]:
        return messages(client, answer.arrays)

    files: dict[int, File] = {}
    for client in roster.known:
        try:
            files[client.index] = _file(paths[client.index], messages(client, read_arrays(paths[client.index])))
        except GgeurError:  # not there, or damaged
            continue
    waiting = [client for client in roster.present if client.index not in files]
    for client, answer, found in roster.ask(waiting, lambda client: question, read, 0):
        with write_atomically(paths[client.index]) as file:
            arrays = [pack_message(message, part.prefix) for part, message in found.items()]
            np.savez(file, allow_pickle=False, **{k: v for one in arrays for k, v in one.items()})
        files[client.index] = _file(paths[client.index], found)
        roster.journal("statistics", client=client.index, seconds=round(answer.seconds, 2))
    for client in roster.known:
        if client.index not in files:
            roster.leave_out(client, 0, "it left before it sent its statistics")
    if not files:
        raise GgeurError(
            "No site has sent statistics; federation.jsonl in the run folder says why.", code="statistics-not-received"
        )
    return files


def _file(path: Path, messages: Mapping[RequestedPart, SiteStatistics]) -> File:
    return File(path, {part: np.round(message.count).astype(np.int64) for part, message in messages.items()})


def file_name(question: Question, agreement: Agreement, clients: Sequence[Client]) -> str:
    """Return what a file is called of what `clients`, as long as they have these data, answer to `question`."""
    agreed = agreement.classes, agreement.domains
    whose = [part for client in clients for part in (client.hello.fingerprint, client.hello.count)]
    asked: Any = (VERSION, question.kind, question.facts, agreed, *whose)
    digest = hashlib.sha256(json.dumps(asked).encode())
    for name, array in sorted(question.arrays.items()):
        digest.update(f"{name} {array.shape} {array.dtype}".encode() + array.tobytes())
    return f"{digest.hexdigest()[:16]}.npz"
