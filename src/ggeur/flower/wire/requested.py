"""Which messages a site is asked for, and of which of its samples each is: both ends count them out alike."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ggeur.stats.site_statistics import Covariance
from ggeur.stats.types import Bool, Float, Int

ALL = -1  # domains


class RequestedPart(NamedTuple):
    """Those samples of a site that have a message of their own."""

    domain: int = ALL

    @property
    def prefix(self) -> str:
        """Return the prefix of its arrays' names; a message of all samples has none."""
        return "" if self == RequestedPart() else f"{self.domain}."


class RequestedStatistics(NamedTuple):
    """The statistics that every site is asked for: moments of that `kind`, by domain where that is needed.

    Noisy statistics cannot be checked against earlier counts.
    """

    kind: Covariance
    by_domain: bool = False
    noisy: bool = False

    @classmethod
    def read(cls, facts: Mapping[str, Any]) -> "RequestedStatistics":
        """Return the request that a message holds."""
        return cls(facts["kind"], bool(facts["by_domain"]))

    @property
    def facts(self) -> dict[str, Any]:
        """Return the request as a message holds it."""
        return {"kind": self.kind, "by_domain": self.by_domain}

    def parts(self, domains: Sequence[int]) -> list[RequestedPart]:
        """Return the parts that a site with samples of these `domains` sends; one without samples sends one, empty."""
        return [RequestedPart(d) for d in (domains if self.by_domain and domains else [ALL])]


def samples_of(part: RequestedPart, domains: Int) -> Bool:
    """(n,): which samples, of these `domains`, are of `part`."""
    return np.ones(len(domains), np.bool_) if part.domain == ALL else np.asarray(domains == part.domain)


def announced(part: RequestedPart, held: Int) -> Float:
    """(C,): how many samples `part` must be of, of a site with `held` (D, C)."""
    return np.asarray(held.sum(axis=0) if part.domain == ALL else held[part.domain], np.float64)
