"""Round 0 at a site: who it is, its statistics, and its training set, drawn along the global shapes."""

from typing import Any

import numpy as np

from ggeur.core.errors import GgeurError
from ggeur.core.virtual import BankPiece, NoisePlace, training_set
from ggeur.data.table import EmbeddingTable
from ggeur.deploy.site.data import Reply, Request
from ggeur.deploy.site.training import first_message
from ggeur.deploy.wire.packing import Arrays, from_triangles, pack_message
from ggeur.federation.summary import protect, summarise
from ggeur.settings.schema import Settings


def hello(request: Request, arrays: Arrays) -> Reply:
    """Who this site is, what its table is about, and whether it has its training set of this run already."""
    table = request.table(fresh=True)
    own = np.flatnonzero(~_test(table))
    homes = np.unique(table.domains[own])
    kept = request.store.facts()
    return {
        "partition": request.site.client,
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


def statistics(request: Request, arrays: Arrays) -> Reply:
    """The message of this site's training rows, about the center that the server may have request for."""
    table = request.table()
    own = np.flatnonzero(~_test(table))
    message = summarise(table.x[own], table.y[own], table.n_classes, request.facts["kind"], arrays.get("center"))
    return {}, pack_message(protect(message))


def augment(request: Request, arrays: Arrays) -> Reply:
    """Draw this site's training set along the global shapes and keep it; reply with the method's first message."""
    table, a = request.table(), request.augmentation
    own = np.flatnonzero(~_test(table))
    y, p, present = table.y[own], table.dimension, arrays["present"]
    means, bank, noise = arrays["prototypes"], None, None
    if a.noise is not None and a.rule is not None:
        draws = a.rule.draws(np.bincount(y, minlength=table.n_classes), present)
        piece = BankPiece(arrays["offset"], draws, arrays["size"])
        factors = from_triangles(arrays["factors"], p)
        bank = piece.noise(factors, arrays["factor_of"], request.seed)
        noise = NoisePlace(piece, np.zeros_like(draws), request.site.client, request.seed)
    made = training_set(np.arange(len(own)), y, a.rule, present, noise, len(own))
    test = _test(table)
    base = np.concatenate([table.x[own].astype(np.float32), means.reshape(-1, p)])
    request.store.keep(
        {"fingerprint": request.facts["fingerprint"], "originals": made.originals, "domains": table.domain_names},
        {
            "base": _stored(base, request.point),
            "bank": None if bank is None else _stored(bank, request.point),
            "row": made.row,
            "noise": made.noise,
            "y": made.y,
            "test_x": table.x[test],
            "test_y": table.y[test],
            "test_domain": table.domains[test],
        },
    )
    return first_message(request, len(made.y), table.n_classes)


def _stored(array: Any, point: Settings) -> Any:
    """As `[train] storage` has it."""
    with np.errstate(over="ignore"):
        stored = array.astype(point.train.storage)
    if not np.isfinite(stored).all():
        raise GgeurError('storage = "float16" holds values up to 65504 and this site\'s are larger; use "float32"')
    return stored
