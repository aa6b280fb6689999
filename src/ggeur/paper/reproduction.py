"""The record in a run folder by which its result can be read as a table of the paper."""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

from ggeur.stats.custom import one_line
from ggeur.stats.errors import GgeurError
from ggeur.stats.storage import write_bytes

FILE = "reproduction.json"


class Arm(NamedTuple):
    """A row of a part, as the experiment names it."""

    row: str
    part: str
    arm: str
    published: str
    control: bool


class AbsentRow(NamedTuple):
    """A row that does not run, and why."""

    row: str
    part: str
    why: str
    published: str


class Column(NamedTuple):
    """The source of a column's numbers: a domain, the AVG or STD over them, or one value of what is varied."""

    label: str
    part: str
    kind: str  # domain | avg | std | value
    key: str | None = None
    value: Any = None
    replaced: bool = False  # by a domain that is not the paper's


class ChosenNumbers(NamedTuple):
    """The numbers of a row of a part under protocol `tuned`, and what was expected of them and of the paper's own."""

    row: str
    part: str
    numbers: str  # in words
    expected: float  # percent, on the validation split
    expected_printed: float
    tried: int  # number of candidates, the paper's among them


@dataclass
class Reproduction:
    """The record beside a result by which it can be read as a table of the paper."""

    table: str
    title: str
    measure: str
    protocol: str
    columns: list[Column] = field(default_factory=list)
    arms: list[Arm] = field(default_factory=list)
    absent: list[AbsentRow] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    order: list[str] = field(default_factory=list)  # of the rows
    chosen: list[ChosenNumbers] = field(default_factory=list)  # under protocol `tuned`
    changes: list[str] = field(default_factory=list)  # of settings, as --set has them

    def save(self, folder: str | os.PathLike[str]) -> None:
        write_bytes(Path(folder) / FILE, json.dumps(asdict(self), indent=1).encode())

    @classmethod
    def of(cls, tree: dict[str, Any]) -> Self:
        """From JSON; what a later version added may be absent."""
        kinds = {"columns": Column, "arms": Arm, "absent": AbsentRow, "chosen": ChosenNumbers}
        return cls(**tree | {key: [kind(*item) for item in tree.get(key, ())] for key, kind in kinds.items()})

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self | None:
        """Load the record in a run folder; None for a run that is no table of the paper."""
        path = Path(folder) / FILE
        if not path.exists():
            return None
        try:
            return cls.of(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise GgeurError(
                f"{path} is damaged: {one_line(error)}; run the same `ggeur reproduce` again.", code="file-damaged"
            ) from error
