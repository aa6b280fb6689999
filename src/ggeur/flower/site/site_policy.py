"""The policy that a site enforces: a least group size, and a privacy budget for all that it sends.

Releases under Gaussian noise add up by the squares of their mu, so a budget (epsilon, delta) is one of mu.
"""

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from ggeur.experiments.settings_privacy import Privacy
from ggeur.privacy.gaussian import gaussian_scale
from ggeur.stats.errors import GgeurError
from ggeur.stats.storage import lock_file, write_bytes

_LEDGER = "privacy.jsonl"
_ROUNDING = 1e-9  # of a budget, so that one release may spend all of it
_MOVED = {"record": 1.0, "client": 2.0}  # by a record, in what the noise is for: a client's message is cut to that


class SitePolicy(NamedTuple):
    """A site answers if groups under `min_count` samples stay, or if all it sends is (`epsilon`, `delta`)-private."""

    min_count: int = 0
    epsilon: float | None = None
    delta: float = 1e-5

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "SitePolicy":
        """Return the policy with which a node was started."""
        try:
            epsilon, delta = config.get("epsilon"), float(config.get("delta") or cls().delta)
            made = cls(int(config.get("min-count") or 0), None if epsilon is None else float(epsilon), delta)
        except (ValueError, OverflowError) as error:
            raise GgeurError(
                f"min-count, epsilon and delta of a node are numbers: {error}.", code="policy-values-not-numbers"
            ) from error
        if made.min_count < 0 or not (made.epsilon is None or 0 < made.epsilon < math.inf) or not 0 < delta <= 0.1:
            raise GgeurError(
                "A node's min-count is 0 or more, its epsilon above 0, its delta above 0 and at most 0.1.",
                code="policy-values-range",
            )
        if made.epsilon is not None:
            gaussian_scale(made.epsilon, made.delta)  # now rather than at the first request
        return made

    def check(self, asked: Privacy) -> None:
        """Raise GgeurError where the privacy `asked` for is weaker than the policy."""
        if self.epsilon is not None:
            if asked.release.mu is None:
                raise GgeurError(
                    f"this site was started with --epsilon {self.epsilon:g}, and answers only under [privacy] epsilon "
                    "or another mechanism with a proved loss",
                    code="policy-epsilon-required",
                )
        elif (release := asked.release).least_group < self.min_count:
            has = f"is {asked.min_count}" if release.exact else "acts after the noise: start it with --epsilon"
            raise GgeurError(
                f"this site was started with --min-count {self.min_count}, and [privacy] min_count here {has}",
                code="policy-min-count-unmet",
            )

    def afford(self, root: Path, asked: Privacy) -> None:
        """Raise GgeurError where a release as `asked`, with all that the ledger in `root` has, exceeds the budget."""
        if self.epsilon is None:
            return
        spent = sum(mu**2 for mu in (_mu(one) for one in _ledger(root)))
        mu, most = _mu(_record(asked)), 1 / gaussian_scale(self.epsilon, self.delta)
        if spent + mu**2 > most**2 * (1 + _ROUNDING):
            raise GgeurError(
                f"this site was started with --epsilon {self.epsilon:g}: of its budget, mu {most:.3g}, it has spent "
                f"{math.sqrt(spent):.3g}, and this release would cost {mu:.3g}",
                code="policy-budget-exceeded",
            )

    def score(self, root: Path, message: str, head: str) -> None:
        """Raise GgeurError unless the ledger has the run of `message`, and no other `head` was scored in it.

        Right answers have no noise, so each run that the budget paid for may score one head.
        """
        if self.epsilon is None:
            return
        run = message.rpartition("-")[0]
        mark = root / "sent" / f"{run}.scored"
        if not any(str(one["message"]).rpartition("-")[0] == run for one in _ledger(root)):
            raise GgeurError(
                "this site scores a head only in a run that it has sent statistics in",
                code="policy-scoring-without-statistics",
            )
        if mark.exists() and mark.read_text(encoding="utf-8") != head:
            raise GgeurError(
                "this site has scored another head in this run, and scores one", code="policy-second-head-scored"
            )
        mark.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_bytes(mark, head.encode())


def spending(root: Path) -> ExitStack:
    """Lock the site's ledgers, so that no other process writes between a check and its record."""
    root.mkdir(parents=True, exist_ok=True)
    return lock_file(root / ".ledgers", "this site is answering another request under its budget; ask it again")


def note_spending(root: Path, message: str, asked: Privacy) -> None:
    """Record the cost of a `message` in the site's ledger in `root`."""
    spent = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "message": message}
    with (root / _LEDGER).open("a", encoding="utf-8") as file:
        file.write(json.dumps(spent | _record(asked)) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _ledger(root: Path) -> Iterator[dict[str, Any]]:
    path = root / _LEDGER
    try:
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            one = json.loads(line)
            if "mu" not in one:  # of 0.2, which had Gaussian noise alone
                one["mu"] = 1 / gaussian_scale(float(one["epsilon"]), float(one["delta"]))
            yield {name: one[name] for name in ("message", "unit", "mu")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise GgeurError(
            f"this site's record of its privacy budget, {path.name}, cannot be read: {error}",
            code="policy-ledger-unreadable",
        ) from error


def _record(asked: Privacy) -> dict[str, Any]:
    """Return the entry that the ledger keeps of a release as `asked`."""
    release = asked.release
    said = {"mechanism": asked.mechanism_name, "unit": release.unit, "mu": release.mu}
    return said | {name: release.facts[name] for name in ("epsilon", "delta") if name in release.facts}


def _mu(one: Mapping[str, Any]) -> float:
    """Return the mu that the release of the record `one` spends, of a budget for records; without a proof, all."""
    return math.inf if one["mu"] is None else _MOVED[str(one["unit"])] * float(one["mu"])
