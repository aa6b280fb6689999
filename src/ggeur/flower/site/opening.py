"""Round 0 at a site: who it is, its statistics, and its training set, drawn along the global shapes."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggeur.experiments.settings import Settings
from ggeur.federation.augmentation_plan import Shapes
from ggeur.federation.summary import summarise
from ggeur.flower.site.data import test_samples
from ggeur.flower.site.local_round import first_message
from ggeur.flower.site.release import released
from ggeur.flower.site.request import Reply, Request
from ggeur.flower.wire.packing import Arrays, pack_message, unpack_factors
from ggeur.flower.wire.requested import RequestedPart, RequestedStatistics, samples_of
from ggeur.methods import kind_of
from ggeur.methods.algorithm import Iterative
from ggeur.stats.augmented_sets import BankPiece, NoisePlace, training_set
from ggeur.stats.errors import GgeurError
from ggeur.stats.geometry import LowRank
from ggeur.stats.site_statistics import SiteStatistics
from ggeur.stats.types import Int
from ggeur.stats.units import SampleMoments

ENCODER = ("encoder", "weights", "preprocessing", "dimension")  # what a table's meta says of its encoder


def hello(request: Request) -> Reply:
    """Who this site is, what its table is about, and whether it has its training set of the run of `request`."""
    table, fingerprint = request.table(fresh=True), ""
    test, privacy = test_samples(table), request.point.privacy
    # Training sets are laid out by counts, which are therefore told; a one-shot classifier's are in the sums.
    hidden = not privacy.release.exact or (
        privacy.secure_aggregation and kind_of(request.point.train.method) is not Iterative
    )
    count = np.zeros((table.n_domains, table.n_classes), np.int64)
    np.add.at(count, (table.domains[~test], table.y[~test]), 1)
    fingerprint = table.fingerprint()
    if hidden:  # of which domains a site is, is public; how many samples it has, and a hash of them, is not
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
        "text": tuple(table.text),
        "ready": request.store.has_set(fingerprint),
    }, {}


def sums(request: Request) -> Reply:
    """Number, sum and squares of this site's training samples, of which the federation's units are found."""
    request.exact()
    return {}, {"sums": sample_sums(request).pack()}


def sample_sums(request: Request) -> SampleMoments:
    """Return the sums of this site's training samples, in the units they are stored in."""
    table = request.table()
    return SampleMoments.of(table.x[~test_samples(table)])


def statistics(request: Request) -> Reply:
    """The messages of this site's training samples that `request` asks for, of a kind and about a center that it
    names.
    """
    request.in_the_clear()
    wanted = RequestedStatistics.read(request.facts)
    if not request.release.exact:
        return {}, released(request, wanted, rows_of(request))
    arrays: Arrays = {}
    for part, message in messages(request, wanted):
        arrays |= pack_message(message, part.prefix)
    return {}, arrays


def rows_of(request: Request) -> tuple[NDArray[Any], Int, Int]:
    """This site's training samples, their classes and their domains."""
    table = request.table()
    own = ~test_samples(table)
    return table.x[own], table.y[own], table.domains[own]


def messages(
    request: Request, wanted: RequestedStatistics, every: int | None = None
) -> Iterator[tuple[RequestedPart, SiteStatistics]]:
    """Return those that are `wanted` of this site: of the domains that it has samples of, or of `every` one of so
    many.
    """
    x, y, domains = rows_of(request)
    for part in wanted.parts(np.unique(domains).tolist() if every is None else range(every)):
        samples = samples_of(part, domains)
        classes, center = len(request.facts["classes"]), request.arrays.get("center")
        yield part, summarise(x[samples], y[samples], classes, wanted.kind, center)


def text(request: Request) -> Reply:
    """Text embeddings of this site's class names, which are public; none where its table has none."""
    found = request.site.text(request.point, request.seed, request.store, request.facts["prompts"])
    if found is None:
        return {}, {}
    ball = request.point.privacy.ball
    return {}, {"text": np.asarray(found if ball is None else ball.apply(found), np.float32)}


def augment_site(request: Request) -> Reply:
    """Draw this site's training set along the global shapes that `request` brings, and keep it.

    The reply is the method's first message.
    """
    if not request.release.exact:
        raise GgeurError(
            "under [privacy] epsilon or mechanism this site trains on no samples of its own",
            code="policy-training-refused",
        )
    table, a, arrays = request.table(), request.point.augment.build(), request.arrays
    test, p, present = test_samples(table), table.dimension, arrays["present"]
    x, y = table.x[~test].astype(np.float32), table.y[~test]
    bank, noise = np.zeros((0, p), np.float32), None
    shapes = Shapes(*unpack_factors(arrays, p), arrays["factor_of"], 0.0)
    expected = None if a.rank is None else shapes.by_class
    if a.draws_noise and a.rule is not None:
        draws = a.rule.draws(np.bincount(y, minlength=table.n_classes), present)
        piece = BankPiece(arrays["offset"], draws, arrays["size"])
        bank = piece.noise(shapes.factors, shapes.factor_of, request.seed)
        noise = NoisePlace(piece, np.zeros_like(draws), request.site.client, request.seed)
    samples = training_set(np.arange(len(y)), y, a.rule, present, noise, len(y), expected=expected is not None)
    base = np.concatenate([x, arrays["prototypes"].reshape(-1, p)])
    request.store.put_set(
        request.facts["fingerprint"],
        {
            "base": _as_stored(base, request.point),
            "bank": _as_stored(bank, request.point),
            "sample": samples.sample,
            "noise": samples.noise,
            "y": samples.y,
            "originals": np.array([samples.originals]),
            "settings": request.settings_hash,
            **(expected or LowRank(bank[:0], bank[:0]))._asdict(),
            "test_x": table.x[test],
            "test_y": table.y[test],
            "test_domain": table.domains[test],
        },
    )
    if request.point.privacy.secure_aggregation:  # it is added up under masks, later
        return {"samples": len(samples.y)}, {}
    return first_message(request, len(samples.y))


def _as_stored(array: Any, point: Settings) -> Any:
    """Return `array` in the type that `[train] storage` names."""
    with np.errstate(over="ignore"):
        stored = array.astype(point.train.storage)
    if not np.isfinite(stored).all():
        raise GgeurError(
            'storage = "float16" holds values up to 65504 and this site\'s are larger; use "float32"',
            code="embeddings-storage-overflow",
        )
    return stored
