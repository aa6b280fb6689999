"""The contents of a table, as arrays: counts, norms, spectra, similarity across domains, one client's view."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ggeur.data.table import EmbeddingTable
from ggeur.experiments.partitions import client_names, partition_samples
from ggeur.experiments.settings import Settings, settings
from ggeur.federation.augmentation import Augmentation
from ggeur.federation.local_federation import LocalFederation
from ggeur.stats.errors import GgeurError
from ggeur.stats.geometry import Geometry, similarity
from ggeur.stats.storage import cannot
from ggeur.stats.types import Float, Int

TOP = 5  # eigenvectors that the paper compares (Section 2)
BETAS = (0.1, 0.3, 0.5, 0.7, 1.0, 5.0)  # skews of its Figure 9


def counts(table: EmbeddingTable) -> Int:
    """Samples of each domain and class, (D, C)."""
    flat = table.domains * table.n_classes + table.y
    return np.bincount(flat, minlength=table.n_domains * table.n_classes).reshape(table.n_domains, -1)


def client_counts(table: EmbeddingTable, parts: Sequence[Int]) -> Int:
    """Samples of each client and class, (K, C): Figures 7 and 9."""
    return np.stack([np.bincount(table.y[samples], minlength=table.n_classes) for samples in parts])


def norms(table: EmbeddingTable) -> list[tuple[float, float] | None]:
    """Mean and deviation of the embeddings' lengths in each domain; None where it has no samples."""
    norm = np.linalg.norm(table.x.astype(np.float32), axis=1)
    own = [norm[table.domains == d] for d in range(table.n_domains)]
    return [(float(n.mean()), float(n.std())) if len(n) else None for n in own]


def spectra(table: EmbeddingTable) -> tuple[Float, list[str]]:
    """Eigenvalues of the covariance of every class that has samples, (C', r) descending, and the classes' names."""
    held = np.unique(table.y)
    values = np.zeros((len(held), min(table.dimension, int(np.bincount(table.y).max(initial=1)))))
    for i, c in enumerate(held):
        found, _ = _shape(table.x[table.y == c])
        values[i, : len(found)] = found
    return values, [table.class_names[c] for c in held]


def directions(eigenvalues: Float, share: float) -> Int:
    """Return how many of the largest eigenvalues, (C, r) descending, carry this share of each class's variance."""
    total = np.maximum(eigenvalues.sum(axis=1), 1e-300)
    carried = np.cumsum(eigenvalues, axis=1) / total[:, None]
    return np.asarray((carried < share).sum(axis=1) + 1)


def _shape(x: NDArray[Any], *, centred: bool = True) -> tuple[Float, Float]:
    """Eigenvalues (r,), descending, and eigenvectors (p, r) of the samples' covariance.

    The smaller of samples times samples and dimensions times dimensions is decomposed: classes are often small.
    """
    x = x.astype(np.float64)
    x = (x - x.mean(axis=0) if centred else x) / np.sqrt(len(x))
    few = len(x) < x.shape[1]
    values, vectors = np.linalg.eigh(x @ x.T if few else x.T @ x)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    if few:
        vectors = x.T @ vectors / np.sqrt(np.maximum(values, 1e-300))
    return values, vectors


class Similarity(NamedTuple):
    """S of Eq. 3 between the classes of two domains that both of them have."""

    domains: tuple[str, str]
    class_names: tuple[str, ...]
    values: Float  # (C', C')

    @property
    def same(self) -> float:
        """Mean over the diagonal: the same class in both domains."""
        return float(np.diag(self.values).mean())

    @property
    def other(self) -> float:
        """Mean off the diagonal."""
        n = len(self.values)
        return float((self.values.sum() - np.trace(self.values)) / max(n * n - n, 1))


def similarities(table: EmbeddingTable, *, centred: bool = True) -> list[Similarity]:
    """Every pair of domains, over the classes that both hold with more samples than eigenvectors compared (Figure 6).

    `centred=False` compares the uncentred moments of Eq. 1 as printed, whose first eigenvector is nearly the mean.
    """
    count, top = counts(table), min(TOP, table.dimension)
    vectors = np.zeros((table.n_domains, table.n_classes, table.dimension, top))
    for d, c in np.argwhere(count > top):
        vectors[d, c] = _shape(table.x[(table.domains == d) & (table.y == c)], centred=centred)[1][:, :top]
    found = []
    for a, b in combinations(range(table.n_domains), 2):
        both = np.flatnonzero((count[a] > top) & (count[b] > top))
        if len(both) > 1:
            present = np.ones(len(both), np.bool_)
            first, second = (Geometry(np.ones((len(both), top)), vectors[d, both], present) for d in (a, b))
            pair = (table.domain_names[a], table.domain_names[b])
            names = tuple(table.class_names[c] for c in both)
            found.append(Similarity(pair, names, similarity(first, second, top)))
    return found


class Cloud(NamedTuple):
    """Points of a few classes in the plane."""

    xy: Float  # (n, 2)
    y: Int  # index into the view's class names


class ClientView(NamedTuple):
    """One client's embeddings beside the global ones, in the plane of the latter's first principal components."""

    client: str
    class_names: tuple[str, ...]
    own: Cloud
    augmented: Cloud
    everyone: Cloud
    shares: tuple[float, float]  # shares of the variance, along the two axes


def check_classes(table: EmbeddingTable, class_names: Sequence[str]) -> None:
    """Raise where one of the `class_names` is none of the `table`'s."""
    if unknown := [name for name in class_names if name not in table.class_names]:
        more = f" and {len(table.class_names) - 20} more" if len(table.class_names) > 20 else ""
        raise GgeurError(
            f"The table has no class '{unknown[0]}'; it has {', '.join(table.class_names[:20])}{more}.",
            code="class-unknown",
        )


def client_view(
    table: EmbeddingTable,
    parts: Sequence[Int],
    client: int | None,
    augmentation: Augmentation,
    class_names: Sequence[str],
    seed: int,
) -> ClientView:
    """A client's samples before and after it is augmented, and all clients' samples (Figures 1, 3 and 5).

    Without a `client`: the one with most samples. Without `class_names`: the class the client holds most of, the one it
    holds least of, and one that it lacks, if there is one.
    """
    if client is None:
        client = int(np.argmax([len(samples) for samples in parts]))
    if not 0 <= client < len(parts):
        raise GgeurError(
            f"There is no client {client}; there are {len(parts)}, counted from 0.", code="client-out-of-range"
        )
    check_classes(table, class_names)
    own = client_counts(table, parts)
    chosen = np.array([table.class_names.index(n) for n in class_names] or _telling(own[client], own.sum(axis=0)))
    few, samples = _only(table, parts, chosen)
    clients = LocalFederation.of(few.x, few.y, few.domains, few.n_classes, samples)
    made = clients.prepare(augmentation, seed)
    base = np.concatenate([few.x, made.prototypes.astype(few.x.dtype)])
    augmented = made.sets[client].materialise(base, made.bank)
    everyone = np.concatenate(samples)
    centre = few.x[everyone].mean(axis=0, dtype=np.float64)
    _, values, axes = np.linalg.svd(few.x[everyone] - centre, full_matrices=False)
    plane, energy = axes[:2].T, values**2 / max(float((values**2).sum()), 1e-300)
    if plane.shape[1] < 2:
        raise GgeurError(
            "A view in the plane needs embeddings of two dimensions and clients with at least two samples.",
            code="inspection-plane-impossible",
        )
    return ClientView(
        client=client_names(table, parts)[client],
        class_names=tuple(table.class_names[c] for c in chosen),
        own=Cloud((few.x[samples[client]] - centre) @ plane, few.y[samples[client]]),
        augmented=Cloud((augmented - centre) @ plane, made.sets[client].y.astype(np.int64)),
        everyone=Cloud((few.x[everyone] - centre) @ plane, few.y[everyone]),
        shares=(float(energy[0]), float(energy[1])),
    )


def _telling(own: Int, total: Int) -> list[int]:
    held = np.flatnonzero(own)
    if not len(held):
        raise GgeurError(
            "This client holds no samples, so there is nothing to look at; choose another with --client.",
            code="client-without-samples",
        )
    by_count = held[np.argsort(-own[held], kind="stable")]
    lacking = np.flatnonzero((own == 0) & (total > 0))
    return list(dict.fromkeys([*by_count[:1].tolist(), *by_count[-1:].tolist(), *lacking[:1].tolist()]))


def _only(table: EmbeddingTable, parts: Sequence[Int], classes: Int) -> tuple[EmbeddingTable, list[Int]]:
    """The table of these classes alone, numbered in their order, and the clients' samples in it."""
    kept = np.isin(table.y, classes)
    place = np.cumsum(kept) - 1
    code = np.zeros(table.n_classes, np.int64)
    code[classes] = np.arange(len(classes))
    names = tuple(table.class_names[c] for c in classes)
    few = replace(table.subset(kept), y=code[table.y[kept]], class_names=names, text={})
    return few, [place[samples[kept[samples]]] for samples in parts]


def partitions(
    table: EmbeddingTable, kind: str | None, clients: int, betas: Sequence[float] | None, seed: int
) -> list[Settings]:
    """Settings that deal a `table` out with this `seed` under each of `betas`, by default the paper's.

    Without a `kind` it is by labels and, if there are several, by domains; `clients` are those of a dirichlet one.
    """
    if kind is None:
        kind = "dirichlet" if table.n_domains == 1 else "label-and-domain"
    own = {"kind": kind} | ({"clients": clients} if kind == "dirichlet" else {})
    skewed = [own] if kind == "domain" else [own | {"beta": beta} for beta in betas or BETAS]
    return [settings({"data": {"table": "-"}, "partition": p, "run": {"seeds": [seed]}}) for p in skewed]


def draw(
    table: EmbeddingTable, shapes: tuple[Float, Sequence[str]], pairs: Sequence[Similarity],
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
            {title: client_counts(split, rows) for title, rows in parts.items()},
            table.class_names,
            client_names(split, first),
        ),
        "client-view": figures.draw_client_view(
            client_view(split, first, client, points[0].augment.build(), class_names, seed)
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
