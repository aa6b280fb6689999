"""What a client sends and receives before training begins: statistics up, shapes and prototypes down."""

from ggeur.data.table import EmbeddingTable
from ggeur.experiment.config import Settings


def bytes_before_training(point: Settings, table: EmbeddingTable) -> tuple[int, int]:
    """Bytes up and down per client; statistics in float64 (a symmetric matrix as its triangle), the rest in float32."""
    classes, p = table.n_classes, table.dimension
    kind = point.augment.kind
    up = down = 0
    if kind in ("prototypes", "ggeur"):
        up += 8 * classes * (1 + p)
        if point.augment.steps == 2:
            down += 4 * (table.n_domains - 1) * classes * p
    if kind == "ggeur":
        up += 8 * classes * p * (p + 1) // 2
        down += 4 * classes * (p + p * p)
    return up, down
