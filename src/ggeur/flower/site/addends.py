"""A site's addend to a secure aggregation, before masks: arrays as their blocks say, and facts that go in the
clear.
"""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from ggeur.flower.site.opening import messages, rows_of, sample_sums
from ggeur.flower.site.request import Facts, Request
from ggeur.flower.wire.blocks import (
    message_blocks,
    reach,
    statistics_blocks,
    sums_blocks,
    weighted,
)
from ggeur.flower.wire.packing import Arrays, pack_message
from ggeur.flower.wire.requested import ALL, RequestedStatistics
from ggeur.privacy.secure_aggregation import FEWEST
from ggeur.privacy.secure_aggregation.fixed_point import Block
from ggeur.stats.errors import GgeurError
from ggeur.stats.units import Units

Addend = tuple[Facts, list[Block], Arrays]
Holders = Counter[str | None]  # how many sites of the attempt have samples of a domain, by its name; of all, under None


def addend(request: Request, held: Sequence[Sequence[str]]) -> Addend:
    """Return the addend that `request` asks for; the sites of the attempt have signed which domains they `held`."""
    holders = Counter[str | None](domain for one in held for domain in set(one)) + Counter({None: len(held)})
    asks = str(request.facts["asks"])
    if not request.release.exact and asks != "statistics":
        raise GgeurError(
            f"under [privacy] epsilon or mechanism this site adds up statistics alone, and no {asks}",
            code="policy-epsilon-statistics-only",
        )
    if asks not in _ASKED:
        raise GgeurError(f"this site does not add up '{asks}'", code="site-sum-unknown")
    if asks in ("train", "prepare") and not np.array_equal(request.store.arrays("settings")[0], request.settings_hash):
        raise GgeurError(
            "this site's training set was made by other settings than those that come now",
            code="site-training-set-mismatch",
        )
    return _ASKED[asks](request, holders)


def statistics_by_domain(request: Request) -> bool:
    """Whether what `request` asks for is kept apart by domain."""
    return str(request.facts["asks"]) == "statistics" and bool(request.facts["by_domain"])


def _statistics(request: Request, holders: Holders) -> Addend:
    """Its messages, of every domain of the federation: zeros where it has no samples, else with its share of noise."""
    wanted, privacy, names = (
        RequestedStatistics.read(request.facts),
        request.point.privacy,
        request.facts["domains"],
    )
    units, release = request.arrays.get("units"), request.release
    if wanted.by_domain:
        _check_domains(request, holders)
    if wanted.by_domain and release.unit == "client":
        raise GgeurError(
            "under [privacy] epsilon or mechanism this site sends one message, and no more",
            code="policy-second-message",
        )
    if privacy.radius is None or "center" in request.arrays:
        raise GgeurError(
            "secure aggregation of statistics need [privacy] radius, and are about zero", code="site-radius-missing"
        )
    own, arrays = set(rows_of(request)[2].tolist()), Arrays()
    for part, message in messages(request, wanted, len(names)):
        if not release.exact and (part.domain == ALL or part.domain in own):
            many = holders[None if part.domain == ALL else names[part.domain]]
            message = release.apply(message, many)
        arrays |= pack_message(message, part.prefix)
        p = message.dimension
    far = reach(privacy.radius, None if units is None else Units.unpack(units))
    return {}, statistics_blocks(wanted, len(names), len(request.facts["classes"]), p, far), arrays


def _check_domains(request: Request, holders: Holders) -> None:
    """Raise where a domain of this site, whose sums are kept apart, has too few sites to hide it."""
    for domain in sorted(set(rows_of(request)[2].tolist())):
        name = request.facts["domains"][domain]
        if holders[name] < FEWEST:
            raise GgeurError(
                f"the sums of domain '{name}' would be of {holders[name]} sites, and a secure aggregation needs "
                f"{FEWEST}",
                code="policy-domain-sites-few",
            )


def _sums(request: Request, holders: Holders) -> Addend:
    """Number, squares and sum of its samples."""
    found, radius = sample_sums(request), request.point.privacy.radius
    if radius is None:
        raise GgeurError("secure aggregation of samples need [privacy] radius", code="site-radius-missing")
    arrays = {"samples": np.asarray(found.samples), "square": np.asarray(found.square), "sum": found.sum}
    return {}, sums_blocks(len(found.sum), radius), arrays


def _train(request: Request, holders: Holders) -> Addend:
    """Return the message of its method in a round; the scores of the head it was sent go in the clear."""
    from ggeur.flower.site.local_round import setup_of, trained

    (done, scores, own), kind = trained(request), request.point.train.weights
    adds = setup_of(request).trained.method.adds
    weight = {"samples": len(own.y), "original": own.originals, "equal": 1}[kind]
    arrays = weighted(done.message, adds, float(weight), done.loss)
    return {"scores": scores}, message_blocks(done.message, adds, kind), arrays


def _prepare(request: Request, holders: Holders) -> Addend:
    """Return the message of its method before round 1."""
    from ggeur.engine import single_client
    from ggeur.flower.site.local_round import setup_of, stored_client

    setup = setup_of(request)
    message = single_client.prepare_client(stored_client(request), setup.trained, request.point.train.batch_size)
    adds = setup.trained.method.prepared_adds
    return {}, message_blocks(message, adds, "equal"), weighted(message, adds, 1.0, 0.0)


_ASKED: dict[str, Callable[[Request, Holders], Addend]] = {
    "statistics": _statistics,
    "sums": _sums,
    "train": _train,
    "prepare": _prepare,
}
