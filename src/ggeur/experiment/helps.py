"""Who helps whom among the clients of a table, and `helps.json`, the file that keeps it."""

import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import jax
from pydantic import ConfigDict, TypeAdapter, ValidationError

from ggeur.core.errors import GgeurError
from ggeur.core.names import blaming
from ggeur.data.files import write_bytes
from ggeur.data.table import EmbeddingTable
from ggeur.experiment.dealing import Dealer, task_of
from ggeur.experiment.partitions import client_names, clients_of
from ggeur.experiment.setup import Setup
from ggeur.experiment.sites import Site
from ggeur.experiment.solution import Solution, together
from ggeur.federation.choosing import choose
from ggeur.federation.helping import SHAPLEY, Helping, OnHead, sites_of
from ggeur.federation.helping import helping as helping_of_sites
from ggeur.federation.left_out import SimulatedFolds
from ggeur.methods.algorithm import Chosen, Solved, Task
from ggeur.runs.sealed import sealed, unsealed
from ggeur.runs.site_files import HELPS
from ggeur.settings.schema import Partition, Settings

FILE = HELPS
_SCHEMA = 1
_SECONDS = 60.0  # that every set of sites may take


def helping(
    table: EmbeddingTable,
    partition: Partition,
    method: Solved | Chosen,
    seed: int,
    *,
    name: str = "",
    most: int = SHAPLEY,
) -> Helping:
    """Who helps whom in a `table` dealt out by `partition` and `seed`; of a `method` that chooses, by what it takes.

    `name` is what people call the method. No test row is looked at. Shapley values are of at `most` so many clients.
    """
    table = table.split(seed)
    clients, task = clients_of(table, partition, seed), task_of(table)._replace(key=jax.random.key(seed))
    if isinstance(method, Chosen):
        folds = SimulatedFolds.of(clients, method, seed)
        taken = method.candidates[choose(method, folds.count(), folds, task, seed).taken]
        name, method = taken.label, taken.solved
    sites = sites_of(clients, client_names(table, clients.parts), method, seed)
    return helping_of_sites(sites, method, task, most)._replace(head=name)


def helping_of_point(point: Settings, seed: int, name: str) -> Helping:
    """The same of a point of a grid, dealt out as its run did; its method must be solved from messages."""
    setup = Setup.of(point)
    if point.privacy.secure_sum:
        raise GgeurError(
            "Under [privacy] secure_sum nobody can tell who helps whom: a total without one site shows what it added."
        )
    table, _ = Dealer().rows(setup, seed)
    assert isinstance(setup.algorithm, Solved | Chosen), f"{name} is trained"
    return helping(table, point.partition, setup.algorithm, seed, name=name)


def helping_of_solution(sites: Sequence[Site], solution: Solution, on_head: OnHead) -> Helping:
    """The same of `sites` whose head is that of a `solution`; `on_head` hears of every head that this takes."""
    clients, names, _ = together(sites)
    solved, seed = solution.solved, solution.seed
    task = Task(clients.x.shape[1], names, key=jax.random.key(seed))
    apart = sites_of(clients, [s.name for s in sites], solved, seed)
    with blaming(solution.method, "method"):
        found = helping_of_sites(apart, solved, task, seconds=_SECONDS, on_head=on_head)
    return found._replace(head=solution.called)


def to_json(found: Helping) -> bytes:
    """As `from_json` reads it back, with a checksum."""
    return sealed({"schema": _SCHEMA, **found._asdict()})


def from_json(content: bytes) -> Helping:
    """Every value checked; ValueError where it is not what was written."""
    tree = unsealed(content, {"schema", *Helping._fields})
    if tree.pop("schema", None) != _SCHEMA:
        raise ValueError(f"this version reads schema {_SCHEMA}")
    try:
        found = _reader().validate_python(tree)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    n = len(found.sites)
    each = (found.rows, found.accuracy, found.from_others, found.to_all, found.to_others, found.shapley or found.rows)
    square = (found.matrix, *found.matrix, found.distance, *found.distance)
    if any(len(values) != n for values in (*each, *square, found.places)) or len(found.by_class) != len(found.classes):
        raise ValueError("its parts are not of the same sites")
    return found


def save(found: Helping, folder: str | os.PathLike[str]) -> Path:
    """Write `helps.json` into a `folder`, whole or not at all; its path."""
    path = Path(folder) / FILE
    write_bytes(path, to_json(found))
    return path


def load(folder: str | os.PathLike[str]) -> Helping | None:
    """What `helps.json` of a `folder` holds; None where there is none."""
    path = Path(folder) / FILE
    try:
        return from_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise GgeurError(f"{path} does not say who helps whom: {error}.") from error


@lru_cache(maxsize=1)
def _reader() -> TypeAdapter[Helping]:
    return TypeAdapter(Helping, config=ConfigDict(allow_inf_nan=False))
