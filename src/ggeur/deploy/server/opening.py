"""Round 0 as messages: sites' statistics are asked for, checked, spooled to disk and merged in the clients' order.

Each site is then sent what it draws along, makes its training set, and sends what its method sends before round 1.
"""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from ggeur.core.errors import GgeurError
from ggeur.core.message import Message, Statistics, largest
from ggeur.core.types import Bool, Float, Tree
from ggeur.core.units import RowSums, Units
from ggeur.deploy.server.agreement import Agreement, Client
from ggeur.deploy.server.roster import Roster
from ggeur.deploy.server.round_zero import RoundZero, packed
from ggeur.deploy.wire.ask import Answer, Question
from ggeur.deploy.wire.check import check_tree, checked_message, checked_sums
from ggeur.deploy.wire.packing import Arrays, arrays_to_tree, pack_message, unpack_message
from ggeur.engine import lane
from ggeur.engine.messages import add_prepared
from ggeur.federation.augmentation import Augmentation
from ggeur.federation.settlement import about_center, settle
from ggeur.federation.summary import digits_note
from ggeur.methods.algorithm import Trained


def open_federation(
    roster: Roster, a: Augmentation, head_needs: Statistics | None, *, standardise: bool = False
) -> tuple[RoundZero, Message | None]:
    """Agree with the sites of `roster`, collect their statistics, and lay out everybody's training set.

    Of statistics those are asked for that the augmentation `a` needs, and the head that is solved, `head_needs`. Their
    total is returned beside what round 0 came to. To `standardise` is to find the federation's units first.
    """
    agreement, kind = _agree(roster), largest([a.needs, head_needs])
    with tempfile.TemporaryDirectory(prefix="ggeur-statistics-") as folder:
        while True:
            units, spool, total = None, _Spool({}, None), None
            if standardise:
                units = _units(roster, agreement)
            asked = len(roster.present)
            if kind is not None:
                spool, total = _statistics(roster, agreement, kind, Path(folder), units)
            same_classes = Agreement.of(roster.present).classes == agreement.classes
            if same_classes and (units is None or len(roster.present) == asked):
                return _round_zero(roster, agreement, a, spool, units), total
            agreement = _announce(roster)  # of a site that was refused, neither classes nor units are left in this run


class _Spool(NamedTuple):
    """Every client's checked message as a file, and the center they are about."""

    paths: Mapping[int, Path]
    center: Float | None
    merged: Message | None = None  # once they have been added up

    def total(self, classes: Bool | None = None) -> Message:
        """Their sum, holding two at a time; of client k only the `classes` that are marked in row k."""
        if classes is None:
            return self.merged or Message.merge(self._messages())
        return Message.merge(m.only(row) for m, row in zip(self._messages(), classes, strict=True))

    def means(self) -> Iterator[Message]:
        """One by one, in the clients' order, without second moments."""
        return self._messages(means=True)

    def _messages(self, *, means: bool = False) -> Iterator[Message]:
        for _, path in sorted(self.paths.items()):
            with np.load(path, allow_pickle=False) as file:
                second = file["second"][:0] if means else file["second"]
                yield unpack_message({"count": file["count"], "sum": file["sum"], "second": second}, self.center)


def _agree(roster: Roster) -> Agreement:
    """Refuse sites whose embeddings cannot be compared with those of most, and fix the classes and domains."""
    basis = Agreement.of_most(roster.present)
    for client in roster.present:
        try:
            basis.check(client)
        except GgeurError as error:
            roster.drop(client, 0, str(error))
    _require(roster)
    if roster.settings.test_table is None and not any(client.hello.test for client in roster.present):
        raise GgeurError("No site has test rows: name a table on the server with [federate] test_table.")
    return _announce(roster)


def _announce(roster: Roster) -> Agreement:
    """What those that are present have in common, which from now on every message says."""
    roster.agreement = Agreement.of(roster.present)
    roster.common |= {"classes": roster.agreement.classes, "domains": roster.agreement.domains}
    return roster.agreement


def _require(roster: Roster) -> None:
    there = len(roster.present)
    roster.require(there, None, f"{there} sites remain before training")


def _units(roster: Roster, agreement: Agreement) -> Units:
    """Of all sites' training rows, from the sums that each sends."""

    def read(client: Client, answer: Answer) -> RowSums:
        return checked_sums(answer.arrays, agreement.dimension, sum(client.hello.count))

    question = Question("query.sums", {}, {})
    answers = roster.ask(roster.present, lambda client: question, read, 0)
    sums = {client.index: found for client, _, found in answers}
    _require(roster)
    return RowSums.merge(found for _, found in sorted(sums.items())).units


def _statistics(
    roster: Roster, agreement: Agreement, kind: Statistics, folder: Path, units: Units | None
) -> tuple[_Spool, Message]:
    """Every client's message and their sum, about a center where zero would lose digits."""
    spool = _Spool({}, None)

    def collected(center: Float | None) -> Message:
        nonlocal spool
        arrays = packed(units) | ({} if center is None else {"center": center})
        spool = _collect(roster, agreement, kind, center, folder, arrays)
        return spool.total()

    total = about_center(collected)
    if not total.count.any():
        raise GgeurError("The federation has no training samples at all.")
    if note := digits_note(total):
        roster.journal("note", why=note)
    return spool._replace(merged=total), total


def _collect(
    roster: Roster, agreement: Agreement, kind: Statistics, center: Float | None, folder: Path, arrays: Arrays
) -> _Spool:
    """Every client's checked message as a file; who sends none, or an impossible one, is out of this run."""
    clients, (n_classes, p) = roster.present, (len(agreement.classes), agreement.dimension)
    count = {c.index: row for c, row in zip(clients, agreement.counts(clients).astype(np.float64), strict=True)}
    question = Question("query.statistics", {"kind": kind}, arrays)

    def read(client: Client, answer: Answer) -> Message:
        return checked_message(answer.arrays, kind, n_classes, p, center, count[client.index])

    paths: dict[int, Path] = {}
    for client, answer, message in roster.ask(clients, lambda client: question, read, 0):
        paths[client.index] = folder / f"{client.index}.npz"
        np.savez(paths[client.index], allow_pickle=False, **pack_message(message))
        roster.journal("statistics", client=client.index, seconds=round(answer.seconds, 2))
    _require(roster)
    return _Spool(paths, center)


def _round_zero(roster: Roster, agreement: Agreement, a: Augmentation, spool: _Spool, units: Units | None) -> RoundZero:
    """Who draws what along which shapes."""
    clients = [client for _, client in sorted(roster.clients.items())]
    count, homes, p = agreement.counts(clients), agreement.homes(clients), agreement.dimension
    if a.noise is not None:
        roster.journal("merging", clients=len(clients), classes=count.shape[1], dimension=p)
    layout, shapes, notes = settle(spool, a, count, homes, p, "the sites are not of several domains")
    for note in notes:
        roster.journal("note", why=note)
    return RoundZero(agreement, clients, layout, shapes, units)


class TrainingSets:
    """Those of the sites of `roster`, as `round_zero` laid them out for `trained` with batches of `batch`."""

    def __init__(self, roster: Roster, round_zero: RoundZero, trained: Trained, batch: int) -> None:
        self.roster, self.round_zero, self._method = roster, round_zero, trained.method
        agreement = round_zero.agreement
        self._zero = lane.zero_preparation(trained, batch, agreement.dimension, len(agreement.classes))

    def make(self, number: int) -> dict[int, Tree]:
        """Before round `number`: greet whoever came, and have sites without a set make theirs; their first messages."""
        self.roster.meet(number)
        waiting = [client for client in self.roster.present if not client.ready]
        first: dict[int, Tree] = {}
        answers = self.roster.ask(waiting, self._question, self._first_message, number, "no training set: ")
        for client, answer, (rows, message) in answers:
            if rows:
                first[client.index] = message
            client.ready, client.has_constants = True, False
            self.roster.journal("augmented", client=client.index, rows=rows, seconds=round(answer.seconds, 2))
        return first

    def _question(self, client: Client) -> Question:
        arrays = self.round_zero.for_client(client.index)
        return Question("query.augment", {"fingerprint": client.hello.fingerprint}, arrays)

    def _first_message(self, client: Client, answer: Answer) -> tuple[int, Tree]:
        """How many rows a client has made, and its method's message."""
        rows = self.round_zero.rows[self.round_zero.place[client.index]]
        if answer.facts.get("rows") != rows:
            raise GgeurError(f"it made {answer.facts.get('rows')} rows of what should be {rows}")
        message = arrays_to_tree(answer.arrays, answer.facts.get("prepared", ""))
        if rows:
            check_tree(message, self._zero, "first message")
        return rows, message

    def add(self, first: Mapping[int, Tree], nodes: int) -> Tree:
        """The `first` messages, by client, added up as the method says; zeros for those of `nodes` that sent none."""
        each = [first.get(k, self._zero) for k in range(nodes)]
        return add_prepared(self._method, jax.tree.map(lambda *leaves: np.stack(leaves), *each))
