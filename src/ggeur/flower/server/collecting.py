"""Collect sites' statistics one by one; `secure_statistics` collects them by secure aggregation."""

from pathlib import Path
from typing import NamedTuple, Protocol

from ggeur.flower.server.agreement import Agreement, Client
from ggeur.flower.server.received import ReceivedStatistics, collect
from ggeur.flower.server.roster import Roster
from ggeur.flower.wire.ask import Answer, Question
from ggeur.flower.wire.check import checked_sums
from ggeur.flower.wire.requested import RequestedStatistics
from ggeur.stats.units import SampleMoments, Units


class Collector(Protocol):
    """Collects sites' statistics, one by one or by secure aggregation."""

    def units(self, agreement: Agreement) -> Units:
        """Return the units of all sites' training samples."""

    def statistics(
        self, agreement: Agreement, wanted: RequestedStatistics, folder: Path, units: Units | None
    ) -> ReceivedStatistics:
        """Collect the `wanted` statistics of samples in `units` into `folder`."""


class EachSite(NamedTuple):
    """Collect the statistics of each site of `roster`, checked one by one."""

    roster: Roster

    def units(self, agreement: Agreement) -> Units:
        def read(client: Client, answer: Answer) -> SampleMoments:
            return checked_sums(answer.arrays, agreement.dimension, client.hello.samples)

        question = Question("query.sums", {}, {})
        answers = self.roster.ask(self.roster.present, lambda client: question, read, 0)
        moments = {client.index: found for client, _, found in answers}
        self.roster.require_enough()
        return SampleMoments.merge(found for _, found in sorted(moments.items())).units

    def statistics(
        self, agreement: Agreement, wanted: RequestedStatistics, folder: Path, units: Units | None
    ) -> ReceivedStatistics:
        return collect(self.roster, agreement, wanted, folder, units)
