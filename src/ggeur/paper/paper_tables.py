"""The paper's tables, one packaged file each: rows, parts, the embeddings of each part, and the published numbers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Self

from pydantic import BaseModel, Field

from ggeur.data.datasets import DATASETS, dataset_root, find
from ggeur.data.image_table import load_any
from ggeur.data.readers import plain_name
from ggeur.data.table import EmbeddingTable
from ggeur.encoders.encoder import DEFAULT, installed, missing_extra
from ggeur.stats.errors import GgeurError, how_to_install, nearest
from ggeur.stats.storage import cache_folder, packaged_toml

NAMES = tuple(f"table{i}" for i in (1, 2, 3, 4, 5, 6, 7, 10, 11))
STAND_INS = ("standin7",)  # a table's construction on other data, where its own cannot be had


class TableRow(NamedTuple):
    """One row of a table; `published` is the paper's row it stands beside, if its name is another."""

    name: str
    method: str | None = None
    augment: str = "none"
    steps: int | None = None
    weights: str | None = None
    control: bool = False
    images: bool = False  # trained end to end on pictures; it runs only when it is named
    published: str | None = None
    train: Mapping[str, Any] = {}  # keys of [train] that are its own
    note: str | None = None  # what the paper leaves open, and we chose


# Ours, in every table of accuracies: one-shot classifiers.
ONE_MESSAGE = tuple(
    TableRow(f"{name}, one-shot", method, control=True)
    for name, method in (
        ("LDA", "lda"),
        ("Ridge", "ridge"),
        ("ggeur-limit", "ggeur-limit"),
        ("mixture", "mixture"),
        ("auto", "auto"),
    )
)


@dataclass(frozen=True)
class TablePart:
    """One dataset of a table. Its columns are the values of one setting, or its domains with AVG and STD."""

    name: str
    dataset: str
    classes: int
    partition: Mapping[str, Any]
    train: Mapping[str, Any]
    columns: tuple[str, ...] = ()
    vary: str | None = None
    values: tuple[Any, ...] = ()
    domains: Mapping[str, str] = field(default_factory=dict)
    images: Mapping[str, Any] = field(default_factory=dict)  # the network, its pixels, and the benchmark's if another
    released: Mapping[str, Any] = field(default_factory=dict)
    released_ggeur: Mapping[str, Any] = field(default_factory=dict)
    tuned_on: Any = None  # the one of `values` on whose column hyperparameters are chosen; default: the first


class Table(BaseModel):
    """A table of the paper, as its packaged file has it."""

    name: str
    title: str
    rows: tuple[TableRow, ...] = Field(alias="row")
    parts: tuple[TablePart, ...] = Field(alias="part")
    method: dict[str, dict[str, Any]] = {}
    measure: str = "accuracy"

    @classmethod
    def load(cls, name: str) -> Self:
        """The packaged table of that name."""
        if name not in (*NAMES, *STAND_INS):
            there = ", ".join((*NAMES, *STAND_INS))
            raise GgeurError(
                f"There is no table '{name}' to reproduce; there are {there}.{nearest(name, (*NAMES, *STAND_INS))}",
                code="paper-table-unknown",
            )
        found = cls(name=name, **packaged_toml("paper", f"tables/{name}.toml"))
        return found if found.measure != "accuracy" else found.model_copy(update={"rows": found.rows + ONE_MESSAGE})


class PartEmbeddings(NamedTuple):
    """The embeddings of a part, on disk and read, or why there are none."""

    path: Path | None
    table: EmbeddingTable | None
    why: str = ""


def match_tables(table: Table, given: Sequence[Path]) -> dict[str, PartEmbeddings]:
    """Return which part of a `table` each of the `given` files, of embeddings or of pictures, is for.

    It goes by the dataset that a file names, else by classes and domains.
    """
    found: dict[str, PartEmbeddings] = {}
    for path in given:
        embeddings = load_any(path)
        fit = [p for p in table.parts if _fits(p, embeddings)]
        named = [p for p in fit if p.dataset == embeddings.meta.get("dataset")]
        part = next((p for p in (*named, *fit) if p.name not in found), None)
        if part is None:
            needs = " or ".join(f"{p.name} ({_shape(p.classes, list(p.domains.values()))})" for p in table.parts)
            has = _shape(embeddings.n_classes, embeddings.domain_names if embeddings.n_domains > 1 else ())
            raise GgeurError(
                f"{path} has {has}; {table.name} needs {needs}, each once.", code="paper-table-data-mismatch"
            )
        found[part.name] = PartEmbeddings(path, embeddings)
    return found


def _fits(part: TablePart, embeddings: EmbeddingTable) -> bool:
    """As many classes, and domains of which at least one is the paper's, or one domain where it has one."""
    if part.classes != embeddings.n_classes or bool(part.domains) != (embeddings.n_domains > 1):
        return False
    own = {plain_name(name) for name in embeddings.domain_names}
    return not part.domains or any(plain_name(domain) in own for domain in part.domains.values())


def _shape(classes: int, domains: Sequence[str]) -> str:
    return f"{classes} classes, " + (f"domains {', '.join(domains)}" if domains else "one domain")


def names_images(patterns: Sequence[str]) -> bool:
    """Return whether any of the `patterns` names rows on pictures, which take long."""
    return any("(images)" in pattern.lower() for pattern in patterns)


def select_rows(table: Table, patterns: Sequence[str]) -> tuple[TableRow, ...]:
    """The rows of a `table` that any of the `patterns` names, as in "FedAvg*", whatever the case; all without them."""
    wanted = [pattern.strip().lower() for pattern in patterns]
    for pattern in wanted:
        if not any(fnmatch(row.name.lower(), pattern) for row in table.rows):
            names = "; ".join(row.name for row in table.rows)
            raise GgeurError(f"{table.name} has no row '{pattern}'; it has: {names}.", code="paper-row-unknown")
    return tuple(
        row for row in table.rows if not wanted or any(fnmatch(row.name.lower(), pattern) for pattern in wanted)
    )


class Slip(NamedTuple):
    """A printed value that does not follow from the rest of its row; `computed` is None where nobody can tell."""

    row: str
    column: str
    printed: float
    why: str
    computed: float | None = None


class Gain(NamedTuple):
    """The gain of `row` over `base` that the paper quotes; `computed` only where its own table says otherwise."""

    table: str
    row: str
    base: str
    column: str
    printed: float
    computed: float | None = None


class PublishedTable(BaseModel):
    """One table as printed."""

    columns: tuple[str, ...]
    rows: dict[str, tuple[float, ...]]
    ddof: int | None = None  # degrees of freedom of its STD over domains, where it has one
    slips: tuple[Slip, ...] = ()

    def value(self, row: str, column: str) -> float | None:
        """A printed number, or None where the paper has none."""
        row = row.replace("(image network)", "(images)")  # as runs of earlier versions call it
        if row not in self.rows or column not in self.columns:
            return None
        return self.rows[row][self.columns.index(column)]

    def slip(self, row: str, column: str) -> Slip | None:
        """Return what is wrong with a printed number, if anything is."""
        return next((s for s in self.slips if (s.row, s.column) == (row, column)), None)


@cache
def _file() -> dict[str, Any]:
    return packaged_toml("paper", "published.toml")


@cache
def published_tables() -> dict[str, PublishedTable]:
    """Every table by its name, `table1` to `table11`."""
    return {name: PublishedTable(**table) for name, table in _file().items() if name != "gains"}


def published_gains() -> tuple[Gain, ...]:
    """The gains that the paper quotes."""
    return tuple(Gain(**gain) for gain in _file()["gains"])


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
