"""What a secure aggregation costs one site and the server: keys, masks and seeds of per-class statistics, in one
process.
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from benchmarks.timing import Fact

from ggeur.flower.machines.certificates import make_node_key
from ggeur.flower.wire.blocks import statistics_blocks
from ggeur.flower.wire.requested import RequestedStatistics
from ggeur.privacy.secure_aggregation.fixed_point import decode, encode
from ggeur.privacy.secure_aggregation.keys import Attempt, KnownSites, Secrets, announce, sign, transcript
from ggeur.privacy.secure_aggregation.masks import mask, unmask

DIMENSION = 512
MEASURED = 4  # sites of each sum that make their vector; the others' cost is the same


def cost(sites: int, classes: int, folder: Path) -> Fact:
    """Processor seconds and bytes of one site, and the error of the total, of a sum over so many `sites`."""
    lines = []
    for k in range(sites):
        if not (folder / f"{k}").exists():
            make_node_key(folder / f"{k}")
        lines.append(f"{k} {(folder / f'{k}.pub').read_text()}")
    (folder / "roster").write_text("".join(lines))
    known, attempt = (
        KnownSites(folder / "roster"),
        Attempt("run", "statistics", f"{sites} {classes}", tuple(range(sites))),
    )
    own = {k: Secrets.new() for k in attempt.sites}
    began = time.process_time()
    announced = {k: announce(attempt, k, own[k], ("all",), folder / f"{k}") for k in attempt.sites}
    keys = (time.process_time() - began) / sites
    blocks = statistics_blocks(RequestedStatistics("per-class"), 1, classes, DIMENSION, 1.0)
    rng, each = np.random.default_rng(0), []
    plain = {block.name: np.zeros(block.shape) for block in blocks}
    total = np.zeros(sum(block.size for block in blocks), np.uint64)
    for k in attempt.sites:
        arrays = {block.name: rng.uniform(-100, 100, block.shape) for block in blocks}
        plain = {name: plain[name] + array for name, array in arrays.items()}
        began = time.process_time()
        known.check_keys(attempt, announced)
        vector = encode(arrays, blocks, sites)
        mask(vector, k, own[k], attempt, announced, b"statistics")
        sign(folder / f"{k}", b"sent")
        each.append(time.process_time() - began)
        total += vector
        if len(each) == MEASURED and sites > 10:
            return Fact("secure aggregation: one site", _work(sites, classes), _said(keys, each, vector.nbytes))
    began = time.process_time()
    unmask(total, [one.seed for one in own.values()], transcript(attempt, announced))
    found = decode(total, blocks, sites)
    opening = time.process_time() - began
    error = max(float(np.abs(found[n] - plain[n]).max() / np.abs(plain[n]).max()) for n in plain)
    more = f"; server {opening:.2f} s to open, error {error:.0e} of the largest entry"
    return Fact("secure aggregation: one site", _work(sites, classes), _said(keys, each, vector.nbytes) + more)


def _work(sites: int, classes: int) -> str:
    return f"{sites} sites, {classes} x {DIMENSION}, per-class" + (f"; {MEASURED} sites measured" if sites > 10 else "")


def _said(keys: float, each: list[float], size: int) -> str:
    return f"{min(each):.2f} s of a processor for its vector, {1000 * keys:.0f} ms for its key, {size / 1e6:.1f} MB up"


def main() -> Iterator[Fact]:
    with tempfile.TemporaryDirectory() as folder:
        for classes in (10, 100):
            for sites in (4, 10, 50):
                yield cost(sites, classes, Path(folder))
