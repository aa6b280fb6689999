"""What a federation costs, on paper: bytes, memory, work and time, from ten clients to a hundred million.

Statistics add up, so one server holds one running total whatever the number of clients; what grows is the traffic
through it, statistics in and shapes out. Where that takes longer than `patience`, aggregators in between each add up
what `fan` clients (or aggregators) send, pass one message on, and hand the shapes down the same way. Means (FedCOF) are
turned into scatter matrices by the first node they reach, since only those add up.
"""

import math
from typing import NamedTuple

from ggeur.core.errors import GgeurError
from ggeur.core.site_statistics import Covariance, matrices, statistics_bytes
from ggeur.experiment.cost import shape_bytes

COVARIANCES: tuple[Covariance, ...] = ("per-class", "pooled", "none")


class Plan(NamedTuple):
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


def plan(
    kind: Covariance, clients: int, classes: int, dim: int, *, client_mbit: float, server_mbit: float, patience: float
) -> Plan:
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
    return Plan(
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


def human_bytes(n: float) -> str:
    """1536 -> '1.5 KiB'."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if n < 1024 or unit == "TiB":
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1024
    raise AssertionError("unreachable")


def human_seconds(s: float) -> str:
    """90 -> '1.5 min'."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if s >= size:
            return f"{s / size:.1f} {unit}"
    return f"{s:.2g} s"
