"""Round 0 as messages: sites' statistics are asked for, checked, spooled to disk and merged in the clients' order."""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ggeur.core.errors import GgeurError
from ggeur.core.message import Message, Statistics, largest
from ggeur.core.types import Bool, Float
from ggeur.deploy.server.agreement import Agreement, Client
from ggeur.deploy.server.roster import Roster
from ggeur.deploy.server.round_zero import RoundZero
from ggeur.deploy.wire.check import checked_message
from ggeur.deploy.wire.packing import Arrays, pack_message, unpack_message
from ggeur.federation.augmentation import Augmentation
from ggeur.federation.layout import Layout, with_prototypes
from ggeur.federation.shapes import Shapes, merged_shapes, note_on_units, shapes_from_means, stack_means
from ggeur.federation.summary import far_center, guided


class Opening(NamedTuple):
    """What round 0 settled, and the merged message that a head may be solved from."""

    settled: RoundZero
    total: Message | None


def open_federation(roster: Roster, a: Augmentation, head_needs: Statistics | None) -> Opening:
    """Agree on classes, collect what augmentation and head need, and lay out everybody's training set."""
    _agree(roster)
    kind = largest([a.needs, head_needs])
    if kind is None:
        agreement, clients = _agreed(roster), _members(roster)
        count, homes = agreement.counts(clients), _homes(agreement, clients)
        layout = Layout.of(count, homes, {}, agreement.dimension, a)
        none = Shapes.none(count.shape[1], agreement.dimension)
        return Opening(RoundZero(agreement, clients, layout, none), None)
    with tempfile.TemporaryDirectory(prefix="ggeur-statistics-") as folder:
        spool = _statistics(roster, kind, Path(folder))
        while Agreement.of(roster.present).classes != _agreed(roster).classes:
            _settle(roster)  # what only a refused site had named is no class of this run
            spool = _statistics(roster, kind, Path(folder))
        return _laid_out(roster, a, spool)


class _Spool(NamedTuple):
    """Every client's checked message as a file, the center they are about, and their total."""

    paths: Mapping[int, Path]
    center: Float | None
    total: Message

    def messages(self, *, means: bool = False) -> Iterator[Message]:
        """One by one, in the clients' order; with `means`, without second moments."""
        for path in self.paths.values():
            yield _read(path, self.center, means=means)


def _laid_out(roster: Roster, a: Augmentation, spool: _Spool) -> Opening:
    agreement, clients = _agreed(roster), _members(roster)
    count, homes = agreement.counts(clients), _homes(agreement, clients)
    by_home: dict[int, Message] = {}
    if with_prototypes(a, homes):
        for home, message in zip(homes, spool.messages(means=True), strict=True):
            if home is not None:
                by_home[home] = by_home[home] + message if home in by_home else message
    elif a.prototypes:
        roster.journal("note", why="Step 2 adds nothing: the sites are not of several domains.")
    shapes = Shapes.none(count.shape[1], agreement.dimension)
    if a.noise is not None:
        roster.journal("merging", clients=len(clients), classes=count.shape[1], dimension=agreement.dimension)
        shapes = _shapes(spool, a, guided(count, a.guided), homes)
        if note := note_on_units(shapes, a):
            roster.journal("note", why=note)
    layout = Layout.of(count, homes, by_home, agreement.dimension, a)
    return Opening(RoundZero(agreement, clients, layout, shapes), spool.total)


def _shapes(spool: _Spool, a: Augmentation, chosen: Bool, homes: list[int | None]) -> Shapes:
    if a.statistics == "means":
        domain = np.array([-1 if home is None else home for home in homes])
        return shapes_from_means(*stack_means(list(spool.messages(means=True))), domain, a)
    total = spool.total
    if a.guided < 1:
        total = Message.merge(message.only(chosen[k]) for k, message in enumerate(spool.messages()))
    return merged_shapes(total, a)


def _homes(agreement: Agreement, clients: list[Client]) -> list[int | None]:
    return [None if c.home is None else agreement.domains.index(c.home) for c in clients]


def _agree(roster: Roster) -> None:
    """Refuse sites whose embeddings cannot be compared with those of most, and fix the classes and domains."""
    basis = Agreement.of_most(roster.present)
    for client in roster.present:
        try:
            basis.check(client)
        except GgeurError as error:
            roster.drop(client, 0, str(error))
    _require(roster)
    if roster.settings.test_table is None and not any(client.test for client in roster.present):
        raise GgeurError("No site has test rows: name a table on the server with [federate] test_table.")
    _settle(roster)


def _settle(roster: Roster) -> None:
    roster.agreement = Agreement.of(roster.present)
    roster.common |= {"classes": roster.agreement.classes, "domains": roster.agreement.domains}


def _agreed(roster: Roster) -> Agreement:
    assert roster.agreement is not None
    return roster.agreement


def _members(roster: Roster) -> list[Client]:
    return [client for _, client in sorted(roster.clients.items())]


def _require(roster: Roster) -> None:
    least = roster.settings.min_nodes
    if len(roster.present) < least:
        raise GgeurError(
            f"{len(roster.present)} sites remain before training, and [federate] min_nodes = {least}; "
            "federation.jsonl in the run folder says who was refused and why."
        )


def _statistics(roster: Roster, kind: Statistics, folder: Path) -> _Spool:
    """Every client's message and their sum, about a center where zero would lose digits."""
    paths, center = _collect(roster, kind, None, folder), None
    total = _total(paths, None)
    if (center := far_center(total)) is not None:
        paths = _collect(roster, kind, center, folder)
        total = _total(paths, center)
    if not total.count.any():
        raise GgeurError("The federation has no training samples at all.")
    return _Spool(paths, center, total)


def _total(paths: Mapping[int, Path], center: Float | None) -> Message:
    return Message.merge(_read(path, center) for path in paths.values())


def _collect(roster: Roster, kind: Statistics, center: Float | None, folder: Path) -> dict[int, Path]:
    """Every client's checked message as a file; who sends none, or an impossible one, is out of this run."""
    agreement, clients = _agreed(roster), roster.present
    count = {c.index: row for c, row in zip(clients, agreement.counts(clients).astype(np.float64), strict=True)}
    arrays: Arrays = {} if center is None else {"center": center}
    spool: dict[int, Path] = {}
    answers = roster.ask_clients(clients, lambda client: ("query.statistics", {"kind": kind}, arrays), 0)
    for client, answer in answers:
        try:
            if answer.problem is not None:
                raise GgeurError(answer.problem)
            message = checked_message(
                answer.arrays, kind, len(agreement.classes), agreement.dimension, center, count[client.index]
            )
        except GgeurError as error:
            roster.drop(client, 0, str(error))
            continue
        spool[client.index] = folder / f"{client.index}.npz"
        np.savez(spool[client.index], allow_pickle=False, **pack_message(message))
        roster.journal("statistics", client=client.index, seconds=round(answer.seconds, 2))
    _require(roster)
    return dict(sorted(spool.items()))


def _read(path: Path, center: Float | None, *, means: bool = False) -> Message:
    with np.load(path, allow_pickle=False) as file:
        second = file["second"][:0] if means else file["second"]
        return unpack_message({"count": file["count"], "sum": file["sum"], "second": second}, center)
