"""Rows that are trained end to end on pictures: what differs from the benchmark, and how long they will take."""

import time

import jax
import jax.numpy as jnp
import numpy as np

from ggeur.data.image_table import ImageTable
from ggeur.experiment.dealing import Dealer
from ggeur.experiment.partitions import partition_rows
from ggeur.heads import resolve
from ggeur.paper.paper_tables import Part, PartEmbeddings
from ggeur.settings.grid import Experiment

_PASSES = 3  # a step costs about three times what the network costs forwards
_MORE = {"moon": 5 / 3, "fedntd": 4 / 3}  # which also ask other networks


def image_notes(part: Part, source: PartEmbeddings, network: str | None) -> list[str]:
    """What a reader must know of these rows on the pictures of `source`, trained by another `network` if named."""
    assert isinstance(source.table, ImageTable)
    head, pixels, theirs = network or part.images["head"], source.table.pixels, part.images["pixels"]
    benchmark = part.images.get("benchmark", part.images["head"])
    notes = [f"{part.name}: rows (images) have GroupNorm for the benchmark's BatchNorm, and our test rows."]
    if head != benchmark:
        notes.append(f"{part.name}: rows (images) are of {head}, in the place of the benchmark's {benchmark}.")
    if pixels != theirs:
        notes.append(f"{part.name}: rows (images) are of {pixels} x {pixels} pixels; the benchmark's are {theirs}.")
    return notes


def estimated_seconds(experiment: Experiment) -> float:
    """How long the rows on pictures will take here, by the arithmetic of their steps and the speed of one convolution.

    It is a guess within a factor of two or three; it tells minutes from days.
    """
    dealer, work = Dealer(), 0.0
    for point in experiment.points:
        head = resolve(point.train.head, **point.head_parameters)
        if not head.images:
            continue
        table = dealer.split(point.data, experiment.seeds[0])
        rows = sum(map(len, partition_rows(table, point.partition, experiment.seeds[0])))
        params = jax.eval_shape(lambda key, t=table, h=head: h.init(key, t.dimension, t.n_classes), jax.random.key(0))
        cost = jax.jit(head.logits).lower(params, np.zeros((1, table.dimension), np.float32)).cost_analysis()
        each = _PASSES * float((cost or {}).get("flops", 0.0)) * _MORE.get(point.train.method, 1.0)
        work += each * rows * point.train.local_epochs * point.train.rounds * len(experiment.seeds)
    return work / _speed() if work else 0.0


def _speed() -> float:
    """Floating-point operations a second of a convolution such as ResNets are made of."""
    rng = np.random.default_rng(0)
    x, w = (jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in ((16, 32, 32, 64), (3, 3, 64, 64)))
    convolve = jax.jit(
        lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    )
    convolve(x, w).block_until_ready()
    began, times = time.perf_counter(), 5
    for _ in range(times):
        convolve(x, w).block_until_ready()
    return float(times * 2 * 9 * 64 * x.size / (time.perf_counter() - began))
