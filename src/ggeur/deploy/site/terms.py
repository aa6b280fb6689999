"""What a site holds out for, whatever a server asks: a threshold, and a budget for all that it ever sends under noise.

Messages under Gaussian noise add up by the squares of their mu, so a budget (epsilon, delta) is one of mu.
"""

import json
import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from ggeur.core.errors import GgeurError
from ggeur.privacy.calibration import gaussian_scale
from ggeur.settings.privacy import Privacy

_ROUNDING = 1e-9  # of a budget, so that one message may spend all of it
_TWICE = {"record": 1.0, "client": 2.0}  # how far a record moves a message that is cut to the length noise is for


class Terms(NamedTuple):
    """A site answers if cells under `min_count` rows stay; or if all its messages are (`epsilon`, `delta`)-private."""

    min_count: int = 0
    epsilon: float | None = None
    delta: float = 1e-5

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "Terms":
        """Those with which a node was started."""
        try:
            epsilon, delta = config.get("epsilon"), float(config.get("delta") or cls().delta)
            made = cls(int(config.get("min-count") or 0), None if epsilon is None else float(epsilon), delta)
        except ValueError as error:
            raise GgeurError(f"min-count, epsilon and delta of a node are numbers: {error}.") from error
        if made.min_count < 0 or not (made.epsilon is None or 0 < made.epsilon < math.inf) or not 0 < delta <= 0.1:
            raise GgeurError("A node's min-count is 0 or more, its epsilon above 0, its delta above 0 and at most 0.1.")
        return made

    def check(self, asked: Privacy) -> None:
        """GgeurError where what is `asked` would send more than this."""
        if self.epsilon is not None:
            if asked.epsilon is None:
                raise GgeurError(
                    f"this site was started with --epsilon {self.epsilon:g}, and answers under [privacy] epsilon alone"
                )
        elif asked.least_rows < self.min_count:
            has = f"is {asked.min_count}" if asked.epsilon is None else "acts after the noise: start it with --epsilon"
            raise GgeurError(
                f"this site was started with --min-count {self.min_count}, and [privacy] min_count here {has}"
            )

    def afford(self, root: Path, asked: Privacy) -> None:
        """GgeurError where a message as `asked`, with all that the book in `root` has, would be over the budget."""
        if self.epsilon is None:
            return
        spent = sum(mu**2 for mu in (_mu(one) for one in _book(root)))
        mu, most = _mu(asked.model_dump()), 1 / gaussian_scale(self.epsilon, self.delta)
        if spent + mu**2 > most**2 * (1 + _ROUNDING):
            raise GgeurError(
                f"this site was started with --epsilon {self.epsilon:g}: of mu {most:.3g} in all it has spent "
                f"{math.sqrt(spent):.3g}, and this message would cost {mu:.3g}"
            )


def note_spending(root: Path, message: str, asked: Privacy) -> None:
    """Write into the site's book in `root` what a `message` has cost."""
    spent = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "message": message}
    with (root / _BOOK).open("a", encoding="utf-8") as file:
        file.write(json.dumps(spent | {"epsilon": asked.epsilon, "delta": asked.delta, "unit": asked.unit}) + "\n")


_BOOK = "privacy.jsonl"


def _book(root: Path) -> Iterator[dict[str, Any]]:
    path = root / _BOOK
    try:
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            yield json.loads(line)
    except (OSError, ValueError) as error:
        raise GgeurError(f"this site's book of what it has spent, {path.name}, cannot be read: {error}") from error


def _mu(one: Mapping[str, Any]) -> float:
    """Of a record, by a message under that epsilon and delta."""
    return _TWICE[str(one["unit"])] / gaussian_scale(float(one["epsilon"]), float(one["delta"]))
