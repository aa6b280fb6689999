"""A site's book of the sums that were opened with its help, `sums.jsonl`, kept beyond the end of a run.

A site that has shown its seed joins no other attempt at that sum, nor any sum that would, together with those before,
tell what one site or two have added. Sites are named by their keys, as a number may be another site's in another run.
"""

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ggeur.core.errors import GgeurError
from ggeur.privacy.secure_aggregation import FEWEST
from ggeur.privacy.secure_aggregation.keys import Attempt, KnownSites

Breakdown = Mapping[str, Sequence[int]]  # the sites that have samples of a domain whose sums are kept apart


class AggregationLog:
    """That of the site with the number `own`, in its folder `root`; `known` is its roster."""

    def __init__(self, root: Path, known: KnownSites, own: int) -> None:
        self._path, self._known = root / "sums.jsonl", known
        lines = self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else []
        try:
            every: list[dict[str, Any]] = [json.loads(line) for line in lines]
        except ValueError as error:
            raise GgeurError(
                f"{self._path}, this site's book of sums, is damaged; without it this site joins none",
                code="site-aggregation-log-damaged",
            ) from error
        self._opened = [one for one in every if known.names.get(own) in one["sites"]]

    def check(
        self, attempt: Attempt, *, joined: bool, once: bool = False, apart: Breakdown = MappingProxyType({})
    ) -> None:
        """Raise, with half a sentence, where this site may not be in `attempt`, which it has `joined` or is to join.

        One that was opened may be asked again for what it sent; under the same name it would not be the same.
        """
        whole = attempt.run.rpartition("-")[0]  # `once` is for the run: a trial and a sum are a server's words
        before = [
            one["name"]
            for one in self._opened
            if (one["run"].rpartition("-")[0] == whole if once else (one["run"], one["what"]) == attempt[:2])
        ]
        if any(name != attempt.name or not joined for name in before):
            raise GgeurError(
                "this site has shown its seed in another attempt at this sum, and joins no second one",
                code="policy-seed-already-shown",
            )
        now = {"": self._names(attempt.sites), **{name: self._names(sites) for name, sites in apart.items()}}
        sets = [
            (one["apart"][name] if name else one["sites"], mine)
            for one in self._opened
            for name, mine in now.items()
            if not name or name in one.get("apart", {})
        ]
        bare = next((set(a) ^ set(b) for a, b in sets if conflict(set(a), set(b))), None)
        if bare:
            found = [f"site {site}" for site, name in self._known.names.items() if name in bare]
            raise GgeurError(
                f"with the sums before it, this one would tell what {' and '.join(found) or 'a former site'} added: "
                f"let the same sites take part, or at least {FEWEST} more or fewer; {self._path} has those sums",
                code="policy-sum-reveals-site",
            )

    def has(self, attempt: Attempt) -> bool:
        """Whether it stands there that `attempt` was opened."""
        return any((one["run"], one["what"], one["name"]) == attempt[:3] for one in self._opened)

    def add(self, attempt: Attempt, apart: Breakdown = MappingProxyType({})) -> None:
        """Note that `attempt` is opened, before this site's seed is shown."""
        date, (run, what, name, _) = datetime.now(UTC).isoformat(timespec="seconds"), attempt
        line = {
            "date": date,
            "run": run,
            "what": what,
            "name": name,
            "sites": self._names(attempt.sites),
            "apart": {name: self._names(sites) for name, sites in apart.items()},
        }
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _names(self, sites: Sequence[int]) -> list[str]:
        return [self._known.names[site] for site in sites]


def conflict(a: set[str], b: set[str]) -> bool:
    """Whether sums of these sites may not both be opened.

    Of nested sets, three or more sites apart, no combination is of fewer than three. Any two sums, each of over half of
    a roster, share a site, so that it is enough that each looks into its own book.
    """
    return a != b and (len(a ^ b) < FEWEST or not (a <= b or b <= a))
