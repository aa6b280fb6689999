"""Who sees what of a federation before training, beside the server: another client, whoever holds the totals."""

from collections.abc import Iterator

import numpy as np

from ggeur.core.site_statistics import SiteStatistics
from ggeur.core.types import Float, Int
from ggeur.experiment.released import Released
from ggeur.federation.augmentation_plan import AugmentationPlan, plan_augmentation
from ggeur.methods.algorithm import Iterative
from ggeur.privacy.attacks import Group, Spread, groups, remainder


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
                if (group := self._cells(domain, spy).get(c)) is not None:
                    yield group, mine

    def _cells(self, domain: int, spy: int | None) -> dict[int, Group]:
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
