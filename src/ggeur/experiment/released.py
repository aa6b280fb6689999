"""What clients send before training, message by message, with the samples behind each.

It is made by the functions that a run calls, so it is what the code sends.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ggeur.core.errors import GgeurError
from ggeur.core.site_statistics import Breakdown, Covariance, FederationStatistics, SiteStatistics, StatisticsQuery
from ggeur.core.types import Float, Int
from ggeur.experiment.setup import Setup
from ggeur.experiment.trial_data import chosen_by_rule
from ggeur.federation.augmentation_plan import about_center
from ggeur.federation.local_federation import LocalFederation
from ggeur.federation.noisy_statistics import ALL
from ggeur.methods.algorithm import Algorithm, ClosedForm, Iterative, Reference, Selection
from ggeur.privacy.release import Release


@dataclass(frozen=True)
class Released:
    """The messages that clients send in round 0, made when they are asked for.

    Messages of different clients are added up by domain, where these are apart, or all of them (`ALL`).
    """

    setup: Setup
    clients: LocalFederation
    seed: int

    @cached_property
    def algorithm(self) -> Algorithm:
        """Return what the messages are for; under noise, what `auto` takes by a rule before anything is sent."""
        found = self.setup.algorithm
        if isinstance(found, Selection) and not self.release.exact:
            choice = chosen_by_rule(self.setup, self.clients.n_classes, len(self.clients.parts))
            return found.candidates[choice.taken].solved
        return found

    @cached_property
    def kind(self) -> Covariance | None:
        """Return what sites must send, if anything."""
        if isinstance(self.algorithm, Reference):
            raise GgeurError(
                f"'{self.setup.settings.train.method}' is a bound, no federation: nothing is sent.",
                code="method-not-federation",
            )
        if isinstance(self.algorithm, Selection):
            return self.algorithm.sends
        if isinstance(self.algorithm, ClosedForm):
            return self.algorithm.needs
        return self.setup.needs if isinstance(self.algorithm, Iterative) else None

    def parts(self, k: int) -> dict[int, Int]:
        """The samples behind each message of client `k`: by domain where the method asks so."""
        samples = self.clients.parts[k]
        if not self._by_domain:
            return {ALL: samples}
        home = self.clients.domains[samples]
        return {d: samples[home == d] for d in np.unique(home).tolist()}

    @property
    def _by_domain(self) -> bool:
        """Whether a client sends the samples of each domain by themselves."""
        if isinstance(self.algorithm, Selection):
            return True
        start = self.algorithm if isinstance(self.algorithm, ClosedForm) else self.setup.start
        return start is not None and start.apart is not None

    @cached_property
    def release(self) -> Release:
        """Return how clients protect what they send."""
        return self.setup.release.simulated(self.seed)

    def message(self, k: int, domain: int, samples: Int) -> SiteStatistics:
        """Return what client `k` sends of its `samples` of a `domain`, or of all."""
        message = self._message(samples, self.center)
        if self.release.exact:
            return message
        parts, home = self.clients.parts, self.clients.domains
        sharing = [samples for samples in parts if domain == ALL or (home[samples] == domain).any()]
        return self.release.apply(message, len(sharing), k, domain)

    def seen(self, k: int) -> Iterator[tuple[Int, SiteStatistics]]:
        """Return what a server sees of client `k`, with the samples behind each; of secure aggregation it sees none."""
        if self.setup.settings.privacy.secure_aggregation:
            return
        for domain, samples in self.parts(k).items():
            message = self.message(k, domain, samples)
            yield samples, self.release.repair(message, [1], "drop")

    def _message(self, samples: Int, center: Float | None) -> SiteStatistics:
        assert self.kind is not None
        return self.clients.message(samples, self.kind, center)

    @cached_property
    def center(self) -> Float | None:
        """About which the server asks for moments, where zero would lose digits."""
        parts = [samples for k in range(len(self.clients.parts)) for samples in self.parts(k).values()]
        if not self.release.exact:  # moments are about zero, a public point
            return None
        found = about_center(
            lambda center: SiteStatistics.merge(self._message(samples, center) for samples in parts)
        ).center
        return found if found.any() else None

    def total(self) -> FederationStatistics:
        """Return the total of all messages."""
        assert self.kind is not None
        apart = Breakdown(self.kind) if self._by_domain else None
        return self.federation.statistics(StatisticsQuery(self.kind, apart, repair="drop"))

    @cached_property
    def federation(self) -> LocalFederation:
        """Return the clients as a run asks them."""
        return replace(self.clients, release=self.release, sends=self.kind)
