"""Round 0 as messages: sites agree, their statistics are collected, and it is laid out who draws what.

Each site is then sent what it draws along, makes its training set, and sends what its method sends before round 1.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ggeur.core.errors import GgeurError
from ggeur.core.site_statistics import largest
from ggeur.core.units import Units
from ggeur.deploy.server.agreement import Agreement
from ggeur.deploy.server.collecting import Collector
from ggeur.deploy.server.received import ReceivedStatistics
from ggeur.deploy.server.roster import Roster
from ggeur.deploy.server.round_zero import RoundZero
from ggeur.deploy.server.secure_aggregation import LostSite
from ggeur.deploy.wire.requested import RequestedStatistics
from ggeur.federation.augmentation import Augmentation
from ggeur.federation.augmentation_plan import plan_augmentation
from ggeur.methods.algorithm import ClosedForm


def open_federation(
    roster: Roster,
    collector: Collector,
    a: Augmentation,
    start: ClosedForm | None,
    folder: Path,
    *,
    standardise: bool = False,
) -> tuple[RoundZero, ReceivedStatistics | None]:
    """Agree with the sites of `roster`, collect their statistics, and lay out everybody's training set.

    Of statistics those are asked for that the augmentation `a` needs, and `start`, which solves the first head. They
    are kept in `folder`, and returned beside what round 0 came to. To `standardise` is to find the federation's units
    first.
    """
    kind = largest([a.needs, start and start.needs])
    wanted = (
        None if kind is None else RequestedStatistics(kind, by_domain=start is not None and start.apart is not None)
    )
    opened = agree_and_collect(roster, collector, lambda agreement: wanted, folder, standardise=standardise)
    return _round_zero(roster, a, opened), opened.sums


class OpenedFederation(NamedTuple):
    """What sites have in common, the units they take their samples in, if not as they lie there, and what they sent."""

    agreement: Agreement
    units: Units | None
    sums: ReceivedStatistics | None


def agree_and_collect(
    roster: Roster,
    collector: Collector,
    wanted: Callable[[Agreement], RequestedStatistics | None],
    folder: Path,
    *,
    standardise: bool,
) -> OpenedFederation:
    """Agree with the sites of `roster`; what is `wanted` of those that agree comes by `collector` into `folder`."""
    agreement = _agree(roster)
    while True:
        try:
            units, sums = collector.units(agreement) if standardise else None, None
            asked, want = set(roster.clients), wanted(agreement)
            if want is not None:
                sums = collector.statistics(agreement, want, folder, units)
        except LostSite:  # under masks nothing is known of any site yet, and the others begin again
            roster.require_enough()
            agreement = _announce(roster)
            continue
        if sums is not None and sums.sites:  # which cannot be asked again, with others
            return OpenedFederation(agreement, units, sums)
        roster.require_enough()
        same_classes = Agreement.of(roster.known).classes == agreement.classes
        if asked == set(roster.clients) or (same_classes and units is None):
            return OpenedFederation(agreement, units, sums)
        agreement = _announce(roster)  # of a site that is left out, no classes or units are left in this run


def _agree(roster: Roster) -> Agreement:
    """Refuse sites whose embeddings cannot be compared with those of most, and fix the classes and domains."""
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
    return _announce(roster)


def _announce(roster: Roster) -> Agreement:
    """Return what those that take part have in common, which from now on every message says."""
    roster.agreement = Agreement.of(roster.known)
    roster.common |= {"classes": roster.agreement.classes, "domains": roster.agreement.domains}
    return roster.agreement


def _round_zero(roster: Roster, a: Augmentation, opened: OpenedFederation) -> RoundZero:
    """Who draws what along which shapes."""
    agreement, clients, sums = (
        opened.agreement,
        roster.known,
        opened.sums or ReceivedStatistics(RequestedStatistics("none"), {}),
    )
    count, homes, p = agreement.counts(clients), agreement.homes(clients), agreement.dimension
    if a.noise is not None:
        roster.journal("merging", clients=len(clients), classes=count.shape[1], dimension=p)
    layout, shapes, notes = plan_augmentation(sums, a, count, homes, p, "the sites are not of several domains")
    for note in notes:
        roster.journal("note", why=note)
    return RoundZero(agreement, clients, layout, shapes, opened.units)
