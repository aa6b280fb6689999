"""What a server sees of each client's features, where a solver asks for their statistics, and attacks on it."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from ggeur.experiments.released import Released
from ggeur.methods.algorithm import ClosedForm, Task
from ggeur.privacy.attacks import Group
from ggeur.privacy.feature_attacks import unturned_rows
from ggeur.stats.features import FeatureQuery
from ggeur.stats.site_statistics import SiteStatistics
from ggeur.stats.types import Float

NEAR = 1e-3  # of a sample's norm: a recovered sample so near is that sample, as sums of features are in float32
_ROUNDING = 1e-7  # of the scatter of features, over their sum of squares


class FeatureObserver:
    """The server, of the statistics of features that clients send beside those that are `released`."""

    def __init__(self, sent: Released, task: Task) -> None:
        assert isinstance(sent.algorithm, ClosedForm) and sent.algorithm.features is not None
        self._clients, self._ask = sent.clients, sent.algorithm.features
        self._statistics, self._task = sent.federation.statistics(sent.algorithm.query), task
        self._seen: tuple[int, SiteStatistics] | None = None

    @cached_property
    def asked(self) -> FeatureQuery:
        """Return what all clients are asked for."""
        return self._ask(self._statistics, self._task)

    def message(self, k: int) -> SiteStatistics:
        """Return what client `k` sends; the last is kept."""
        if self._seen is None or self._seen[0] != k:
            c, own = self._clients, self._clients.parts[k]
            self._seen = k, self.asked.statistics(c.x[own], c.y[own], c.domains[own], c.n_classes)
        return self._seen[1]

    def recovered(self, k: int, c: int, group: Group) -> Float | None:
        """Return the samples of class `c` at client `k`, whose `group` is known, where they are found; else None."""
        s = self.message(k)
        if s.count[c] <= 0 or self.asked.map.kind != "kernel":  # tables have steps, which descent cannot follow
            return None
        return unturned_rows(group, group.n * (s.sum[c] / s.count[c] + s.center), self.asked.map)

    def likeness(self, k: int, c: int, samples: NDArray[np.floating]) -> Float:
        """(m,): membership scores of `samples`: how near their features are to those of class `c` at client `k`.

        Near is in terms of the client's own scatter, which has next to nothing outside the span of its samples.
        """
        s = self.message(k)
        scatter = s.scatter_of(0)
        floor = _ROUNDING * float(np.trace(s.second[0])) or 1.0
        z = self.asked.map(samples) - s.center - s.sum[c] / s.count[c]
        return np.asarray(-(z.T * cho_solve(cho_factor(scatter + floor * np.eye(len(scatter))), z.T)).sum(axis=0))
