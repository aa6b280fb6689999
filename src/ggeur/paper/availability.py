"""The files this machine lacks for a table of the paper, and the embeddings of parts for which it lacks nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ggeur.data.datasets import DATASETS, dataset_root, find
from ggeur.data.image_table import load_any
from ggeur.encoders.encoder import DEFAULT, installed, missing_extra
from ggeur.paper.paper_tables import PartEmbeddings, Table, TablePart
from ggeur.stats.errors import GgeurError, how_to_install
from ggeur.stats.storage import cache_folder


class PartState(NamedTuple):
    """The files of a part; if nothing is `missing` but it is not `local`, it is downloaded first."""

    part: str
    missing: str
    local: bool


def part_states(table: Table, data: Path | None, encoder: str = DEFAULT) -> list[PartState]:
    """Return the state of every part of a `table` here, with native files below `data` and this `encoder`."""
    return [PartState(part.name, missing(part, data, encoder), _is_local(part, data)) for part in table.parts]


def missing(part: TablePart, data: Path | None, encoder: str = DEFAULT) -> str:
    """Return what this machine lacks to embed a `part` from native files below `data` by this `encoder`, or None."""
    below, wants = dataset_root(data), []
    dataset = DATASETS[part.dataset]
    for source in dataset.sources:
        if find(source, below) is None and not (source.hub and installed("datasets")):
            domain = f" ({source.domains[0]})" if len(dataset.sources) > 1 else ""
            wants.append(f"{dataset.name}{domain} was not found; get {source.get}")
    if extra := missing_extra(encoder):
        wants.append(f"{'CLIP' if encoder == DEFAULT else encoder} needs {how_to_install(extra)}")
    return "; ".join(wants)


def _is_local(part: TablePart, data: Path | None) -> bool:
    return all(find(source, dataset_root(data)) for source in DATASETS[part.dataset].sources)


def runnable_rows(table: Table) -> int:
    """Return how many rows of a `table` can run on embeddings; those on images have pictures of their own."""
    return sum(not row.images for row in table.rows)


def part_embeddings(
    table: Table, data: Path | None, encoder: str, embed: Callable[[str, Path], object]
) -> dict[str, PartEmbeddings]:
    """The embeddings of each part of a `table`, which `embed(dataset, path)` is asked to write.

    It is asked where nothing is missing for a part: native files below `data` or the hub, and the `encoder`'s extra.
    """
    sources = {}
    for part in table.parts:
        if why := missing(part, data, encoder):
            sources[part.name] = PartEmbeddings(None, None, why)
            continue
        path = cache_folder() / "tables" / f"{part.dataset}.{encoder.replace('/', '-').replace(':', '-')}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        embed(part.dataset, path)
        sources[part.name] = PartEmbeddings(path, load_any(path))
    if all(source.table is None for source in sources.values()):
        whys = " ".join(f"{part}: {source.why}." for part, source in sources.items())
        raise GgeurError(
            f"{table.name} cannot run here. {whys} Or give embeddings with --table FILE.npz.",
            code="paper-table-unavailable",
        )
    return sources
