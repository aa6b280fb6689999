"""What clients send before training, message by message, with the samples behind each.

It is made by the functions that a run calls, so it is what the code sends.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ggeur.experiments.setup import Setup
from ggeur.experiments.trial_data import chosen_by_rule
from ggeur.federation.augmentation_plan import AugmentationPlan, about_center, plan_augmentation
from ggeur.federation.local_federation import LocalFederation
from ggeur.federation.summary import ALL
from ggeur.methods.algorithm import Algorithm, ClosedForm, Iterative, Reference, Selection
from ggeur.privacy.attacks import Group, Spread, groups, remainder
from ggeur.privacy.release import Release
from ggeur.stats.errors import GgeurError
from ggeur.stats.site_statistics import Breakdown, Covariance, FederationStatistics, SiteStatistics, StatisticsQuery
from ggeur.stats.types import Float, Int


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


class TotalObserver:
    """Whoever holds the sums over all clients, one of each domain that is kept apart.

    A client among them takes its own off.
    """

    def __init__(self, sent: Released) -> None:
        self._sent = sent
        self._parts = [sent.parts(k) for k in range(len(sent.clients.parts))]
        self._opened: dict[int, tuple[SiteStatistics, dict[int, Group]]] = {}
        self._without: dict[tuple[int, int], dict[int, Group]] = {}

    def looks(self, k: int, c: int) -> Iterator[tuple[Group, Int]]:
        """Return what is known of the samples of class `c` at client `k`, with those samples, by each sum that they are
        in.

        The best placed of the others take off the most samples: of the class, or in all, which are pooled with it.
        """
        y = self._sent.clients.y
        for domain, samples in self._parts[k].items():
            if not len(mine := samples[y[samples] == c]):
                continue
            others = {i: own[domain] for i, own in enumerate(self._parts) if i != k and domain in own}
            spies: list[int | None] = [None]
            if others and self._sent.release.exact:  # of noisy messages, what is left is as the server saw it
                of_class = max(others, key=lambda i: int((y[others[i]] == c).sum()))
                spies += sorted({of_class, max(others, key=lambda i: len(others[i]))})
            for spy in spies:
                if (group := self._groups(domain, spy).get(c)) is not None:
                    yield group, mine

    def _groups(self, domain: int, spy: int | None) -> dict[int, Group]:
        if domain not in self._opened:
            held = [k for k, own in enumerate(self._parts) if domain in own]
            total = SiteStatistics.merge(self._message(k, domain) for k in held)
            total = self._sent.release.repair(total, [len(held)], "drop")
            self._opened[domain] = total, groups(total)
        total, found = self._opened[domain]
        if spy is None:
            return found
        if (domain, spy) not in self._without:
            self._without[domain, spy] = groups(remainder(total, self._message(spy, domain)))
        return self._without[domain, spy]

    def _message(self, k: int, domain: int) -> SiteStatistics:
        return self._sent.message(k, domain, self._parts[k][domain])


class OtherClient:
    """A client, of what it is sent about others: prototypes of other domains, and the shapes it draws along."""

    def __init__(self, sent: Released) -> None:
        self._clients, self._spreads = sent.clients, dict[int, Spread]()
        self._settled: AugmentationPlan | None = None
        if isinstance(sent.setup.algorithm, Iterative) and sent.setup.augmentation.needs is not None:
            self._settled = plan_augmentation(sent.federation, sent.setup.augmentation, sent.clients.x.shape[1], "")

    def group(self, k: int, c: int) -> Group | None:
        """Return what the best placed of the others knows of the samples of class `c` at client `k`."""
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
            return Group(1, prototype, spread)  # one sample, for all that the others know
        own = max((self._of_class(i, c) for i in drawing), key=len, default=())  # the likeliest to have been shared
        if spread is None or not len(own):
            return None
        return Group(0, np.mean(own, axis=0), spread)  # a mean of samples behind a shape lies in their span

    def _of_class(self, i: int, c: int) -> Float:
        samples = self._clients.parts[i]
        return np.asarray(self._clients.x[samples[self._clients.y[samples] == c]], np.float64)

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
