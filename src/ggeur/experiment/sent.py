"""What clients send before training, message by message, with the rows behind each.

It is made by the functions that a run calls, so it is what the code sends.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ggeur.core.errors import GgeurError
from ggeur.core.message import Message, Statistics
from ggeur.core.types import Bool, Float, Int
from ggeur.experiment.dealing import chosen_by_rule
from ggeur.experiment.setup import Setup
from ggeur.federation.choosing import folds_of, row_folds
from ggeur.federation.noisy import ALL, Guard
from ggeur.federation.settlement import about_center, by_home
from ggeur.federation.simulated import Clients
from ggeur.methods.algorithm import Algorithm, Bound, Chosen, Solved, Task, Trained


class Slot(NamedTuple):
    """Which messages of different clients are added up: of a domain, where these are apart, and of a fold."""

    domain: int = ALL
    fold: int = 0


@dataclass(frozen=True)
class Sent:
    """The messages that clients send in round 0, made when they are asked for; folds have `least` rows of a cell."""

    setup: Setup
    clients: Clients
    seed: int
    least: int = 0
    task: Task | None = None  # where there is text, `auto` leaves classes out by it, too

    @cached_property
    def algorithm(self) -> Algorithm:
        """What the messages are for; under noise, what `auto` takes by a rule before anything is sent."""
        found = self.setup.algorithm
        if isinstance(found, Chosen) and self.task is not None:
            found = found.of_task(self.task)
        if isinstance(found, Chosen) and self.setup.settings.privacy.epsilon is not None:
            choice = chosen_by_rule(self.setup, self.clients.n_classes, len(self.clients.parts))
            return found.candidates[choice.taken].solved
        return found

    @cached_property
    def kind(self) -> Statistics | None:
        """What sites must send, if anything."""
        if isinstance(self.algorithm, Bound):
            raise GgeurError(f"'{self.setup.settings.train.method}' is a bound, no federation: nothing is sent.")
        if isinstance(self.algorithm, Solved | Chosen):
            return self.algorithm.needs
        return self.setup.needs if isinstance(self.algorithm, Trained) else None

    def parts(self, k: int) -> dict[Slot, Int]:
        """The rows behind each message of client `k`: by fold where a head is chosen, by domain where it asks so."""
        algorithm, rows = self.algorithm, self.clients.parts[k]
        y, home = self.clients.y[rows], self.clients.domains[rows]
        start = algorithm if isinstance(algorithm, Solved) else self.setup.start
        apart = isinstance(algorithm, Chosen) or (start is not None and start.apart is not None)
        domains, fold = home if apart else np.full_like(rows, ALL), np.zeros_like(rows)
        if isinstance(algorithm, Chosen):
            together = self.setup.settings.privacy.secure_sum
            fold = row_folds(y, home, algorithm.folds, self.seed, k, self.least, together=together)
        both = np.unique(np.stack([domains, fold]), axis=1).T
        found = {Slot(int(d), int(f)): rows[(domains == d) & (fold == f)] for d, f in both}
        return found if apart else found or {Slot(): rows}

    def cells_out(self, k: int) -> dict[Slot, Int]:
        """The rows of client `k` in cells that are left out whole, where moments without them are sent beside all."""
        algorithm, rows = self.algorithm, self.clients.parts[k]
        if not isinstance(algorithm, Chosen) or self.kind != "pooled":  # of every class, cells are in sums of folds
            return {}
        y, home, found = self.clients.y[rows], self.clients.domains[rows], {}
        by_text = self.task is not None and bool(self.task.text) and algorithm.wants_text
        folds = folds_of(self.clients.cell_counts(), algorithm.folds, self.seed, by_text=by_text)
        left = enumerate(fold.cells for fold in folds)
        for number, cells in ((number, cells) for number, cells in left if cells is not None):
            for d in np.unique(home).tolist():
                if len(mine := rows[(home == d) & cells[home, y]]):
                    found[Slot(d, number)] = mine
        return found

    @cached_property
    def guard(self) -> Guard | None:
        """What makes messages noisy, if anything does."""
        return None if self.kind is None else self.setup.guard(self.kind, self.seed)

    def message(self, k: int, slot: Slot, rows: Int) -> Message:
        """What client `k` sends of its `rows` in a slot."""
        message = self._message(rows, self.center)
        if self.guard is None:
            return message
        parts, home = self.clients.parts, self.clients.domains
        sharing = [rows for rows in parts if slot.domain == ALL or (home[rows] == slot.domain).any()]
        return self.guard.message(message, k, slot.domain, len(sharing))

    def seen(self, k: int) -> Iterator[tuple[Int, Message]]:
        """What a server sees of client `k`, with the rows behind each; of secure sums it sees none."""
        if self.setup.settings.privacy.secure_sum:
            return
        for slot, rows in (self.parts(k) | self.cells_out(k)).items():
            message = self.message(k, slot, rows)
            yield rows, message if self.guard is None else self.guard.repaired(message, 1, "dropped")

    def _message(self, rows: Int, center: Float | None) -> Message:
        assert self.kind is not None
        return self.clients.message(rows, self.kind, center)

    def of_client(self, k: int) -> Message:
        """All that client `k` sends, added up."""
        parts = self.parts(k) or {Slot(): self.clients.parts[k]}  # one without rows says that
        return Message.merge(self.message(k, slot, rows) for slot, rows in parts.items())

    @cached_property
    def center(self) -> Float | None:
        """About which the server asks for moments, where zero would lose digits."""
        parts = [rows for k in range(len(self.clients.parts)) for rows in self.parts(k).values()]
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
