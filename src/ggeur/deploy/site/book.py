"""A site's book of the sums that were opened with its help, `sums.jsonl`, kept beyond the end of a run.

A site that has shown its seed joins no other attempt at that sum, nor any sum that would, together with those before,
tell what one site or two have added. Sites are named by their keys, as a number may be another site's in another run.
"""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ggeur.core.errors import GgeurError
from ggeur.privacy.secure import FEWEST
from ggeur.privacy.secure.differences import lays_bare
from ggeur.privacy.secure.keys import Attempt, KnownSites


class Book:
    """That of the site with the number `own`, in its folder `root`; `known` is its roster."""

    def __init__(self, root: Path, known: KnownSites, own: int) -> None:
        self._path, self._known = root / "sums.jsonl", known
        lines = self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else []
        every: list[dict[str, Any]] = [json.loads(line) for line in lines]
        self._opened = [one for one in every if known.names.get(own) in one["sites"]]

    def check(self, attempt: Attempt, *, joined: bool) -> None:
        """Raise, with half a sentence, where this site may not be in `attempt`, which it has `joined` or is to join.

        One that was opened may be asked again for what it sent; under the same name it would not be the same.
        """
        before = [one["name"] for one in self._opened if (one["run"], one["what"]) == attempt[:2]]
        if any(name != attempt.name or not joined for name in before):
            raise GgeurError("this site has shown its seed in another attempt at this sum, and joins no second one")
        sets = [*(one["sites"] for one in self._opened), self._names(attempt)]
        numbers = {name: k for k, name in enumerate(sorted({name for names in sets for name in names}))}
        bare = lays_bare([numbers[name] for name in names] for names in sets)
        if bare:
            found = [f"site {site}" for site, name in self._known.names.items() if numbers.get(name) in bare]
            raise GgeurError(
                f"with the sums before it, this one would tell what {' and '.join(found) or 'a former site'} added: "
                f"let the same sites take part, or at least {FEWEST} more or fewer; {self._path} has those sums"
            )

    def add(self, attempt: Attempt) -> bool:
        """Note that `attempt` is opened, before this site's seed is shown; False if that stands there already."""
        if any(one["name"] == attempt.name for one in self._opened):
            return False
        date, (run, what, name, _) = datetime.now(UTC).isoformat(timespec="seconds"), attempt
        line = {"date": date, "run": run, "what": what, "name": name, "sites": self._names(attempt)}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())
        return True

    def _names(self, attempt: Attempt) -> list[str]:
        return [self._known.names[site] for site in attempt.sites]
