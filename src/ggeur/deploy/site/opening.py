"""Round 0 at a site: who it is, its statistics, and its training set, drawn along the global shapes."""

from typing import Any

import numpy as np

from ggeur.core.errors import GgeurError
from ggeur.core.low_rank import LowRank
from ggeur.core.units import RowSums
from ggeur.core.virtual import BankPiece, NoisePlace, training_set
from ggeur.deploy.site.data import test_rows
from ggeur.deploy.site.local_round import first_message
from ggeur.deploy.site.release import released
from ggeur.deploy.site.request import Reply, Request
from ggeur.deploy.wire.packing import Arrays, pack_message, unpack_factors
from ggeur.deploy.wire.wanted import Wanted
from ggeur.federation.shapes import Shapes
from ggeur.federation.summary import summarise
from ggeur.settings.schema import Settings

ENCODER = ("encoder", "weights", "preprocessing", "dimension")  # what a table's meta says of its encoder


def hello(request: Request) -> Reply:
    """Who this site is, what its table is about, and whether it has its training set of the run of `request`."""
    table, fingerprint = request.table(fresh=True), ""
    test, hidden = test_rows(table), request.point.privacy.epsilon is not None
    count = np.zeros((table.n_domains, table.n_classes), np.int64)
    np.add.at(count, (table.domains[~test], table.y[~test]), 1)
    fingerprint = table.fingerprint()
    if hidden:  # of which domains a site is, is public; how many rows it has, and a hash of them, is not
        count[:] = count.any(axis=1, keepdims=True)
        fingerprint = request.site.salted(fingerprint)
    return {
        "partition": request.site.client,
        "classes": table.class_names,
        "domains": table.domain_names,
        "dimension": table.dimension,
        "encoder": {k: table.meta[k] for k in ENCODER if k in table.meta},
        "count": count.tolist(),
        "fingerprint": fingerprint,
        "test": int(test.sum()),
        "ready": request.store.has_set(fingerprint),
    }, {}


def sums(request: Request) -> Reply:
    """Number, sum and squares of this site's training rows, of which the federation's units are found."""
    table = request.table()
    return {}, {"sums": RowSums.of(table.x[~test_rows(table)]).pack()}


def statistics(request: Request) -> Reply:
    """The messages of this site's training rows that `request` asks for, of a kind and about a center that it names."""
    table, center = request.table(), request.arrays.get("center")
    wanted, own, privacy = Wanted.read(request.facts, request.arrays), ~test_rows(table), request.point.privacy
    x, y, domains = table.x[own], table.y[own], table.domains[own]
    if privacy.mechanism is not None:
        return {}, released(request, wanted, (x, y, domains))
    fold = np.zeros_like(y)
    if wanted.folds:
        from ggeur.federation.choosing import row_folds

        fold = row_folds(y, domains, wanted.folds, request.seed, request.site.client, privacy.least_rows)
    arrays: Arrays = {}
    for part in wanted.parts(np.unique(domains).tolist()):
        rows = wanted.rows(part, y, domains, fold)
        message = summarise(x[rows], y[rows], table.n_classes, wanted.kind, center)
        arrays |= pack_message(message, part.prefix)
    return {}, arrays


def text(request: Request) -> Reply:
    """Text embeddings of this site's class names, which are public; none where its table has none."""
    found = request.site.text(request.point, request.seed, request.store, request.facts["prompts"])
    return {}, {} if found is None else {"text": np.asarray(found, np.float32)}


def augment(request: Request) -> Reply:
    """Draw this site's training set along the global shapes that `request` brings, and keep it.

    The reply is the method's first message.
    """
    table, a, arrays = request.table(), request.point.augment.build(), request.arrays
    test, p, present = test_rows(table), table.dimension, arrays["present"]
    x, y = table.x[~test].astype(np.float32), table.y[~test]
    bank, noise = np.zeros((0, p), np.float32), None
    shapes = Shapes(*unpack_factors(arrays, p), arrays["factor_of"], 0.0)
    expected = None if a.rank is None else shapes.by_class
    if a.draws_noise and a.rule is not None:
        draws = a.rule.draws(np.bincount(y, minlength=table.n_classes), present)
        piece = BankPiece(arrays["offset"], draws, arrays["size"])
        bank = piece.noise(shapes.factors, shapes.factor_of, request.seed)
        noise = NoisePlace(piece, np.zeros_like(draws), request.site.client, request.seed)
    rows = training_set(np.arange(len(y)), y, a.rule, present, noise, len(y), expected=expected is not None)
    base = np.concatenate([x, arrays["prototypes"].reshape(-1, p)])
    request.store.put_set(
        request.facts["fingerprint"],
        {
            "base": _as_stored(base, request.point),
            "bank": _as_stored(bank, request.point),
            "row": rows.row,
            "noise": rows.noise,
            "y": rows.y,
            "originals": np.array([rows.originals]),
            **(expected or LowRank(bank[:0], bank[:0]))._asdict(),
            "test_x": table.x[test],
            "test_y": table.y[test],
            "test_domain": table.domains[test],
        },
    )
    return first_message(request, len(rows.y))


def _as_stored(array: Any, point: Settings) -> Any:
    """As `[train] storage` has it."""
    with np.errstate(over="ignore"):
        stored = array.astype(point.train.storage)
    if not np.isfinite(stored).all():
        raise GgeurError('storage = "float16" holds values up to 65504 and this site\'s are larger; use "float32"')
    return stored
