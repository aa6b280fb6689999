"""A site's log of opened secure aggregations, `aggregations.jsonl`, kept beyond the end of a run.

A site that has shown its seed joins no other attempt at that total. It also joins no total that would, with those
before, reveal what one or two sites have added. Sites are named by their keys, as numbers change between runs.
"""

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ggeur.privacy.secure_aggregation import FEWEST
from ggeur.privacy.secure_aggregation.keys import Attempt, KnownSites
from ggeur.stats.errors import GgeurError
from ggeur.stats.old_names import FILES

_FILE = "aggregations.jsonl"
Breakdown = Mapping[str, Sequence[int]]  # by domain, the sites that have samples of it, where totals are by domain


class AggregationLog:
    """The log of the site with the number `own`, in its folder `root`; `known` is its roster."""

    def __init__(self, root: Path, known: KnownSites, own: int) -> None:
        self._path, self._known = root / _FILE, known
        paths = [path for path in (root / FILES[_FILE], self._path) if path.exists()]  # that of 0.2 counts as well
        lines = [line for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
        try:
            every: list[dict[str, Any]] = [json.loads(line) for line in lines]
        except ValueError as error:
            raise GgeurError(
                f"{self._path}, this site's log of secure aggregations, is damaged; without it this site joins none",
                code="site-aggregation-log-damaged",
            ) from error
        self._opened = [one for one in every if known.names.get(own) in one["sites"]]

    def check(
        self, attempt: Attempt, *, joined: bool, once: bool = False, apart: Breakdown = MappingProxyType({})
    ) -> None:
        """Raise, with half a sentence, where this site may not take part in `attempt`; `joined` says if it has already.

        The site may answer an opened attempt again, but joins no second attempt at the same total.
        """
        whole = attempt.run.rpartition("-")[0]  # `once` is per run: the server chooses the names of trials and totals
        before = [
            one["name"]
            for one in self._opened
            if (one["run"].rpartition("-")[0] == whole if once else (one["run"], one["what"]) == attempt[:2])
        ]
        if any(name != attempt.name or not joined for name in before):
            raise GgeurError(
                "this site has shown its seed in another attempt at this total, and joins no second one",
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
                f"with totals before it, this one would reveal what {' and '.join(found) or 'a former site'} added: "
                f"let the same sites take part, or at least {FEWEST} more or fewer; {self._path} lists them",
                code="policy-sum-reveals-site",
            )

    def has(self, attempt: Attempt) -> bool:
        """Return whether the log has `attempt` as opened."""
        return any((one["run"], one["what"], one["name"]) == attempt[:3] for one in self._opened)

    def add(self, attempt: Attempt, apart: Breakdown = MappingProxyType({})) -> None:
        """Log that `attempt` is opened, before this site's seed is shown."""
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
    """Return whether totals over these two sets of sites may not both be opened.

    With nested sets that differ by three or more sites, every difference of totals covers at least three sites. Any
    two totals, each over more than half of a roster, share a site, so that each site's own log is enough.
    """
    return a != b and (len(a ^ b) < FEWEST or not (a <= b or b <= a))
