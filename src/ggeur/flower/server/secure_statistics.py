"""Sites' statistics under secure aggregation: what comes is their total, which alone is checked and kept."""

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ggeur.federation.summary import far_center
from ggeur.flower.server.agreement import Agreement
from ggeur.flower.server.received import File, ReceivedStatistics, file_name, statistics_question
from ggeur.flower.server.roster import Roster
from ggeur.flower.server.secure_aggregation import SecureAggregation, Sum
from ggeur.flower.wire.blocks import reach, statistics_blocks, sums_blocks
from ggeur.flower.wire.check import checked_message, checked_noise
from ggeur.flower.wire.packing import MESSAGE, Arrays
from ggeur.flower.wire.requested import ALL, RequestedPart, RequestedStatistics
from ggeur.privacy.secure_aggregation import FEWEST
from ggeur.privacy.secure_aggregation.fixed_point import places
from ggeur.stats.errors import GgeurError
from ggeur.stats.site_statistics import SiteStatistics
from ggeur.stats.storage import read_arrays, write_atomically
from ggeur.stats.types import Int
from ggeur.stats.units import SampleMoments, Units

_DIGITS = 1e-7  # of the largest second moment, that must be kept
TOTAL = -1  # stands for all sites where each would have a number


class MaskedStatistics(NamedTuple):
    """Sites of `roster` add up under masks, by `aggregation`; their samples are no longer than `radius`."""

    roster: Roster
    aggregation: SecureAggregation
    radius: float

    def units(self, agreement: Agreement) -> Units:
        """From the total of number, squares and sum of all samples."""
        blocks = sums_blocks(agreement.dimension, self.radius)
        found = self.aggregation.total(Sum("samples and their squares", "sums", blocks)).arrays
        return SampleMoments(float(found["samples"]), found["sum"], float(found["square"])).units

    def statistics(
        self, agreement: Agreement, wanted: RequestedStatistics, folder: Path, units: Units | None
    ) -> ReceivedStatistics:
        """The total of the sites' messages, about zero, as statistics received in one file."""
        holders = self._holders(agreement) if wanted.by_domain else {}
        question = statistics_question(wanted, units, None)
        path = folder / f"total-{file_name(question, agreement, self.roster.known)}"
        shape = len(agreement.domains), len(agreement.classes), agreement.dimension
        blocks = statistics_blocks(wanted, *shape, reach(self.radius, units))
        try:
            kept = read_arrays(path)
        except GgeurError:  # not there, or damaged
            found = self.aggregation.total(Sum("statistics", "statistics", blocks, lambda client: question)).arrays
            kept = {**found, "sites": np.array(self.aggregation.sites)}
            folder.mkdir(parents=True, exist_ok=True)
            with write_atomically(path) as file:
                np.savez(file, allow_pickle=False, **kept)
        self.aggregation.sites = sites = tuple(kept["sites"].tolist())
        parts = wanted.parts(range(len(agreement.domains)))
        last = max(math.ldexp(len(sites), block.exponent - places(len(sites))) for block in blocks)
        samples = {part: _checked(kept, part, wanted, agreement, last) for part in parts}
        received = ReceivedStatistics(
            wanted, {TOTAL: File(path, samples)}, sites=sites, holders=holders or {ALL: len(sites)}
        )
        if wanted.noisy:
            return received
        total = received.total()
        if not total.count.any():
            raise GgeurError("The federation has no training samples at all.", code="training-samples-missing")
        _check_digits(total, last)
        return received._replace(merged=total)

    def _holders(self, agreement: Agreement) -> dict[int, int]:
        """How many sites have samples of each domain; a GgeurError where they are too few to hide each other."""
        among = [c for c in self.roster.known if self.aggregation.sites is None or c.index in self.aggregation.sites]
        held = np.sum([agreement.groups(client).any(axis=1) for client in among], axis=0)
        for name, many in zip(agreement.domains, held.tolist(), strict=True):
            if 0 < many < FEWEST:
                raise GgeurError(
                    f"This method needs the sums of every domain, and '{name}' has {many} "
                    f"{'site' if many == 1 else 'sites'}, where a secure aggregation needs {FEWEST}; take a head that "
                    f"needs "
                    "only the total, such as lda or ridge.",
                    code="secure-aggregation-too-few-sites",
                )
        return {domain: many for domain, many in enumerate(held.tolist()) if many}


def _check_digits(total: SiteStatistics, last: float) -> None:
    """Raise where the fixed point, by its `last` place, or moments about zero keep too little of the second moments."""
    if not len(total.second):
        return
    if last > _DIGITS * float(np.abs(total.second).max()):
        raise GgeurError(
            "Samples are so much shorter than [privacy] radius that a secure aggregation keeps fewer than seven "
            "digits of them; "
            "set a radius nearer to the length of the longest.",
            code="privacy-radius-too-large",
        )
    if far_center(total) is not None:
        raise GgeurError(
            "The mean of the samples is over a thousand times their spread from zero, and secure aggregation works "
            "about zero; "
            "take embeddings that are nearer to it, such as normalised ones.",
            code="embeddings-far-from-zero",
        )


def _checked(
    arrays: Arrays, part: RequestedPart, wanted: RequestedStatistics, agreement: Agreement, last: float
) -> Int:
    """(C,): the samples behind the total of `part`; a GgeurError if no data can have it, whoever's fault that is.

    Its `last` binary place is what the fixed point may be wrong by.
    """
    own = {name: arrays[part.prefix + name] for name in MESSAGE}
    classes, p = len(agreement.classes), agreement.dimension
    try:
        if wanted.noisy:
            found = checked_noise(own, wanted.kind, classes, p)
        else:
            found = checked_message(own, wanted.kind, classes, p, None, own["count"], rounding=last)
    except GgeurError as error:
        raise GgeurError(
            f"The total of the sites' statistics cannot be of any data, so a site sent a wrong vector: {error}.",
            code="secure-aggregation-total-invalid",
        ) from error
    return np.round(found.count).astype(np.int64)
