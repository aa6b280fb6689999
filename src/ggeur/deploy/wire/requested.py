"""Which messages a site is asked for, and of which of its samples each is: both ends count them out alike."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ggeur.core.site_statistics import Covariance
from ggeur.core.types import Bool, Float, Int

ALL = -1  # domains, or folds


class RequestedPart(NamedTuple):
    """Those samples of a site that have a message of their own."""

    domain: int = ALL
    fold: int = ALL

    @property
    def prefix(self) -> str:
        """What the names of its arrays begin with; of a message of all samples, nothing."""
        return "" if self == RequestedPart() else f"{self.domain}.{self.fold}."


class RequestedStatistics(NamedTuple):
    """What every site is asked for: moments of that `kind`, where that is needed domain by domain.

    To leave samples out, a message for each of so many `folds` of samples. To leave `groups` (any, D, C) out of moments
    that are pooled, from which they cannot be dropped later, also one of all samples but those, for each fold of
    groups. What is `protected` cannot be held against what a site said before: there is noise in it, or folds are
    uneven.
    """

    kind: Covariance
    by_domain: bool = False
    folds: int = 0
    groups: Bool | None = None
    protected: Literal["noise", "folds"] | None = None

    @classmethod
    def read(cls, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> "RequestedStatistics":
        """What a message asks for."""
        return cls(facts["kind"], bool(facts["by_domain"]), int(facts["folds"]), arrays.get("groups"))

    @property
    def facts(self) -> dict[str, Any]:
        """All of it but the groups, which travel as an array."""
        return {"kind": self.kind, "by_domain": self.by_domain, "folds": self.folds}

    def parts(self, domains: Sequence[int]) -> list[RequestedPart]:
        """What a site with samples of these `domains` sends; one without samples says that, too."""
        folds = [ALL]
        if self.folds:
            groups = [] if self.groups is None else np.flatnonzero(self.groups.any(axis=(1, 2))).tolist()
            folds = [*range(self.folds), *(self.folds + k for k in groups)]
        return [RequestedPart(d, fold) for d in (domains if self.by_domain and domains else [ALL]) for fold in folds]

    def samples(self, part: RequestedPart, y: Int, domains: Int, fold: Int) -> Bool:
        """(n,): which samples are of `part`, where they are of classes `y`, of `domains`, and each of a `fold`."""
        mine = domains == part.domain if part.domain != ALL else np.ones(len(y), np.bool_)
        if part.fold == ALL:
            return mine
        if part.fold < self.folds:
            return np.asarray(mine & (fold == part.fold))
        assert self.groups is not None
        return np.asarray(mine & ~self.groups[part.fold - self.folds][domains, y])

    def announced(self, part: RequestedPart, held: Int) -> tuple[Float, int]:
        """(C,): the samples of which `part` is a share, of a site with `held` (D, C); and one in how many it is."""
        own = held.sum(axis=0) if part.domain == ALL else held[part.domain]
        if part.fold < self.folds:
            return own.astype(np.float64), self.folds if part.fold != ALL else 1
        assert self.groups is not None
        return np.where(self.groups[part.fold - self.folds, part.domain], 0.0, own), 1
