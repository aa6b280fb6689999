"""The server's half of round 0: from all clients' messages to who draws what, along which shapes."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from ggeur.core.site_statistics import SiteStatistics
from ggeur.core.types import Bool, Float, Int
from ggeur.federation.augmentation import Augmentation
from ggeur.federation.layout import Layout, with_prototypes
from ggeur.federation.shapes import Shapes, merged_shapes, note_on_units, shapes_from_means
from ggeur.federation.summary import far_center, guided

M = TypeVar("M", bound=SiteStatistics)


class Messages(Protocol):
    """All clients' messages as a server has them: kept on disk, or made of samples that are at hand."""

    def total(self, classes: Bool | None = None) -> SiteStatistics:
        """Their sum; of client k only the `classes` (K, C) that are marked in sample k."""

    def means(self) -> Iterator[SiteStatistics]:
        """One by one, in the clients' order, without second moments."""

    def by_home(self, homes: Sequence[int | None]) -> dict[int, SiteStatistics]:
        """Return those of the clients of each domain added up, without second moments; `homes` are the clients'
        domains.
        """


class AugmentationPlan(NamedTuple):
    """What round 0 comes to, and what people should hear of it."""

    layout: Layout
    shapes: Shapes
    notes: list[str]


def plan_augmentation(
    messages: Messages, a: Augmentation, count: Int, homes: Sequence[int | None], p: int, not_several: str
) -> AugmentationPlan:
    """Lay out the training sets that `a` asks for, in `p` dimensions.

    `count` (K, C) is who holds how much of what, `homes` whose samples are of which domain, and `not_several` says why
    the domains are not several, if they are not.
    """
    of_homes: dict[int, SiteStatistics] = {}
    notes: list[str] = []
    if with_prototypes(a, homes):
        of_homes = messages.by_home(homes)
    elif a.prototypes:
        notes.append(f"Step 2 adds nothing: {not_several}, so there are no prototypes of others.")
    shapes = Shapes.none(count.shape[1], p)
    if a.noise is not None:
        shapes = _global_shapes(messages, a, count, homes)
        notes += filter(None, [note_on_units(shapes, a)])
    return AugmentationPlan(Layout.of(count, homes, of_homes, p, a), shapes, notes)


def by_home(means: Iterator[SiteStatistics], homes: Sequence[int | None]) -> dict[int, SiteStatistics]:
    """The `means` of clients, in their order, added up by domain; who is of none is left out."""
    found: dict[int, SiteStatistics] = {}
    for home, message in zip(homes, means, strict=True):
        if home is not None:
            found[home] = found[home] + message if home in found else message
    return found


def _global_shapes(messages: Messages, a: Augmentation, count: Int, homes: Sequence[int | None]) -> Shapes:
    """The shape of every class, from what the augmentation lets clients send."""
    if a.covariance == "none":
        each = list(messages.means())
        domain = np.array([-1 if home is None else home for home in homes])
        return shapes_from_means(np.stack([m.count for m in each]), np.stack([m.mean for m in each]), domain, a)
    return merged_shapes(messages.total(guided(count, a.guided) if a.guided < 1 else None), a)


def about_center(total: Callable[[Float | None], M]) -> M:
    """`total(None)`, or `total(center)` where moments about zero would lose digits: then everybody is asked again."""
    found = total(None)
    center = far_center(found)
    return found if center is None else total(center)
