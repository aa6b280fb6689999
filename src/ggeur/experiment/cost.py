"""What a client sends and receives before training begins, by the types that are sent: bill and wire cannot differ."""

import numpy as np

from ggeur.core.site_statistics import Covariance, statistics_bytes
from ggeur.data.table import EmbeddingTable
from ggeur.engine.stack import Run
from ggeur.engine.trees import size_in_bytes
from ggeur.experiment.setup import Setup
from ggeur.heads.head import Params


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


def bytes_of_one_shot(setup: Setup, needs: Covariance | None, table: EmbeddingTable, head: Params) -> tuple[int, int]:
    """The same for a head that is solved from statistics of the kind `needs`, or given: they go up, the head down."""
    units_up, units_down = units_bytes(setup, needs, table.dimension)
    up, down = statistics_bytes(needs, table.n_classes, table.dimension), size_in_bytes(head)
    return up + units_up, down + units_down
