"""A federation of real machines over Flower: its sites agree, send their statistics once, and score a head.

What sites have sent is kept in files, so that every later question about it is answered without asking again.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ggeur.experiments.setup import Setup
from ggeur.federation.protocol import SiteInfo
from ggeur.federation.summary import repaired_total
from ggeur.flower.server.agreement import Agreement, Client
from ggeur.flower.server.collecting import Collector
from ggeur.flower.server.received import ReceivedStatistics
from ggeur.flower.server.received_features import collect_features
from ggeur.flower.server.roster import Roster
from ggeur.flower.server.round_zero import packed
from ggeur.flower.server.scores import LastScores, last_scores
from ggeur.flower.server.secure_aggregation import LostSite
from ggeur.flower.wire.ask import Question
from ggeur.flower.wire.packing import tree_to_arrays
from ggeur.flower.wire.requested import RequestedStatistics
from ggeur.heads.head import Params
from ggeur.stats.errors import GgeurError
from ggeur.stats.site_statistics import FederationStatistics, SiteStatistics, StatisticsQuery
from ggeur.stats.units import Units

Query = Callable[[Agreement], StatisticsQuery | None]


class FlowerFederation:
    """The sites of `roster`, whose answers a `collector` keeps in `folder`; `setup` says how they are protected."""

    def __init__(self, roster: Roster, collector: Collector, folder: Path, setup: Setup) -> None:
        self._roster, self._collector, self._folder, self._setup = roster, collector, folder, setup
        self._agreement: Agreement | None = None
        self._received: ReceivedStatistics | None = None
        self._units: Units | None = None

    def collect(self, query: Query, end: float | None = None) -> Agreement:
        """Agree with the sites, and ask them once for what answers the `query` of what they agree on.

        Until `end`, of the monotonic clock, it waits for sites that are lost meanwhile.
        """
        agreement, roster = self._agree(), self._roster
        noisy = not self._setup.release.exact
        while True:
            try:
                self._units = self._collector.units(agreement) if self._setup.standardise else None
                asked, wanted, received = set(roster.clients), query(agreement), None
                if wanted is not None:
                    requested = RequestedStatistics(wanted.covariance, wanted.by_domain, noisy=noisy)
                    received = self._collector.statistics(agreement, requested, self._folder, self._units)
            except LostSite:  # under secure aggregation nothing is known of any site yet, and the others begin again
                roster.require_enough()
                agreement = self._announce()
                continue
            if end is not None and roster.await_lost(end):  # those that have answered are not asked again
                agreement = self._announce()
                continue
            self._agreement, self._received = agreement, received
            if received is not None and received.sites:  # which cannot be asked again, with others
                return agreement
            roster.require_enough()
            same_classes = Agreement.of(roster.known).classes == agreement.classes
            if asked == set(roster.clients) or (same_classes and self._units is None):
                return agreement
            agreement = self._announce()  # without a site that is left out, classes and units may be others

    @property
    def sites(self) -> Sequence[SiteInfo]:
        """Return the sites that take part."""
        clients = self._roster.known
        counts, homes = self.agreement.counts(clients), self.agreement.homes(clients)
        return [SiteInfo(f"client {c.index}", n, home) for c, n, home in zip(clients, counts, homes, strict=True)]

    def statistics(self, query: StatisticsQuery) -> FederationStatistics:
        """Return the total of what sites have sent, and as much of it apart as `query` asks for."""
        if query.features is not None:
            senders, units = self.received.senders, packed(self._units)
            return collect_features(self._roster, self.agreement, query.features, self._folder, senders, units)
        kind, release = query.covariance, self._setup.release
        messages = ((d, message.of_kind(kind)) for d, message in self._messages(query))
        if release.exact:
            return FederationStatistics.of(messages, query.apart)
        return repaired_total(release, messages, self.received.clients(), query.apart, query.repair)

    def units(self) -> Units:
        """Return the units of all training samples."""
        return self._collector.units(self.agreement)

    def evaluate(self, head: str, params: Params, clients: Sequence[Client]) -> LastScores:
        """Return the scores of a head by `clients`; whoever sends none is missing, but what it sent before counts."""
        self._roster.closed = True
        arrays, shape = tree_to_arrays(params, "head")
        question = Question("query.score", {"kind": head, "head": shape}, arrays | packed(self._units))
        return last_scores(self._roster, clients, question, self.agreement, 0)

    @property
    def agreement(self) -> Agreement:
        """Return what the sites that have answered have in common."""
        assert self._agreement is not None, "collect first"
        return self._agreement

    @property
    def received(self) -> ReceivedStatistics:
        """Return what sites have sent."""
        return self._received or ReceivedStatistics(RequestedStatistics("none"), {})

    @property
    def sample_units(self) -> Units | None:
        """Return the units that sites take their samples in; None where they take them as they lie there."""
        return self._units

    def _messages(self, query: StatisticsQuery) -> Iterator[tuple[int, SiteStatistics]]:
        """Every message, with what it is kept apart by."""
        if query.apart is None or query.by_domain:
            if query.classes is None:
                yield from self.received.by_domain()
            else:
                each = zip(self.received.by_site(), query.classes, strict=True)
                yield from ((0, message.only(classes)) for message, classes in each)
            return
        means_only = query.covariance == query.apart.kind == "none"
        for site, message in zip(self.sites, self.received.by_site(means=means_only), strict=True):
            yield -1 if site.home is None else site.home, message

    def _agree(self) -> Agreement:
        """Refuse sites whose embeddings cannot be compared with those of most, and fix the classes and domains."""
        roster = self._roster
        if roster.agreement is None:
            for client in roster.absent:
                roster.leave_out(client, 0, "it left before anything was agreed on")
        basis = Agreement.of_most(roster.present)
        for client in roster.present:
            try:
                basis.check(client)
            except GgeurError as error:
                roster.drop(client, 0, str(error))
        roster.require_enough()
        if roster.settings.test_table is None and not any(client.hello.test for client in roster.present):
            raise GgeurError(
                "No site has test samples: name a table on the server with [federate] test_table.",
                code="test-samples-missing",
            )
        return self._announce()

    def _announce(self) -> Agreement:
        """Return what those that take part have in common, which from now on every message says."""
        agreement = Agreement.of(self._roster.known)
        self._roster.agreement = agreement
        self._roster.common |= {"classes": agreement.classes, "domains": agreement.domains}
        return agreement
