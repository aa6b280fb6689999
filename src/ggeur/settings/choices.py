"""Keys that take one of our names or a user's own, and [head.NAME]: what a head is built with."""

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator

from ggeur.core.custom import is_custom
from ggeur.federation.augmentation import COVARIANCES as AUGMENTATIONS
from ggeur.heads import HEADS, OF_TRAIN
from ggeur.methods import SOLVED

if TYPE_CHECKING:
    from ggeur.settings.schema import Train


def is_path(value: object) -> bool:
    """Whether `value` is meant as the path of a folder, and not as a name: it has a separator, or begins with a dot."""
    return isinstance(value, str) and (os.path.dirname(value) != "" or value.startswith("."))


def _one_of(what: str, ours: Iterable[str], *, or_path: str = "") -> Any:
    """The type of a key that takes one of `ours`, or a user's own, or the path of a folder, if `or_path` says of what.

    Nothing is imported here: a site validates settings before it has agreed to import anything.
    """

    def check(value: object) -> object:
        if not isinstance(value, str) or not (value in ours or is_custom(value) or (or_path and is_path(value))):
            known, more = ", ".join(ours), f", or {or_path}" if or_path else ""
            raise ValueError(
                f"there is no {what} {value!r}; there are {known}, or your own as package.module:name{more}"
            )
        return value

    return BeforeValidator(check)


HeadName = Annotated[str, _one_of("head", HEADS)]
AugmentationName = Annotated[str, _one_of("augmentation", AUGMENTATIONS)]
RANDOM = "random"
StartName = Annotated[
    str, _one_of("start", (RANDOM, *SOLVED), or_path="the path of a model's folder, as ./run/model/trial-000")
]


def of_train(head: str, train: "Train") -> dict[str, Any]:
    """The parameters of `head` that [train] gives."""
    return {key: value for key in OF_TRAIN.get(head, ()) if (value := getattr(train, key)) is not None}
