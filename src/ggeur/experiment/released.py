"""What clients send before training, message by message, with the samples behind each.

It is made by the functions that a run calls, so it is what the code sends.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ggeur.core.errors import GgeurError
from ggeur.core.site_statistics import Covariance, SiteStatistics
from ggeur.core.types import Bool, Float, Int
from ggeur.experiment.setup import Setup
from ggeur.experiment.trial_data import chosen_by_rule
from ggeur.federation.augmentation_plan import about_center, by_home
from ggeur.federation.local_clients import Clients
from ggeur.federation.noisy_statistics import ALL, Guard
from ggeur.federation.selection_rule import folds_of, sample_folds
from ggeur.methods.algorithm import Algorithm, ClosedForm, Iterative, Reference, Selection, Task


class Slot(NamedTuple):
    """Which messages of different clients are added up: of a domain, where these are apart, and of a fold."""

    domain: int = ALL
    fold: int = 0


@dataclass(frozen=True)
class Released:
    """The messages that clients send in round 0, made when they are asked for; folds have `least` samples of a
    group.
    """

    setup: Setup
    clients: Clients
    seed: int
    least: int = 0
    task: Task | None = None  # where there is text, `auto` leaves classes out by it, too

    @cached_property
    def algorithm(self) -> Algorithm:
        """What the messages are for; under noise, what `auto` takes by a rule before anything is sent."""
        found = self.setup.algorithm
        if isinstance(found, Selection) and self.task is not None:
            found = found.of_task(self.task)
        if isinstance(found, Selection) and self.setup.settings.privacy.epsilon is not None:
            choice = chosen_by_rule(self.setup, self.clients.n_classes, len(self.clients.parts))
            return found.candidates[choice.taken].solved
        return found

    @cached_property
    def kind(self) -> Covariance | None:
        """What sites must send, if anything."""
        if isinstance(self.algorithm, Reference):
            raise GgeurError(
                f"'{self.setup.settings.train.method}' is a bound, no federation: nothing is sent.",
                code="method-not-federation",
            )
        if isinstance(self.algorithm, ClosedForm | Selection):
            return self.algorithm.needs
        return self.setup.needs if isinstance(self.algorithm, Iterative) else None

    def parts(self, k: int) -> dict[Slot, Int]:
        """The samples behind each message of client `k`: by fold where a head is chosen, by domain where it asks so."""
        algorithm, samples = self.algorithm, self.clients.parts[k]
        y, home = self.clients.y[samples], self.clients.domains[samples]
        start = algorithm if isinstance(algorithm, ClosedForm) else self.setup.start
        apart = isinstance(algorithm, Selection) or (start is not None and start.apart is not None)
        domains, fold = home if apart else np.full_like(samples, ALL), np.zeros_like(samples)
        if isinstance(algorithm, Selection):
            together = self.setup.settings.privacy.secure_aggregation
            fold = sample_folds(y, home, algorithm.folds, self.seed, k, self.least, together=together)
        both = np.unique(np.stack([domains, fold]), axis=1).T
        found = {Slot(int(d), int(f)): samples[(domains == d) & (fold == f)] for d, f in both}
        return found if apart else found or {Slot(): samples}

    def groups_out(self, k: int) -> dict[Slot, Int]:
        """The samples of client `k` in groups that are left out whole, where moments without them are sent beside
        all.
        """
        algorithm, samples = self.algorithm, self.clients.parts[k]
        if not isinstance(algorithm, Selection) or self.kind != "pooled":  # of every class, groups are in sums of folds
            return {}
        y, home, found = self.clients.y[samples], self.clients.domains[samples], {}
        by_text = self.task is not None and bool(self.task.text) and algorithm.wants_text
        folds = folds_of(self.clients.group_counts(), algorithm.folds, self.seed, by_text=by_text)
        left = enumerate(fold.groups for fold in folds)
        for number, groups in ((number, groups) for number, groups in left if groups is not None):
            for d in np.unique(home).tolist():
                if len(mine := samples[(home == d) & groups[home, y]]):
                    found[Slot(d, number)] = mine
        return found

    @cached_property
    def guard(self) -> Guard | None:
        """What makes messages noisy, if anything does."""
        return None if self.kind is None else self.setup.guard(self.kind, self.seed)

    def message(self, k: int, slot: Slot, samples: Int) -> SiteStatistics:
        """What client `k` sends of its `samples` in a slot."""
        message = self._message(samples, self.center)
        if self.guard is None:
            return message
        parts, home = self.clients.parts, self.clients.domains
        sharing = [samples for samples in parts if slot.domain == ALL or (home[samples] == slot.domain).any()]
        return self.guard.message(message, k, slot.domain, len(sharing))

    def seen(self, k: int) -> Iterator[tuple[Int, SiteStatistics]]:
        """What a server sees of client `k`, with the samples behind each; of secure aggregation it sees none."""
        if self.setup.settings.privacy.secure_aggregation:
            return
        for slot, samples in (self.parts(k) | self.groups_out(k)).items():
            message = self.message(k, slot, samples)
            yield samples, message if self.guard is None else self.guard.repaired(message, 1, "dropped")

    def _message(self, samples: Int, center: Float | None) -> SiteStatistics:
        assert self.kind is not None
        return self.clients.message(samples, self.kind, center)

    def of_client(self, k: int) -> SiteStatistics:
        """All that client `k` sends, added up."""
        parts = self.parts(k) or {Slot(): self.clients.parts[k]}  # one without samples says that
        return SiteStatistics.merge(self.message(k, slot, samples) for slot, samples in parts.items())

    @cached_property
    def center(self) -> Float | None:
        """About which the server asks for moments, where zero would lose digits."""
        parts = [samples for k in range(len(self.clients.parts)) for samples in self.parts(k).values()]
        if self.setup.settings.privacy.epsilon is not None:  # moments are about zero, a public point
            return None
        found = about_center(
            lambda center: SiteStatistics.merge(self._message(samples, center) for samples in parts)
        ).center
        return found if found.any() else None

    def total(self, classes: Bool | None = None) -> SiteStatistics:
        """The sum of all messages; of client k only the `classes` (K, C) marked in its sample."""
        each = ((k, self.of_client(k)) for k in range(len(self.clients.parts)))
        total = SiteStatistics.merge(m if classes is None else m.only(classes[k]) for k, m in each)
        return total if self.guard is None else self.guard.repaired(total, len(self.clients.parts), "dropped")

    def means(self) -> Iterator[SiteStatistics]:
        """Each client's message without second moments."""
        return (self.of_client(k).of_kind("none") for k in range(len(self.clients.parts)))

    def by_home(self, homes: Sequence[int | None]) -> dict[int, SiteStatistics]:
        """Those of the clients of each domain added up."""
        return by_home(self.means(), homes)
