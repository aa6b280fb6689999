"""The server's half of round 0: from the statistics to who draws how much, along which shapes."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np

from ggeur.core.site_statistics import Breakdown, SiteStatistics, StatisticsQuery
from ggeur.core.types import Float, Int
from ggeur.federation.augmentation import Augmentation
from ggeur.federation.layout import Layout, with_prototypes
from ggeur.federation.protocol import Federation
from ggeur.federation.shapes import Shapes, merged_shapes, note_on_units, shapes_from_means
from ggeur.federation.summary import far_center, guided

M = TypeVar("M", bound=SiteStatistics)


class AugmentationPlan(NamedTuple):
    """What round 0 comes to, and what people should hear of it."""

    layout: Layout
    shapes: Shapes
    notes: list[str]


def plan_augmentation(federation: Federation, a: Augmentation, p: int, not_several: str) -> AugmentationPlan:
    """Lay out the training sets that `a` asks for, in `p` dimensions.

    `not_several` says why the domains are not several, if they are not.
    """
    count = np.stack([site.counts for site in federation.sites])
    homes = [site.home for site in federation.sites]
    by_home: dict[int, SiteStatistics] = {}
    notes: list[str] = []
    if with_prototypes(a, homes):
        means = federation.statistics(StatisticsQuery("none", Breakdown("none", "home"), repair="drop"))
        by_home = dict(zip(means.domain, means.apart, strict=True))
    elif a.prototypes:
        notes.append(f"Step 2 adds nothing: {not_several}, so there are no prototypes of others.")
    shapes = Shapes.none(count.shape[1], p)
    if a.noise is not None:
        shapes = _global_shapes(federation, a, count)
        notes += filter(None, [note_on_units(shapes, a)])
    return AugmentationPlan(Layout.of(count, homes, by_home, p, a), shapes, notes)


def _global_shapes(federation: Federation, a: Augmentation, count: Int) -> Shapes:
    """The shape of every class, from what the augmentation lets clients send."""
    if a.covariance == "none":
        means = federation.statistics(StatisticsQuery("none", Breakdown("none", "site")))
        each, domain = means.apart, np.array(means.domain)
        return shapes_from_means(np.stack([m.count for m in each]), np.stack([m.mean for m in each]), domain, a)
    classes = guided(count, a.guided) if a.guided < 1 else None
    needs = a.needs or a.covariance
    return merged_shapes(federation.statistics(StatisticsQuery(needs, classes=classes, repair="drop")), a)


def about_center(total: Callable[[Float | None], M]) -> M:
    """`total(None)`, or `total(center)` where moments about zero would lose digits: then everybody is asked again."""
    found = total(None)
    center = far_center(found)
    return found if center is None else total(center)
