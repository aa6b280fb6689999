"""From a table and settings to a run: partition, statistics, geometry, virtual training sets, weights, first head."""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from ggeur.core.augment import Draws, Prototypes, plan_draws
from ggeur.core.errors import GgeurError, GgeurWarning
from ggeur.core.means import class_means
from ggeur.core.seeding import stream
from ggeur.core.types import Int
from ggeur.core.virtual import BankLayout, VirtualSet, count_draws, noise_bank, virtual_set
from ggeur.data import partition
from ggeur.data.table import EmbeddingTable
from ggeur.engine.stack import Run
from ggeur.experiment.built import head_of
from ggeur.experiment.sums import federation_statistics, global_geometry
from ggeur.heads.head import Head, Params
from ggeur.methods import resolve_solved
from ggeur.methods.algorithm import Task
from ggeur.settings.schema import Augment, Settings

_KEPT, _KEPT_BYTES = 10, 2**27  # augmented clients kept for the next method: how many, and how large each may be


def partition_rows(table: EmbeddingTable, settings: Settings, seed: int) -> list[Int]:
    """Each client's rows of a table that has been split."""
    p = settings.partition
    if p.kind == "dirichlet":
        return partition.dirichlet(
            table.y, p.clients, p.beta, min_per_class=p.min_per_class, test=table.test, seed=seed
        )
    if p.kind == "domain":
        taken = table.meta.get("share")
        if not (taken is None or (isinstance(taken, int | float) and 0 < taken <= 1)):
            raise GgeurError(f"The table's meta says share = {taken!r}; it must be a number above 0 and at most 1.")
        return partition.by_domain(table.domains, share=p.share, taken=taken, test=table.test, seed=seed)
    return partition.label_and_domain(table.y, table.domains, p.beta, test=table.test, seed=seed)


class Augmented(NamedTuple):
    """What Section 3 of the paper makes of the clients' rows."""

    sets: list[VirtualSet]
    prototypes: NDArray[Any]  # (D * C, p)
    bank: NDArray[np.float32] | None


def augment_clients(table: EmbeddingTable, parts: Sequence[Int], a: Augment, seed: int) -> Augmented:
    """The clients' training sets under `[augment]`."""
    n_classes, rows = table.n_classes, len(table)
    nothing = np.zeros((0, table.dimension), np.float32)
    if a.kind == "none":
        none = Draws(np.zeros(0, np.int64), np.zeros(0, np.int64))
        return Augmented([virtual_set(p, table.y[p], none, None, rows) for p in parts], nothing, None)
    homes = [_home(table, p) for p in parts]
    with_prototypes = a.kind in ("prototypes", "ggeur") and a.steps == 2 and _several_domains(table, homes)
    domains = [d for d in range(table.n_domains) if d in homes]
    prototypes = Prototypes(nothing.reshape(0, n_classes, table.dimension), np.zeros((0, n_classes), np.bool_))
    if with_prototypes:
        means = [_domain_means(table, [p for p, home in zip(parts, homes, strict=True) if home == d]) for d in domains]
        prototypes = Prototypes(np.stack([m for _, m in means]), np.stack([n > 0 for n, _ in means]))
    draws = []
    for own, home in zip(parts, homes, strict=True):
        others = prototypes.present & (np.array(domains)[: len(prototypes.present)] != home)[:, None]
        draws.append(
            plan_draws(
                table.y[own],
                n_classes,
                target=a.target or 0,
                per_sample=a.per_sample,
                prototypes=others if home is not None else None,
                per_prototype=a.per_prototype,
                empty_cell=a.empty_cell,
            )
        )
    noise: list[NDArray[np.int32] | None] = [None] * len(parts)
    bank = None
    if a.kind == "ggeur":
        geometry = global_geometry(table, parts, homes, a)
        if a.scale == "eigenvalue":
            geometry.warn_about_units()
        layout = BankLayout.of(count_draws(draws, n_classes), table.dimension, a.bank_mib * 2**20)
        noise = [layout.noise_rows(k, d.label, seed) for k, d in enumerate(draws)]
        bank = noise_bank(geometry, layout, a.scale, seed)
    sets = [virtual_set(own, table.y[own], d, z, rows) for own, d, z in zip(parts, draws, noise, strict=True)]
    return Augmented(sets, prototypes.mean.reshape(-1, table.dimension).astype(np.float32), bank)


def _home(table: EmbeddingTable, rows: Int) -> int | None:
    """The one domain a client holds, or None for a client that mixes domains or holds nothing."""
    domains = np.unique(table.domains[rows])
    return int(domains[0]) if len(domains) == 1 else None


def _several_domains(table: EmbeddingTable, homes: Sequence[int | None]) -> bool:
    if len({home for home in homes if home is not None}) > 1:
        return True
    why = "the table has one domain" if table.n_domains == 1 else "the clients mix domains"
    warnings.warn(f"Step 2 adds nothing: {why}, so there are no prototypes of others.", GgeurWarning, stacklevel=3)
    return False


def _domain_means(table: EmbeddingTable, parts: Sequence[Int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rows = np.concatenate(parts)
    return class_means(table.x[rows], table.y[rows], table.n_classes)


def client_weights(sets: Sequence[VirtualSet], kind: str) -> NDArray[np.float64]:
    """A client's weight in the mean: the rows it trains on, its original rows, or one."""
    rows = {
        "samples": [len(s.y) for s in sets],
        "original": [s.originals for s in sets],
        "equal": [1 for s in sets],
    }
    return np.array(rows[kind], np.float64)


def first_head(head: Head, seed: int, table: EmbeddingTable, client: int | None = None) -> Params:
    """The head that training starts from: the server's, shared by all arms of a seed, or one client's own."""
    key = jax.random.fold_in(jax.random.key(seed), stream("head"))
    if client is not None:
        key = jax.random.fold_in(key, client)
    return jax.tree.map(np.asarray, head.init(key, table.dimension, table.n_classes))


def first_params(table: EmbeddingTable, parts: Sequence[Int], settings: Settings, seed: int) -> Params:
    """What training starts from: a random head, or one solved in closed form from the clients' statistics."""
    if settings.train.start == "random":
        return first_head(head_of(settings), seed, table)
    return solved_head(settings.train.start, table, parts, settings, seed)


def solved_head(name: str, table: EmbeddingTable, parts: Sequence[Int], settings: Settings, seed: int) -> Params:
    """The closed-form head `name` from the merged statistics of the clients' own rows."""
    solved = resolve_solved(name, settings.method.get(name, {}))
    return solved.solve(federation_statistics(table, parts), task_of(table, seed, name))


def task_of(table: EmbeddingTable, seed: int, purpose: str) -> Task:
    """What is to be learnt from this table, with a key for whom `purpose` names."""
    key = jax.random.fold_in(jax.random.key(seed), stream(purpose))
    return Task(table.dimension, table.class_names, table.text, key)


_recent: dict[tuple[Any, ...], Augmented] = {}


def augmented_once(table: EmbeddingTable, settings: Settings, seed: int) -> Augmented:
    """`augment_clients`, made once for the methods of a grid that share it; only small banks are kept."""
    key = (table.fingerprint(), settings.partition, settings.augment, seed)
    if key not in _recent:
        parts = partition_rows(table, settings, seed)
        if not any(len(p) for p in parts):
            raise GgeurError(f"The federation has no training samples at all (seed {seed}).")
        made = augment_clients(table, parts, settings.augment, seed)
        if made.bank is None or made.bank.nbytes > _KEPT_BYTES:
            return made
        while len(_recent) >= _KEPT:
            _recent.pop(next(iter(_recent)))
        _recent[key] = made
    return _recent[key]


def build_run(table: EmbeddingTable, settings: Settings, seed: int, augmented: Augmented | None = None) -> Run:
    """Everything one seed of one setting trains on; `table` has been split by that seed, `augmented` made before."""
    augmented = augmented or augmented_once(table, settings, seed)
    parts = [s.row[: s.originals].astype(np.int64) for s in augmented.sets]
    head = head_of(settings)
    own: Any = ()
    if not settings.train.broadcast:
        heads = [first_head(head, seed, table, k) for k in range(len(parts))]
        own = jax.tree.map(lambda *a: np.stack(a), *heads)
    return Run(
        seed,
        table.x,
        augmented.prototypes,
        augmented.bank,
        augmented.sets,
        client_weights(augmented.sets, settings.train.weights),
        first_params(table, parts, settings, seed),
        table.n_classes,
        own,
    )
