"""The server's half of round 0: from all clients' messages to who draws what, along which shapes."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from ggeur.core.message import Message
from ggeur.core.types import Bool, Float, Int
from ggeur.federation.augmentation import Augmentation
from ggeur.federation.layout import Layout, with_prototypes
from ggeur.federation.shapes import Shapes, merged_shapes, note_on_units, shapes_from_means
from ggeur.federation.summary import far_center, guided

M = TypeVar("M", bound=Message)


class Messages(Protocol):
    """All clients' messages as a server has them: kept on disk, or made of rows that are at hand."""

    def total(self, classes: Bool | None = None) -> Message:
        """Their sum; of client k only the `classes` (K, C) that are marked in row k."""

    def means(self) -> Iterator[Message]:
        """One by one, in the clients' order, without second moments."""


class Settlement(NamedTuple):
    """What round 0 comes to, and what people should hear of it."""

    layout: Layout
    shapes: Shapes
    notes: list[str]


def settle(
    messages: Messages, a: Augmentation, count: Int, homes: Sequence[int | None], p: int, not_several: str
) -> Settlement:
    """Lay out the training sets that `a` asks for, in `p` dimensions.

    `count` (K, C) is who holds how much of what, `homes` whose rows are of which domain, and `not_several` says why the
    domains are not several, if they are not.
    """
    by_home: dict[int, Message] = {}
    notes: list[str] = []
    if with_prototypes(a, homes):
        for home, message in zip(homes, messages.means(), strict=True):
            if home is not None:
                by_home[home] = by_home[home] + message if home in by_home else message
    elif a.prototypes:
        notes.append(f"Step 2 adds nothing: {not_several}, so there are no prototypes of others.")
    shapes = Shapes.none(count.shape[1], p)
    if a.noise is not None:
        shapes = _global_shapes(messages, a, count, homes)
        notes += filter(None, [note_on_units(shapes, a)])
    return Settlement(Layout.of(count, homes, by_home, p, a), shapes, notes)


def _global_shapes(messages: Messages, a: Augmentation, count: Int, homes: Sequence[int | None]) -> Shapes:
    """The shape of every class, from what the augmentation lets clients send."""
    if a.statistics == "means":
        each = list(messages.means())
        domain = np.array([-1 if home is None else home for home in homes])
        return shapes_from_means(np.stack([m.count for m in each]), np.stack([m.mean for m in each]), domain, a)
    return merged_shapes(messages.total(guided(count, a.guided) if a.guided < 1 else None), a)


def about_center(total: Callable[[Float | None], M]) -> M:
    """`total(None)`, or `total(center)` where moments about zero would lose digits: then everybody is asked again."""
    found = total(None)
    center = far_center(found)
    return found if center is None else total(center)
