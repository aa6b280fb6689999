"""The figures of an embedding table under one or more partitions: which there are, and where they are kept."""

from collections.abc import Sequence
from pathlib import Path

from ggeur.data.table import EmbeddingTable
from ggeur.experiments.partitions import client_names, partition_samples
from ggeur.experiments.settings import Settings, settings
from ggeur.report import inspection
from ggeur.stats.storage import cannot
from ggeur.stats.types import Float


def partitions(
    table: EmbeddingTable, kind: str | None, clients: int, betas: Sequence[float] | None, seed: int
) -> list[Settings]:
    """Settings that deal a `table` out with this `seed` under each of `betas`, by default the paper's.

    Without a `kind` it is by labels and, if there are several, by domains; `clients` are those of a dirichlet one.
    """
    if kind is None:
        kind = "dirichlet" if table.n_domains == 1 else "label-and-domain"
    own = {"kind": kind} | ({"clients": clients} if kind == "dirichlet" else {})
    skewed = [own] if kind == "domain" else [own | {"beta": beta} for beta in betas or inspection.BETAS]
    return [settings({"data": {"table": "-"}, "partition": p, "run": {"seeds": [seed]}}) for p in skewed]


def draw(
    table: EmbeddingTable, shapes: tuple[Float, Sequence[str]], pairs: Sequence[inspection.Similarity],
    points: Sequence[Settings], out: Path, client: int | None, class_names: Sequence[str], seed: int,
) -> list[str]:  # fmt: skip
    """Write every figure of a `table` into the folder `out`, as PNG and SVG; their names.

    `shapes` and `pairs` are its spectra and similarities. `points` deal it out with this `seed`; under the first
    of them one `client` (default: the largest) is looked at, and of it `class_names` (default: telling ones).
    """
    from ggeur.report import figures  # matplotlib, which numbers alone do not need

    split = table.split(seed)
    parts = {_title(point): partition_samples(split, point.partition, seed) for point in points}
    first = next(iter(parts.values()))
    drawn = {
        "label-distribution": figures.label_distribution(
            {title: inspection.client_counts(split, rows) for title, rows in parts.items()},
            table.class_names,
            client_names(split, first),
        ),
        "client-view": figures.draw_client_view(
            inspection.client_view(split, first, client, points[0].augment.build(), class_names, seed)
        ),
        "spectra": figures.draw_spectra(*shapes),
    }
    if pairs:
        drawn["similarity"] = figures.draw_similarity(pairs)
    with cannot(f"make the folder {out}"):
        out.mkdir(parents=True, exist_ok=True)
    for name, figure in drawn.items():
        figures.save_figure(figure, out / name)
    return list(drawn)


def _title(point: Settings) -> str:
    return "one domain each" if point.partition.kind == "domain" else f"β = {point.partition.beta:g}"
