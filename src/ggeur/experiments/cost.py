"""What a client sends and receives, by the types that are sent: in a trial, or in a federation of any size."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ggeur.data.table import EmbeddingTable
from ggeur.heads.head import Params
from ggeur.stats.errors import GgeurError
from ggeur.stats.site_statistics import Covariance, matrices, statistics_bytes

if TYPE_CHECKING:
    from ggeur.engine.stack import Run
    from ggeur.experiments.setup import Setup
    from ggeur.stats.features import FeatureStatistics


def shape_bytes(shapes: str, classes: int, p: int, rank: int | None = None) -> int:
    """Bytes down of the shapes of so many classes in float32: symmetric matrices as triangles, or U, s of `rank`."""
    each = p * (p + 1) // 2 if rank is None or rank >= p else rank * p + 1
    return 4 * {"none": 0, "one": min(classes, 1), "per-class": classes}[shapes] * each


def units_bytes(setup: Setup, needs: Covariance | None, p: int) -> tuple[int, int]:
    """Bytes up and down per client of the federation's units: sums up; down with what asks for statistics, and sets."""
    return (8 * (p + 2), 8 * (p + 1) * (1 + (needs is not None))) if setup.standardise else (0, 0)


def bytes_before_training(setup: Setup, table: EmbeddingTable, run: Run) -> tuple[int, int]:
    """Bytes up and down per client of `run`, on average: what augmentation and first head need is sent once.

    A client is sent the shapes of the classes it draws and the prototypes of other domains, if it is of one itself.
    """
    classes, p, down, a = table.n_classes, table.dimension, 0, setup.augmentation
    for s in run.sets:
        of_one_domain = len(np.unique(table.domains[s.sample[: s.originals]])) == 1
        others = len(run.prototypes) - classes if of_one_domain and len(run.prototypes) else 0
        down += shape_bytes(a.shapes, len(np.unique(s.y[s.originals :])), p, a.rank) + 4 * others * p
    units_up, units_down = units_bytes(setup, setup.needs, p)
    return statistics_bytes(setup.needs, classes, p) + units_up, down // len(run.sets) + units_down


def bytes_of_one_shot(
    setup: Setup,
    needs: Covariance | None,
    table: EmbeddingTable,
    head: Params,
    features: FeatureStatistics | None = None,
) -> tuple[int, int]:
    """The same for a head that is solved from statistics of the kind `needs`, or given: they go up, the head down.

    Those of `features` go up too, and the map to them down.
    """
    from ggeur.engine.trees import size_in_bytes

    units_up, units_down = units_bytes(setup, needs, table.dimension)
    up, down = statistics_bytes(needs, table.n_classes, table.dimension), size_in_bytes(head)
    if features is not None:
        more_up, more_down = features.asked.bytes(table.n_classes)
        up, down = up + more_up, down + more_down
    return up + units_up, down + units_down


COVARIANCES: tuple[Covariance, ...] = ("per-class", "pooled", "none")


class Cost(NamedTuple):
    """One kind of statistics for one number of clients."""

    kind: str
    clients: int
    up: int  # bytes a client sends before training
    down: int  # bytes it receives before training
    per_round: int  # bytes each way in a round
    server_memory: int  # bytes: the running total, in full matrices, and one message
    additions: float  # to merge all clients
    eigen_flops: float  # once, for the shapes
    client_seconds: float  # statistics up and shapes down, over the client's own link
    fan: int  # clients or nodes below one node
    levels: int  # of nodes above the clients: 1 is a single server
    aggregators: int  # nodes in all, the server included
    tree_seconds: float  # for all statistics to get to the server and all shapes back


def cost(
    kind: Covariance, clients: int, classes: int, dim: int, *, client_mbit: float, server_mbit: float, patience: float
) -> Cost:
    """The cost of `clients` sites with `classes` classes and `dim` dimensions.

    `client_mbit` and `server_mbit` are links in megabits a second, `patience` how many seconds one node may be
    busy with messages before a level of aggregators is put in front of it.
    """
    for name, value in (("clients", clients), ("classes", classes), ("dim", dim)):
        if value < 1:
            raise GgeurError(f"{name} is {value}; it must be positive.", code="argument-not-positive")
    if not all(0 < value < math.inf for value in (client_mbit, server_mbit, patience)):
        raise GgeurError("Bandwidths and patience must be positive and finite.", code="argument-not-positive")
    shapes = "one" if kind == "pooled" else "per-class"
    up, down = statistics_bytes(kind, classes, dim), shape_bytes(shapes, classes, dim)
    upwards = max(up, statistics_bytes("per-class", classes, dim)) if kind == "none" else up  # between nodes

    def seconds(size: int, mbit: float) -> float:
        return 8 * size / (1e6 * mbit)

    most = max(2, int(patience / seconds(max(up, upwards) + down, server_mbit)))
    levels = max(1, math.ceil(math.log(clients) / math.log(most) - 1e-9)) if clients > 1 else 1
    fan = math.ceil(clients ** (1 / levels) - 1e-9)
    nodes, below = 0, clients
    for _ in range(levels):
        below = math.ceil(below / fan)
        nodes += below
    held = matrices("per-class" if kind == "none" else kind, classes)
    total = 8 * (classes * (1 + dim) + held * dim * dim)
    return Cost(
        kind,
        clients,
        up,
        down,
        4 * classes * (dim + 1),
        total + up,
        statistics_bytes("per-class" if kind == "none" else kind, classes, dim) / 8 * clients,
        9.0 * dim**3 * held,  # a symmetric eigenproblem takes about 9 p^3
        seconds(up + down, client_mbit),
        fan,
        levels,
        nodes,
        fan * seconds(up + down, server_mbit) + (levels - 1) * fan * seconds(upwards + down, server_mbit),
    )
