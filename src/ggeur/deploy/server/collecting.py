"""How what sites have to add comes to the server: each site's by itself; under masks, as `secure_spool` has it."""

from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from ggeur.core.types import Int
from ggeur.core.units import RowSums, Units
from ggeur.deploy.server.agreement import Agreement, Client
from ggeur.deploy.server.roster import Roster
from ggeur.deploy.server.spool import Spool, collect
from ggeur.deploy.wire.ask import Answer, Question
from ggeur.deploy.wire.check import checked_sums
from ggeur.deploy.wire.wanted import Wanted


class Collector(Protocol):
    """How what sites have to add comes to the server: each site's by itself, or added up under masks."""

    def units(self, agreement: Agreement) -> Units:
        """Of all sites' training rows."""

    def statistics(self, agreement: Agreement, wanted: Wanted, folder: Path, units: Units | None) -> Spool:
        """Of their rows in `units`, what is `wanted`, kept in `folder`."""

    def rows(self, agreement: Agreement) -> Int:
        """(D, C): the training rows that all who take part hold together."""


class EachSite(NamedTuple):
    """Every site of `roster` sends its own, which is checked by itself."""

    roster: Roster

    def units(self, agreement: Agreement) -> Units:
        def read(client: Client, answer: Answer) -> RowSums:
            return checked_sums(answer.arrays, agreement.dimension, client.hello.rows)

        question = Question("query.sums", {}, {})
        answers = self.roster.ask(self.roster.present, lambda client: question, read, 0)
        sums = {client.index: found for client, _, found in answers}
        self.roster.require_enough()
        return RowSums.merge(found for _, found in sorted(sums.items())).units

    def statistics(self, agreement: Agreement, wanted: Wanted, folder: Path, units: Units | None) -> Spool:
        return collect(self.roster, agreement, wanted, folder, units)

    def rows(self, agreement: Agreement) -> Int:
        return np.asarray(np.sum([agreement.cells(client) for client in self.roster.known], axis=0))
