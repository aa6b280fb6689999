"""Round 0 of clients whose rows lie in one table: the same functions that real sites and servers call, in a loop."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ggeur.core.errors import GgeurWarning
from ggeur.core.low_rank import LowRank
from ggeur.core.message import Apart, Message, Statistics, Total
from ggeur.core.types import Bool, Float, Int
from ggeur.core.units import RowSums, Units
from ggeur.core.virtual import NoisePlace, VirtualSet, training_set
from ggeur.federation.augmentation import Augmentation
from ggeur.federation.noisy import ALL, Guard
from ggeur.federation.settlement import about_center, by_home, settle
from ggeur.federation.summary import digits_note, summarise
from ggeur.privacy.repair import Under
from ggeur.privacy.threshold import large_cells

_LOT_ROWS = 2048  # of clients that are summed up together


class Clients(NamedTuple):
    """Who holds which rows of a table."""

    x: NDArray[Any]  # (N, p)
    y: Int
    n_classes: int
    parts: Sequence[Int]  # each client's rows
    homes: Sequence[int | None]  # the domain of each client's rows; None where they mix, or there are none
    domains: Int  # (N,)
    guard: Guard | None = None  # how they protect what they send

    @classmethod
    def of(
        cls, x: NDArray[Any], y: Int, domains: Int, n_classes: int, parts: Sequence[Int], min_count: int = 0
    ) -> "Clients":
        """Of a table's columns, its `domains` (N,) among them; in cells under `min_count` rows take no part."""
        if min_count:
            parts = [rows[large_cells(y[rows], domains[rows], min_count)] for rows in parts]
        each = [np.unique(domains[rows]) for rows in parts]
        homes = [int(d[0]) if len(d) == 1 else None for d in each]
        return cls(x, y, n_classes, parts, homes, domains)

    def counts(self) -> Int:
        """(K, C): everybody's rows of each class."""
        return np.stack([np.bincount(self.y[rows], minlength=self.n_classes) for rows in self.parts])

    def cell_counts(self) -> Int:
        """(D, C): all rows together, of each class in each domain."""
        rows = np.concatenate(self.parts)
        count = np.zeros((int(self.domains.max()) + 1, self.n_classes), np.int64)
        np.add.at(count, (self.domains[rows], self.y[rows]), 1)
        return count

    def message(self, rows: Int, kind: Statistics, center: Float | None = None) -> Message:
        """What is to be sent of these rows."""
        return summarise(self.x[rows], self.y[rows], self.n_classes, kind, center)


class TrainingSets(NamedTuple):
    """What Section 3 of the paper makes of the clients' rows."""

    sets: list[VirtualSet]
    prototypes: NDArray[Any]  # (D * C, p)
    bank: NDArray[np.float32] | None
    shapes: LowRank | None = None  # of draws whose expected loss takes their place


def merged_total(
    clients: Clients,
    kind: Statistics,
    classes: Bool | None = None,
    apart: Apart | None = None,
    under: Under = "levelled",
) -> Total:
    """The total of all messages, about a center where zero would lose digits; of client k only `classes[k]`.

    Where messages are kept `apart`, a client whose rows are of several domains sends one for each. Of a total with
    noise in it, what is `under` the noise is levelled, for a head, or dropped, for shapes.
    """
    kept = clients.parts
    if classes is not None:
        kept = [rows[classes[k, clients.y[rows]]] for k, rows in enumerate(kept)]
    domains = [ALL] if apart is None else np.unique(clients.domains).tolist()
    own = {d: kept if d < 0 else [rows[clients.domains[rows] == d] for rows in kept] for d in domains}
    if clients.guard is not None:
        return _noisy_total(clients, clients.guard, own, kind, apart, under)
    alone = apart is not None and apart.of == "client"
    parts = [(d, rows) for d, mine in own.items() for rows in (filter(len, mine) if alone else _lots(mine))]
    total = about_center(
        lambda center: Total.of(((d, clients.message(rows, kind, center)) for d, rows in parts), apart)
    )
    if note := digits_note(total):
        warnings.warn(note, GgeurWarning, stacklevel=2)
    return total


def _noisy_total(
    clients: Clients,
    guard: Guard,
    own: Mapping[int, Sequence[Int]],
    kind: Statistics,
    apart: Apart | None,
    under: Under,
) -> Total:
    """Of which domains a client is, is public; of these it sends every class, whether it has rows of it or not."""
    held = {d: [k for k, rows in enumerate(mine) if d == ALL or len(rows)] for d, mine in own.items()}
    many = {d: len(those) for d, those in held.items() if those}

    def sent() -> Iterator[tuple[int, Message]]:
        for d, those in held.items():
            for k in those:
                message = clients.message(own[d][k], guard.kind)
                yield d, guard.message(message, k, d, many[d]).of_kind(kind)

    return guard.total(sent(), many, apart, under)


def merged_units(clients: Clients) -> Units:
    """The federation's own units: of all clients' training rows, from the sums that each of them sends."""
    return RowSums.merge(RowSums.of(clients.x[rows]) for rows in clients.parts).units


def _lots(parts: Sequence[Int]) -> Iterator[Int]:
    """The clients' rows, small clients together: the message of a lot is the sum of its clients' messages.

    A client's second moments are a matrix per class however few its rows, so that ten thousand clients one by one would
    take minutes to add up. Where something acts on one message alone, this must not be used.
    """
    lot: list[Int] = []
    rows = 0
    for part in parts:
        lot.append(part)
        rows += len(part)
        if rows >= _LOT_ROWS:
            yield np.concatenate(lot)
            lot, rows = [], 0
    if rows:
        yield np.concatenate(lot)


class _Messages(NamedTuple):
    """The clients' messages, made when they are asked for."""

    clients: Clients
    kind: Statistics | None

    def total(self, classes: Bool | None = None) -> Message:
        assert self.kind is not None
        return merged_total(self.clients, self.kind, classes, under="dropped")

    def means(self) -> Iterator[Message]:
        c, guard = self.clients, self.clients.guard
        for k, rows in enumerate(c.parts):
            if guard is None:
                yield c.message(rows, "means")
            else:
                yield guard.message(c.message(rows, guard.kind), k, ALL, len(c.parts)).of_kind("means")

    def by_home(self, homes: Sequence[int | None]) -> dict[int, Message]:
        found, guard = by_home(self.means(), homes), self.clients.guard
        if guard is None:
            return found
        return {home: guard.repaired(message, homes.count(home), "dropped") for home, message in found.items()}


def augment_clients(clients: Clients, a: Augmentation, seed: int) -> TrainingSets:
    """Every client's training set, and the prototypes and noise that they share."""
    p = clients.x.shape[1]
    why = "the table has one domain" if len(np.unique(clients.domains)) == 1 else "the clients mix domains"
    layout, shapes, notes = settle(_Messages(clients, a.needs), a, clients.counts(), clients.homes, p, why)
    for note in notes:
        warnings.warn(note, GgeurWarning, stacklevel=2)
    whole = layout.bank.whole
    bank = whole.noise(shapes.factors, shapes.factor_of, seed) if a.draws_noise else None
    expected = None if a.rank is None else shapes.by_class
    sets = []
    for k, rows in enumerate(clients.parts):
        others = np.zeros_like(layout.present)
        others[layout.others(k)] = layout.present[layout.others(k)]  # the base holds the prototypes of all domains
        noise = None if bank is None else NoisePlace(whole, layout.bank.offset[k], k, seed)
        y, marks = clients.y[rows], expected is not None
        sets.append(training_set(rows, y, a.rule, others, noise, len(clients.x), expected=marks))
    return TrainingSets(sets, layout.prototypes.reshape(-1, p), bank, expected)
