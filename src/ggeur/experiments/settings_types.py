"""The base of all sections of the experiment file, and keys that take a built-in or a custom name."""

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from ggeur.federation.augmentation import AUGMENTATIONS
from ggeur.heads import HEADS, OF_TRAIN
from ggeur.methods import SOLVED
from ggeur.stats.custom import is_custom

if TYPE_CHECKING:
    from ggeur.experiments.settings import Train


# Numbers are strict: `true` is not 1, and "3" is not 3.
Size = Annotated[int, Field(strict=True, gt=0, le=10**7)]  # larger values would run out of memory
Share = Annotated[float, Field(strict=True, gt=0, le=1)]
Above = Annotated[float, Field(strict=True, gt=0)]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @property
    def key(self) -> str:
        """Return a key that is equal for equal sections; custom parameters need not be hashable."""
        return repr(self.model_dump())  # not JSON, in which inf and nan are the same


def is_path(value: object) -> bool:
    """Return whether `value` is the path of a folder and not a name: it has a separator, or begins with a dot."""
    return isinstance(value, str) and (os.path.dirname(value) != "" or value.startswith("."))


def one_of(what: str, ours: Iterable[str], *, or_path: str = "") -> Any:
    """Return the type of a key that takes one of `ours`, a custom name, or a folder if `or_path` describes one.

    Nothing is imported: a site validates settings before it has agreed to import anything.
    """

    def check(value: object) -> object:
        if not isinstance(value, str) or not (value in ours or is_custom(value) or (or_path and is_path(value))):
            known, more = ", ".join(ours), f", or {or_path}" if or_path else ""
            raise ValueError(
                f"there is no {what} {value!r}; there are {known}, or your own as package.module:name{more}"
            )
        return value

    return BeforeValidator(check)


HeadName = Annotated[str, one_of("head", HEADS)]
AugmentationName = Annotated[str, one_of("augmentation", AUGMENTATIONS)]
RANDOM = "random"
StartName = Annotated[
    str, one_of("start", (RANDOM, *SOLVED), or_path="the path of a model's folder, as ./run/model/trial-000")
]


def of_train(head: str, train: "Train") -> dict[str, Any]:
    """Return the parameters of `head` that [train] gives."""
    return {key: value for key in OF_TRAIN.get(head, ()) if (value := getattr(train, key)) is not None}
