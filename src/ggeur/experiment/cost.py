"""What a client sends and receives before training begins: statistics up, shapes and prototypes down."""

from ggeur.data.table import EmbeddingTable
from ggeur.methods import kind_of, resolve_solved
from ggeur.methods.algorithm import Solved
from ggeur.settings.schema import Settings


def statistics_bytes(kind: str, classes: int, p: int) -> int:
    """Bytes up per client, in float64, a symmetric matrix as its triangle."""
    matrices = {"per-class": classes, "pooled": 1, "means": 0}[kind]
    return 8 * (classes * (1 + p) + matrices * p * (p + 1) // 2)


def geometry_bytes(kind: str, classes: int, p: int) -> int:
    """Bytes down per client: eigenvalues and eigenvectors in float32."""
    return 4 * (1 if kind == "pooled" else classes) * (p + p * p)


def bytes_before_training(point: Settings, table: EmbeddingTable) -> tuple[int, int]:
    """Bytes up and down per client."""
    classes, p, a = table.n_classes, table.dimension, point.augment
    up = down = 0
    if a.kind == "ggeur":
        up, down = statistics_bytes(a.statistics, classes, p), geometry_bytes(a.statistics, classes, p)
    elif a.kind == "prototypes":
        up = statistics_bytes("means", classes, p)
    if a.kind in ("prototypes", "ggeur") and a.steps == 2:
        down += 4 * (table.n_domains - 1) * classes * p
    if point.train.start != "random":
        up = max(up, statistics_bytes(_needs(point.train.start, point), classes, p))  # sent once, for both uses
    return up, down


def solved_bytes(point: Settings, table: EmbeddingTable) -> tuple[int, int]:
    """The same for a head that is solved or given: statistics up, if any, the head down."""
    classes, p, name = table.n_classes, table.dimension, point.train.method
    up = statistics_bytes(_needs(name, point), classes, p) if kind_of(name) is Solved else 0
    return up, 4 * classes * (p + 1)


def _needs(name: str, point: Settings) -> str:
    return resolve_solved(name, point.method.get(name, {})).needs
