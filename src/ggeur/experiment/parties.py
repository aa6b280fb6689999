"""Who sees what of a federation before training, beside the server: another client, whoever holds the totals."""

from collections.abc import Iterator

import numpy as np

from ggeur.core.message import Message
from ggeur.core.types import Float, Int
from ggeur.experiment.sent import Sent, Slot
from ggeur.federation.settlement import Settlement, settle
from ggeur.methods.algorithm import Trained
from ggeur.privacy.attacks import Cell, Spread, cells, remainder


class Total:
    """Whoever holds the sums over all clients, one of each slot; a client among them takes its own off."""

    def __init__(self, sent: Sent) -> None:
        self._sent = sent
        self._parts = [sent.parts(k) | sent.cells_out(k) for k in range(len(sent.clients.parts))]
        self._opened: dict[Slot, tuple[Message, dict[int, Cell]]] = {}
        self._without: dict[tuple[Slot, int], dict[int, Cell]] = {}

    def looks(self, k: int, c: int) -> Iterator[tuple[Cell, Int]]:
        """What is known of the rows of class `c` at client `k`, with those rows, by each sum that they are in.

        The best placed of the others take off the most rows: of the class, or in all, which are pooled with it.
        """
        y = self._sent.clients.y
        for slot, rows in self._parts[k].items():
            if not len(mine := rows[y[rows] == c]):
                continue
            others = {i: own[slot] for i, own in enumerate(self._parts) if i != k and slot in own}
            spies: list[int | None] = [None]
            if others and self._sent.guard is None:  # of noisy messages, what is left is as the server saw it
                of_class = max(others, key=lambda i: int((y[others[i]] == c).sum()))
                spies += sorted({of_class, max(others, key=lambda i: len(others[i]))})
            for spy in spies:
                if (cell := self._cells(slot, spy).get(c)) is not None:
                    yield cell, mine

    def _cells(self, slot: Slot, spy: int | None) -> dict[int, Cell]:
        if slot not in self._opened:
            held = [k for k, own in enumerate(self._parts) if slot in own]
            total = Message.merge(self._message(k, slot) for k in held)
            if self._sent.guard is not None:
                total = self._sent.guard.repaired(total, len(held), "dropped")
            self._opened[slot] = total, cells(total)
        total, found = self._opened[slot]
        if spy is None:
            return found
        if (slot, spy) not in self._without:
            self._without[slot, spy] = cells(remainder(total, self._message(spy, slot)))
        return self._without[slot, spy]

    def _message(self, k: int, slot: Slot) -> Message:
        return self._sent.message(k, slot, self._parts[k][slot])


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
