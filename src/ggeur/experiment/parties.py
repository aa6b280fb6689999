"""Who sees what of a federation before training: the server, another client, whoever holds the total.

What they see is made by the functions that a run calls, so it is what the code sends.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ggeur.core.errors import GgeurError
from ggeur.core.message import Message, Statistics
from ggeur.core.types import Bool, Float, Int
from ggeur.experiment.setup import Setup
from ggeur.federation.choosing import row_folds
from ggeur.federation.noisy import Guard
from ggeur.federation.settlement import Settlement, about_center, by_home, settle
from ggeur.federation.simulated import Clients
from ggeur.methods.algorithm import Bound, Chosen, Solved, Trained
from ggeur.privacy.attacks import Cell, Spread, cells, remainder


@dataclass(frozen=True)
class Sent:
    """The messages that clients send in round 0, made when they are asked for; folds have `least` rows of a cell."""

    setup: Setup
    clients: Clients
    seed: int
    least: int = 0

    @cached_property
    def kind(self) -> Statistics | None:
        """What sites must send, if anything."""
        algorithm = self.setup.algorithm
        if isinstance(algorithm, Bound):
            raise GgeurError(f"'{self.setup.settings.train.method}' is a bound, no federation: nothing is sent.")
        if isinstance(algorithm, Solved | Chosen):
            return algorithm.needs
        return self.setup.needs if isinstance(algorithm, Trained) else None

    def parts(self, k: int) -> list[Int]:
        """The rows behind each message of client `k`: by fold where a head is chosen, by domain where it asks so."""
        algorithm, rows = self.setup.algorithm, self.clients.parts[k]
        start = algorithm if isinstance(algorithm, Solved | Chosen) else self.setup.start
        domains = self.clients.domains[rows] if start is not None and start.apart is not None else np.zeros_like(rows)
        fold = np.zeros_like(rows)
        if isinstance(algorithm, Chosen):
            fold = row_folds(
                self.clients.y[rows], self.clients.domains[rows], algorithm.folds, self.seed, k, self.least
            )
        both = np.unique(np.stack([domains, fold]), axis=1).T
        return [rows[(domains == d) & (fold == f)] for d, f in both]

    @cached_property
    def guard(self) -> Guard | None:
        """What makes messages noisy, if anything does."""
        return None if self.kind is None else self.setup.guard(self.kind, self.seed)

    def messages(self, k: int) -> Iterator[tuple[Int, Message]]:
        """Each message of client `k`, with the rows behind it."""
        for number, rows in enumerate(self.parts(k)):
            message = self._message(rows, self.center)
            if self.guard is not None:
                message = self.guard.message(message, k, number, len(self.clients.parts))
            yield rows, message

    def seen(self, k: int) -> Iterator[tuple[Int, Message]]:
        """The same as a server looks at them; of secure sums it sees none."""
        if self.setup.settings.privacy.secure_sum:
            return
        for rows, message in self.messages(k):
            yield rows, message if self.guard is None else self.guard.repaired(message, 1, "dropped")

    def _message(self, rows: Int, center: Float | None) -> Message:
        assert self.kind is not None
        return self.clients.message(rows, self.kind, center)

    def of_client(self, k: int) -> Message:
        """All that client `k` sends, added up."""
        empty = self.clients.parts[k][:0]
        return Message.merge(m for _, m in self.messages(k)) if self.parts(k) else self._message(empty, self.center)

    @cached_property
    def center(self) -> Float | None:
        """About which the server asks for moments, where zero would lose digits."""
        parts = [rows for k in range(len(self.clients.parts)) for rows in self.parts(k)]
        if self.setup.settings.privacy.epsilon is not None:  # moments are about zero, a public point
            return None
        found = about_center(lambda center: Message.merge(self._message(rows, center) for rows in parts)).center
        return found if found.any() else None

    def total(self, classes: Bool | None = None) -> Message:
        """The sum of all messages; of client k only the `classes` (K, C) marked in its row."""
        each = ((k, self.of_client(k)) for k in range(len(self.clients.parts)))
        total = Message.merge(m if classes is None else m.only(classes[k]) for k, m in each)
        return total if self.guard is None else self.guard.repaired(total, len(self.clients.parts), "dropped")

    def means(self) -> Iterator[Message]:
        """Each client's message without second moments."""
        return (self.of_client(k).of_kind("means") for k in range(len(self.clients.parts)))

    def by_home(self, homes: Sequence[int | None]) -> dict[int, Message]:
        """Those of the clients of each domain added up."""
        return by_home(self.means(), homes)


class Total:
    """Whoever holds the sum of all messages; a client among them takes its own off."""

    def __init__(self, sent: Sent) -> None:
        self._sent, self._total = sent, sent.total()
        self.holders = sent.clients.counts() > 0  # (K, C)
        self._cells = cells(self._total)
        self._without: dict[int, dict[int, Cell]] = {}

    @property
    def message(self) -> Message:
        return self._total

    def cell(self, k: int, c: int) -> Cell | None:
        """What is known of the rows of class `c` at client `k`: with one other holder, what that one does not have."""
        if not self.holders[k, c]:
            return None
        others = np.flatnonzero(self.holders[:, c] & (np.arange(len(self.holders)) != k))
        if len(others) != 1 or self._sent.guard is not None:  # of noisy messages, what is left is as the server saw it
            return self._cells.get(c)
        spy = int(others[0])
        if spy not in self._without:
            self._without[spy] = cells(remainder(self._total, self._sent.of_client(spy)))
        return self._without[spy].get(c)


class OtherClient:
    """A client, of what it is sent about others: prototypes of other domains, and the shapes it draws along."""

    def __init__(self, sent: Sent) -> None:
        self._clients, self._spreads = sent.clients, dict[int, Spread]()
        self._settled: Settlement | None = None
        if isinstance(sent.setup.algorithm, Trained) and sent.setup.augmentation.needs is not None:
            c = sent.clients
            self._settled = settle(sent, sent.setup.augmentation, c.counts(), c.homes, c.x.shape[1], "")

    def cell(self, k: int, c: int) -> Cell | None:
        """What the best placed of the others knows of the rows of class `c` at client `k`."""
        if self._settled is None:
            return None
        layout = self._settled.layout
        spies = [i for i in range(len(layout.home)) if i != k]
        prototype, spread = None, None
        home = np.flatnonzero(layout.domains == layout.home[k])
        if len(home) and layout.present[home[0], c] and any(home[0] in layout.others(i) for i in spies):
            prototype = layout.prototypes[home[0], c].astype(np.float32).astype(np.float64)  # as it travels
        drawing = [i for i in spies if layout.draws[i, c] > 0]
        if drawing:
            spread = self._spread(c)
        if prototype is not None:
            return Cell(1, prototype, spread)  # one row, for all that the others know
        own = max((self._of_class(i, c) for i in drawing), key=len, default=())  # the likeliest to have been shared
        if spread is None or not len(own):
            return None
        return Cell(0, np.mean(own, axis=0), spread)  # a mean of rows behind a shape lies in their span

    def _of_class(self, i: int, c: int) -> Float:
        rows = self._clients.parts[i]
        return np.asarray(self._clients.x[rows[self._clients.y[rows] == c]], np.float64)

    def _spread(self, c: int) -> Spread | None:
        """Of the class's shape, as far as it says which directions there are."""
        assert self._settled is not None
        shapes = self._settled.shapes
        factor = int(shapes.factor_of[c])
        if factor < 0 or shapes.rest[factor] > 0:
            return None
        if factor not in self._spreads:
            f = shapes.factors[factor].astype(np.float64)
            self._spreads[factor] = Spread.of(f.T @ f)
        return self._spreads[factor]
