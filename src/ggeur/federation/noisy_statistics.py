"""Messages under noise, and their total as a geometry again.

In a simulation the noise is drawn from the run's seed, so that a run can be repeated: it shows what privacy costs, and
protects nobody. On real machines it comes from the operating system.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from ggeur.core.errors import GgeurError
from ggeur.core.seeding import generator
from ggeur.core.site_statistics import Breakdown, Covariance, FederationStatistics, SiteStatistics
from ggeur.federation.summary import protect
from ggeur.privacy.noise import Mechanism, Noise
from ggeur.privacy.repair import M, Under, repaired
from ggeur.privacy.secure_aggregation import FEWEST

ALL = -1  # domains


class Guard(NamedTuple):
    """How clients protect what they send: one message each, of one kind, whatever is then read off it."""

    mechanism: Mechanism
    kind: Covariance
    min_count: int = 0  # that a noisy total must have of a class
    seed: int | None = None  # of a simulation's noise

    def message(self, message: SiteStatistics, client: int, domain: int, clients: int) -> SiteStatistics:
        """Return what `client`, one of so many, sends in place of `message`, of samples of `domain`."""
        if self.seed is None:
            return protect(message, self.mechanism, clients)
        normals = generator(self.seed, "privacy", client, domain + 1).standard_normal
        return protect(message, self.mechanism, clients, normals)

    def repaired(self, total: M, clients: int, under: Under) -> M:
        """The `total` of the noisy messages of so many `clients`."""
        return repaired(total, self._noise(clients), self.mechanism.radius, self.min_count, under)

    def _noise(self, clients: int) -> Noise:
        return self.mechanism.noise(self.kind, clients).of_sum(clients)

    def total(
        self,
        sent: Iterable[tuple[int, SiteStatistics]],
        clients: Mapping[int, int],
        apart: Breakdown | None = None,
        under: Under = "levelled",
    ) -> FederationStatistics:
        """Return what noisy messages that were `sent`, each with its domain, by so many `clients` of each, come to."""
        if apart is not None and apart.of in ("client", "site"):
            raise GgeurError(
                "Under [privacy] epsilon no head can be solved from the means of single clients.",
                code="privacy-head-from-means",
            )
        if self.mechanism.unit == "client" and set(clients) != {ALL}:
            raise GgeurError(
                'With unit = "client" a client sends one message, and this head needs one for each domain; take ridge.',
                code="privacy-client-unit-domains",
            )
        for domain, many in clients.items():
            if self.mechanism.secure and many < FEWEST:
                whose = "The federation" if domain == ALL else "A domain whose statistics are kept apart"
                raise GgeurError(
                    f"{whose} has {many} clients, and a secure aggregation needs {FEWEST}: "
                    "of two, each could take its own part off.",
                    code="secure-aggregation-too-few-sites",
                )
        total = FederationStatistics.of(sent, apart)
        noise = {domain: self._noise(many) for domain, many in clients.items()}
        whole = sum(noise.values(), Noise(0.0, 0.0, 0.0))
        ball = self.mechanism.radius
        parts = tuple(
            repaired(part, noise[d], ball, self.min_count, under)
            for d, part in zip(total.domain, total.apart, strict=True)
        )
        made = repaired(total, whole, ball, self.min_count, under)
        if not made.present.any():
            raise GgeurError(
                f"Nothing is left of any class under the noise of epsilon = {self.mechanism.epsilon:g}"
                + (f" and min_count = {self.min_count}" if self.min_count else "")
                + ": use a larger epsilon, secure aggregation, or more samples.",
                code="privacy-noise-excessive",
            )
        return replace(made, apart=parts)
