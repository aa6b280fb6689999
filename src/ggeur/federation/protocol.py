"""The seam: a federation is asked for statistics, and answers, wherever its sites are.

`LocalFederation` has clients of one table in this process, `StoredFederation` has statistics that sites have sent, and
`FlowerFederation` asks real machines. What is computed from the answers is written once, above them.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ggeur.stats.site_statistics import FederationStatistics, StatisticsQuery
from ggeur.stats.types import Int
from ggeur.stats.units import Units


class SiteInfo(NamedTuple):
    """A site, as far as it is public."""

    name: str
    counts: Int  # (C,) training samples; zeros where they are hidden
    home: int | None = None  # the domain of all its samples; None where it has several, or none


class Federation(Protocol):
    """Sites that answer."""

    @property
    def sites(self) -> Sequence[SiteInfo]:
        """Return who takes part, in the order of the sites' numbers."""

    def statistics(self, query: StatisticsQuery) -> FederationStatistics:
        """Return the statistics of all sites, added up; of noisy ones, what they are repaired to."""

    def units(self) -> Units:
        """Return the units of all sites' training samples."""
