"""Round 0 at a site: who it is, its statistics, and its training set, drawn along the global shapes."""

from typing import Any

import numpy as np

from ggeur.core.augment import plan_draws
from ggeur.core.errors import GgeurError
from ggeur.core.statistics import ClassStatistics
from ggeur.core.virtual import virtual_set
from ggeur.data.table import EmbeddingTable
from ggeur.deploy.site.data import Asked, Reply
from ggeur.deploy.site.training import first_message
from ggeur.deploy.wire.factors import Shapes, own_noise
from ggeur.deploy.wire.packing import Arrays, pack_statistics
from ggeur.settings.schema import Settings


def hello(asked: Asked, arrays: Arrays) -> Reply:
    """Who this site is, what its table is about, and whether it has its training set of this run already."""
    table = asked.table(fresh=True)
    own = np.flatnonzero(~_test(table))
    homes = np.unique(table.domains[own])
    kept = asked.store.facts()
    return {
        "partition": asked.site.client,
        "classes": table.class_names,
        "domains": table.domain_names,
        "dimension": table.dimension,
        "encoder": {k: table.meta[k] for k in ("encoder", "weights", "preprocessing") if k in table.meta},
        "count": np.bincount(table.y[own], minlength=table.n_classes).tolist(),
        "home": table.domain_names[homes[0]] if len(homes) == 1 else None,
        "fingerprint": table.fingerprint(),
        "test": int(_test(table).sum()),
        "ready": kept is not None and kept["fingerprint"] == table.fingerprint(),
    }, {}


def _test(table: EmbeddingTable) -> Any:
    assert table.test is not None  # it has been split
    return table.test


def statistics(asked: Asked, arrays: Arrays) -> Reply:
    """Per-class sums of the training rows, about the center that the server may have asked for."""
    table = asked.table()
    own = np.flatnonzero(~_test(table))
    s = ClassStatistics.from_embeddings(table.x[own], table.y[own], table.n_classes, center=arrays.get("center"))
    packed = pack_statistics(s, asked.facts["matrices"])
    return {}, {"count": packed.count, "sum": packed.sum, "second": packed.second}


def augment(asked: Asked, arrays: Arrays) -> Reply:
    """Draw this site's training set along the global shapes and keep it; reply with the method's first message."""
    table, a = asked.table(), asked.point.augment
    own = np.flatnonzero(~_test(table))
    y = table.y[own]
    means, present = arrays["prototypes"], arrays["present"]
    bank = None
    draws = plan_draws(y[:0], table.n_classes)
    if a.kind != "none":
        draws = plan_draws(
            y,
            table.n_classes,
            target=a.target or 0,
            per_sample=a.per_sample,
            prototypes=present,
            per_prototype=a.per_prototype,
            empty_cell=a.empty_cell,
        )
    noise = None
    if a.kind == "ggeur":
        shapes = Shapes(arrays["factors"], arrays["factor_of"], 0.0)
        size, offset = arrays["size"], arrays["offset"]
        noise, bank = own_noise(draws.label, shapes, size, offset, asked.site.client, asked.seed, table.dimension)
    made = virtual_set(np.arange(len(own)), y, draws, noise, len(own))
    test = _test(table)
    base = np.concatenate([table.x[own].astype(np.float32), means.reshape(-1, table.dimension)])
    asked.store.keep(
        {"fingerprint": asked.facts["fingerprint"], "originals": made.originals, "domains": table.domain_names},
        {
            "base": _stored(base, asked.point),
            "bank": None if bank is None else _stored(bank, asked.point),
            "row": made.row,
            "noise": made.noise,
            "y": made.y,
            "test_x": table.x[test],
            "test_y": table.y[test],
            "test_domain": table.domains[test],
        },
    )
    return first_message(asked, len(made.y), table.n_classes)


def _stored(array: Any, point: Settings) -> Any:
    """As `[train] storage` has it."""
    with np.errstate(over="ignore"):
        stored = array.astype(point.train.storage)
    if not np.isfinite(stored).all():
        raise GgeurError('storage = "float16" holds values up to 65504 and this site\'s are larger; use "float32"')
    return stored
