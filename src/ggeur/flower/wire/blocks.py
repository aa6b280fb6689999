"""The arrays of a secure aggregation, whose names, shapes and bounds both ends derive from public facts.

The fixed-point encoding of an array uses its public bound: how many samples a site can have, how long a sample can be.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggeur.flower.wire.packing import Arrays, arrays_to_tree, tree_to_arrays
from ggeur.flower.wire.requested import RequestedStatistics
from ggeur.privacy.secure_aggregation.fixed_point import Block
from ggeur.stats.site_statistics import matrices
from ggeur.stats.triangles import triangle_size
from ggeur.stats.types import Tree
from ggeur.stats.units import Units

MOST_ROWS = 2.0**22  # of one site
_MOST_VALUE = 2.0**16  # bound of the components of a head or a feature; real ones are below a thousand


def reach(radius: float, units: Units | None) -> float:
    """Return the largest norm of a sample that was clipped to `radius` and then taken in `units`."""
    return radius if units is None else (radius + float(np.linalg.norm(units.shift))) / units.scale


def statistics_blocks(wanted: RequestedStatistics, domains: int, classes: int, p: int, far: float) -> list[Block]:
    """Return the blocks of the `wanted` statistics of all `domains`, of samples with norms up to `far`."""
    each = [
        ("count", (classes,), MOST_ROWS),
        ("sum", (classes, p), MOST_ROWS * far),
        ("second", (matrices(wanted.kind, classes), triangle_size(p)), MOST_ROWS * far**2),
    ]
    parts = wanted.parts(range(domains))
    return [Block(part.prefix + name, shape, bound) for part in parts for name, shape, bound in each]


def sums_blocks(p: int, radius: float) -> list[Block]:
    """Return the blocks of number, squares and sum of a site's samples."""
    each: list[tuple[str, tuple[int, ...], float]] = [
        ("samples", (), 1.0),
        ("square", (), radius**2),
        ("sum", (p,), radius),
    ]
    return [Block(name, shape, MOST_ROWS * by) for name, shape, by in each]


def message_blocks(like: Mapping[str, Tree], adds: Mapping[str, str], weights: str) -> list[Block]:
    """Return the blocks of a method's message shaped `like` this, whose parts add up by `adds` and [train] `weights`.

    A site also sends its weight, and its loss times that, so that the server need not know either.
    """
    heaviest = 1.0 if weights == "equal" else MOST_ROWS
    blocks = [Block("weight", (), heaviest), Block("loss", (), heaviest * _MOST_VALUE)]
    for part in sorted(like):
        most = {"weighted": heaviest, "equal": 1.0, "sum": MOST_ROWS}[adds[part]] * _MOST_VALUE
        leaves, _ = tree_to_arrays(like[part], f"{part}.")
        blocks += [Block(name, leaf.shape, most) for name, leaf in leaves.items()]
    return blocks


def weighted(message: Mapping[str, Tree], adds: Mapping[str, str], weight: float, loss: float) -> Arrays:
    """Return a site's `message`, `weight` and `loss` as addends."""
    arrays: Arrays = {"weight": np.asarray(weight), "loss": np.asarray(weight * loss)}
    for part in message:
        by = weight if adds[part] == "weighted" else 1.0
        leaves, _ = tree_to_arrays(message[part], f"{part}.")
        arrays |= {name: by * leaf.astype(np.float64) for name, leaf in leaves.items()}
    return arrays


def unweighted(
    total: Mapping[str, NDArray[Any]], like: Mapping[str, Tree], adds: Mapping[str, str], sites: int
) -> tuple[dict[str, Tree], float]:
    """Return the input of a method's aggregation, from the `total` of so many `sites`, and the mean loss."""
    found = {}
    for part, tree in like.items():
        by = {"weighted": float(total["weight"]), "equal": float(sites), "sum": 1.0}[adds[part]]
        leaves, shape = tree_to_arrays(tree, f"{part}.")
        added = {name: (total[name] / by).astype(leaf.dtype) for name, leaf in leaves.items()}
        found[part] = arrays_to_tree(added, shape, f"{part}.")
    return found, float(total["loss"]) / float(total["weight"])
