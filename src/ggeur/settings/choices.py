"""Keys that take one of our names or a user's own, and [head.NAME]: what a head is built with."""

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator

from ggeur.core.errors import GgeurError
from ggeur.core.names import is_own
from ggeur.federation.augmentation import KINDS as AUGMENTATIONS
from ggeur.heads import HEADS, IMAGES, OF_TRAIN, arguments, resolve
from ggeur.methods import ON_EMBEDDINGS, SOLVED, has_own_head, kind_of, resolve_solved
from ggeur.methods.algorithm import Chosen, Given, Solved

if TYPE_CHECKING:
    from ggeur.settings.schema import Settings, Train


def is_path(value: object) -> bool:
    """Whether `value` is meant as the path of a folder, and not as a name: it has a separator, or begins with a dot."""
    return isinstance(value, str) and (os.path.dirname(value) != "" or value.startswith("."))


def _one_of(what: str, ours: Iterable[str], *, or_path: str = "") -> Any:
    """The type of a key that takes one of `ours`, or a user's own, or the path of a folder, if `or_path` says of what.

    Nothing is imported here: a site validates settings before it has agreed to import anything.
    """

    def check(value: object) -> object:
        if not isinstance(value, str) or not (value in ours or is_own(value) or (or_path and is_path(value))):
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
    str, _one_of("start", (RANDOM, *SOLVED), or_path="the path of a model's folder, as ./run/model/cell-000")
]


def of_train(head: str, train: "Train") -> dict[str, Any]:
    """The parameters of `head` that [train] gives."""
    return {key: value for key in OF_TRAIN.get(head, ()) if (value := getattr(train, key)) is not None}


def check_heads(point: "Settings") -> None:
    """Raise for what will not do in `point`; a user's own head and method are imported for it, so no validator can."""
    t = point.train
    if has_own_head(t.method):
        _check_own_head(point)
    if t.head in IMAGES or (t.head not in HEADS and resolve(t.head, **point.head_parameters).images):
        _check_images(point)
    other = t.head != HEADS[0]  # than the linear one, and perhaps linear all the same
    if other and (t.solver or kind_of(t.method) in (Solved, Chosen, Given)) and not _is_linear(point):
        raise GgeurError('[train]: what is solved has a head of its own: use head = "linear", the default.')
    if (other or t.softmax) and point.augment.build().rank is not None and (t.softmax or not _is_linear(point)):
        raise GgeurError(
            f'[augment] kind = "{point.augment.kind}" bounds the loss of a linear head: '
            'use [train] head = "linear" and softmax = false.'
        )
    if t.solver and kind_of(t.solver) is not Solved:
        raise GgeurError(f"[train] start = '{t.start}' is not solved from statistics, so nothing can start from it.")
    if t.solver and not resolve(resolve_solved(t.solver, point.method.get(t.solver, {})).head).linear:
        raise GgeurError(f"[train] start = '{t.start}' is not a linear head, so training cannot start from it.")
    for name, values in point.head.items():
        known = arguments(name, values)
        for key, value in of_train(name, t).items():
            if value != known[key]:
                raise GgeurError(f"train.{key} is {value} and [head.{name}] {key} {known[key]}: give one of them.")
    if t.head not in HEADS or point.head_parameters:  # ours takes softmax, and its defaults
        arguments(t.head, point.head_parameters, softmax=t.softmax)


def _check_own_head(point: "Settings") -> None:
    """Raise for what goes with a linear head alone, where the method has a head of its own."""
    t, projected = point.train, point.privacy.projection is not None
    wrong = {
        f'head = "{t.head}"': t.head != HEADS[0],
        "softmax = true": t.softmax,
        f'start = "{t.start}"': t.solver is not None,
    }
    for what, there in wrong.items():
        if there:
            raise GgeurError(f"[train] {what} is not for {t.method}, which trains a head of its own: leave it out.")
    if point.augment.build().rank is not None:
        raise GgeurError(
            f'[augment] kind = "{point.augment.kind}" bounds the loss of a linear head, and {t.method} trains another.'
        )
    if projected:
        raise GgeurError(f"[privacy] projection takes embeddings away from their text, which {t.method} needs.")


def _check_images(point: "Settings") -> None:
    """What a network on pictures leaves no room for."""
    head = f'[train] head = "{point.train.head}" is trained on pictures'
    if kind_of(point.train.method) in (Solved, Chosen, Given) or point.train.solver:
        raise GgeurError(f'{head}, and what is solved needs embeddings: use head = "linear" and an encoder.')
    if point.train.method in ON_EMBEDDINGS:
        raise GgeurError(f"{head}, and '{point.train.method}' changes embeddings: use another method, such as fedavg.")
    if point.augment.kind != "none":
        raise GgeurError(f'{head}, and [augment] kind = "{point.augment.kind}" draws embeddings: use kind = "none".')
    if point.data.standardise or point.privacy.ball is not None:
        raise GgeurError(f"{head}, which it normalises itself: leave [data] standardise and [privacy] radius out.")
    if point.data.dataset is not None and not str(point.data.encoder).startswith("pixels:"):
        raise GgeurError(f'{head}: give [data] encoder = "pixels:32", or another size, to keep those of a dataset.')


def _is_linear(point: "Settings") -> bool:
    return resolve(point.train.head, **point.head_parameters).linear
