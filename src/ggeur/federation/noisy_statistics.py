"""The total of what clients released under noise, as statistics that solvers can use."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ggeur.core.errors import GgeurError
from ggeur.core.site_statistics import Breakdown, EigenvalueRule, FederationStatistics, SiteStatistics
from ggeur.privacy.release import Release

ALL = -1  # domains


def repaired_total(
    release: Release,
    sent: Iterable[tuple[int, SiteStatistics]],
    clients: Mapping[int, int],
    apart: Breakdown | None = None,
    eigenvalues: EigenvalueRule = "floor",
) -> FederationStatistics:
    """Return the repaired total of what was `sent` under `release`, with domains, by so many `clients` of each."""
    if apart is not None and apart.of in ("client", "site"):
        raise GgeurError(
            "Under [privacy] epsilon or mechanism no head can be solved from the means of single clients.",
            code="privacy-head-from-means",
        )
    if release.unit == "client" and set(clients) != {ALL}:
        raise GgeurError(
            'With unit = "client" a client sends one message, and this head needs one for each domain; take ridge.',
            code="privacy-client-unit-domains",
        )
    for domain, many in clients.items():
        if many < release.least_clients:
            whose = "The federation" if domain == ALL else "A domain whose statistics are kept apart"
            raise GgeurError(
                f"{whose} has {many} clients, and a secure aggregation needs {release.least_clients}: "
                "of two, each could take its own part off.",
                code="secure-aggregation-too-few-sites",
            )
    total = FederationStatistics.of(sent, apart)
    parts = tuple(
        release.repair(part, [clients[domain]], eigenvalues)
        for domain, part in zip(total.domain, total.apart, strict=True)
    )
    made = release.repair(total, clients.values(), eigenvalues)
    if not made.present.any():
        raise GgeurError(
            f"Nothing is left of any class under {release.label}"
            + (f" and min_count = {release.min_count}" if release.min_count else "")
            + ": use a weaker privacy guarantee, secure aggregation, or more samples.",
            code="privacy-noise-excessive",
        )
    return replace(made, apart=parts)
