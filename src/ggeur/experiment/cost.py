"""What a client sends and receives before training begins: statistics up, shapes and prototypes down."""

from ggeur.data.table import EmbeddingTable
from ggeur.settings.schema import Settings

_NEEDS = {"ncm": "means", "lda": "pooled", "ridge": "pooled", "ccvr": "per-class"}


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
    if point.train.start in _NEEDS:
        up = max(up, statistics_bytes(_NEEDS[point.train.start], classes, p))  # sent once, for both uses
    return up, down


def closed_form_bytes(name: str, table: EmbeddingTable) -> tuple[int, int]:
    """The same for a head that is solved: statistics up, the head down."""
    classes, p = table.n_classes, table.dimension
    up = statistics_bytes(_NEEDS[name], classes, p) if name in _NEEDS else 0
    return up, 4 * classes * (p + 1)
