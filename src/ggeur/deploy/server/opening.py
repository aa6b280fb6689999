"""Round 0 as messages: sites agree, their statistics are collected, and it is laid out who draws what.

Each site is then sent what it draws along, makes its training set, and sends what its method sends before round 1.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from ggeur.core.errors import GgeurError
from ggeur.core.message import largest
from ggeur.core.types import Tree
from ggeur.core.units import RowSums, Units
from ggeur.deploy.server.agreement import Agreement, Client
from ggeur.deploy.server.roster import Roster
from ggeur.deploy.server.round_zero import RoundZero
from ggeur.deploy.server.spool import Spool, collect
from ggeur.deploy.wire.ask import Answer, Question
from ggeur.deploy.wire.check import check_tree, checked_sums
from ggeur.deploy.wire.packing import arrays_to_tree
from ggeur.deploy.wire.wanted import Wanted
from ggeur.engine import lane
from ggeur.engine.messages import add_prepared
from ggeur.federation.augmentation import Augmentation
from ggeur.federation.settlement import settle
from ggeur.methods.algorithm import Solved, Trained


def open_federation(
    roster: Roster, a: Augmentation, start: Solved | None, folder: Path, *, standardise: bool = False
) -> tuple[RoundZero, Spool | None]:
    """Agree with the sites of `roster`, collect their statistics, and lay out everybody's training set.

    Of statistics those are asked for that the augmentation `a` needs, and `start`, which solves the first head. They
    are kept in `folder`, and returned beside what round 0 came to. To `standardise` is to find the federation's units
    first.
    """
    kind = largest([a.needs, start and start.needs])
    wanted = None if kind is None else Wanted(kind, by_domain=start is not None and start.apart is not None)
    opened = agree_and_collect(roster, lambda agreement: wanted, folder, standardise=standardise)
    return _round_zero(roster, a, opened), opened.sums


class Opened(NamedTuple):
    """What sites have in common, the units they take their rows in, if not as they lie there, and what they sent."""

    agreement: Agreement
    units: Units | None
    sums: Spool | None


def agree_and_collect(
    roster: Roster, wanted: Callable[[Agreement], Wanted | None], folder: Path, *, standardise: bool
) -> Opened:
    """Agree with the sites of `roster` and collect into `folder` what is `wanted` of those that agree."""
    agreement = _agree(roster)
    while True:
        units, sums = _units(roster, agreement) if standardise else None, None
        asked, want = set(roster.clients), wanted(agreement)
        if want is not None:
            sums = collect(roster, agreement, want, folder, units)
            _require(roster)
        same_classes = Agreement.of(roster.known).classes == agreement.classes
        for_anybody = units is None and (want is None or want.cells is None)
        if asked == set(roster.clients) or (same_classes and for_anybody):
            return Opened(agreement, units, sums)
        agreement = _announce(roster)  # of a site that is left out, no classes, units or cells are left in this run


def _agree(roster: Roster) -> Agreement:
    """Refuse sites whose embeddings cannot be compared with those of most, and fix the classes and domains."""
    if roster.agreement is None:
        for client in roster.absent:
            roster.leave_out(client, 0, "it left before anything was agreed on")
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
    """What those that take part have in common, which from now on every message says."""
    roster.agreement = Agreement.of(roster.known)
    roster.common |= {"classes": roster.agreement.classes, "domains": roster.agreement.domains}
    return roster.agreement


def _require(roster: Roster) -> None:
    there = len(roster.present)
    roster.require(there, None, f"{there} sites remain before training")


def _units(roster: Roster, agreement: Agreement) -> Units:
    """Of all sites' training rows, from the sums that each sends."""

    def read(client: Client, answer: Answer) -> RowSums:
        return checked_sums(answer.arrays, agreement.dimension, client.hello.rows)

    question = Question("query.sums", {}, {})
    answers = roster.ask(roster.present, lambda client: question, read, 0)
    sums = {client.index: found for client, _, found in answers}
    _require(roster)
    return RowSums.merge(found for _, found in sorted(sums.items())).units


def _round_zero(roster: Roster, a: Augmentation, opened: Opened) -> RoundZero:
    """Who draws what along which shapes."""
    agreement, clients, sums = opened.agreement, roster.known, opened.sums or Spool(Wanted("means"), {})
    count, homes, p = agreement.counts(clients), agreement.homes(clients), agreement.dimension
    if a.noise is not None:
        roster.journal("merging", clients=len(clients), classes=count.shape[1], dimension=p)
    layout, shapes, notes = settle(sums, a, count, homes, p, "the sites are not of several domains")
    for note in notes:
        roster.journal("note", why=note)
    return RoundZero(agreement, clients, layout, shapes, opened.units)


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
