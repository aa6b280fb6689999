"""Choose the columns of a table: those that the user names, or else the one candidate there is."""

import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

from ggeur.data.tables.source import Kind
from ggeur.stats.errors import GgeurError, GgeurWarning, nearest
from ggeur.stats.validate import check_is

_USUAL = {  # names that say what a column holds, in lower case
    "x": ("x", "embedding", "embeddings", "features", "feats", "vector"),
    "y": ("y", "label", "labels", "class", "target", "category", "class_name"),
    "domain": ("domain",),
    "test": ("test", "is_test", "split"),
    "id": ("id", "sample_id", "path"),
    "group": ("group", "patient", "patient_id"),
}
_NO_COLUMN = ("", "index", "unnamed: 0", "__index_level_0__")  # a frame's numbers of lines
_NUMBERED = re.compile(r"(.*?)[_\-. ]?(\d+)", re.S)


@dataclass(frozen=True)
class TableColumns:
    """The names of a table's columns; None where they are to be guessed.

    Parameters
    ----------
    x : the column of embeddings, or what numbered columns begin with: "emb" for emb_0, emb_1, ...
    y, domain, test : columns of labels, domains, and which samples are test samples (true or "test").
    id, group : columns that name each sample, and what belongs together, such as a patient.
    encoder_id : "NAME@SHA" of the encoder, where the file does not say it.

    >>> TableColumns(y="diagnosis", group="patient", encoder_id="uni@3a7c").encoder()
    {'encoder': 'uni', 'weights': '3a7c'}
    """

    x: str | None = None
    y: str | None = None
    domain: str | None = None
    test: str | None = None
    id: str | None = None
    group: str | None = None
    encoder_id: str | None = None

    def __post_init__(self) -> None:
        for one in fields(self):
            check_is(one.name, getattr(self, one.name), str | None, "the name of a column")
        self.encoder()

    def encoder(self) -> dict[str, str]:
        """Return the name and the weights of the encoder, as a table's meta has them; nothing where there is no id."""
        if self.encoder_id is None:
            return {}
        name, _, sha = self.encoder_id.rpartition("@")
        if not name or not sha:
            raise GgeurError(
                f"The encoder id is '{self.encoder_id}'; it must be NAME@SHA, the encoder and the hash of its weights.",
                code="encoder-id-invalid",
            )
        return {"encoder": name, "weights": sha}


class ChosenColumns(NamedTuple):
    """The columns of a table by their roles; `x` is one column, or numbered ones in order, or none."""

    x: tuple[str, ...]
    y: str | None
    domain: str | None
    test: str | None
    id: str | None
    group: str | None

    @property
    def scalars(self) -> tuple[str, ...]:
        """Return all but the embeddings, each once."""
        return tuple(dict.fromkeys(name for name in self[1:] if name is not None))


def choose_columns(
    there: Mapping[str, Kind], wanted: TableColumns, path: Path, names: Iterable[str] = (), *, labelled: bool = True
) -> ChosenColumns:
    """Return the columns of the table at `path`; GgeurError where they are not there, or more than one could be meant.

    `names` are columns of codes whose names the file states. Labels must be there only if it is to be `labelled`.
    What is guessed is said, unless the names say it.
    """
    x = _embeddings(there, wanted.x, path)
    rest = {n: k for n, k in there.items() if n not in x and k != "vector" and n.lower() not in _NO_COLUMN}
    found: dict[str, str | None] = {}
    for role in ("domain", "test", "id", "group"):
        given = getattr(wanted, role)
        usual = [name for name in rest if name.lower() in _USUAL[role]]
        found[role] = _there(given, role, there, path) if given is not None else usual[0] if len(usual) == 1 else None
    y = _there(wanted.y, "y", there, path) if wanted.y is not None else None
    if y is None:
        y = _labels({n: k for n, k in rest.items() if n not in found.values()}, tuple(names), path, labelled)
    chosen = ChosenColumns(x, y, found["domain"], found["test"], found["id"], found["group"])
    _say(chosen, wanted, path)
    return chosen


def _embeddings(there: Mapping[str, Kind], given: str | None, path: Path) -> tuple[str, ...]:
    if given is not None and there.get(given) == "vector":
        return (given,)
    groups = _numbered(there)
    if given is not None:
        if given.rstrip("_-. ") in groups:
            return groups[given.rstrip("_-. ")]
        _there(given, "x", there, path)
        raise GgeurError(f"The column '{given}' of {path} holds no embeddings.", code="table-column-not-embeddings")
    vectors = [name for name, kind in there.items() if kind == "vector"]
    for candidates in (vectors, [name for name in vectors if name.lower() in _USUAL["x"]]):
        if len(candidates) == 1:
            return (candidates[0],)
    if not vectors and len(groups) == 1:
        return next(iter(groups.values()))
    several = vectors or list(groups)
    if not several:
        raise GgeurError(
            f"{path} has no column of embeddings: lists of numbers, or columns that are numbered from 0 or 1; it has "
            f"{_listed(there)}.",
            code="table-embeddings-missing",
        )
    raise GgeurError(
        f"Several columns of {path} could be the embeddings: {_listed(several)}; name one with --x.",
        code="table-column-ambiguous",
    )


def _numbered(there: Mapping[str, Kind]) -> dict[str, tuple[str, ...]]:
    """Return the columns that are numbered from 0 or 1 without a gap, by what stands before the number."""
    groups: dict[str, dict[int, str]] = {}
    for name, kind in there.items():
        if kind != "vector" and (match := _NUMBERED.fullmatch(name)):
            groups.setdefault(match[1], {})[int(match[2])] = name
    whole = {}
    for prefix, columns in groups.items():
        order = sorted(columns)
        numbers = sum(there[name] != "name" for name in columns.values())
        if 2 * numbers > len(order) > 1 and order[0] in (0, 1) and order[-1] - order[0] == len(order) - 1:
            whole[prefix] = tuple(columns[i] for i in order)
    return whole


def _labels(rest: Mapping[str, Kind], names: tuple[str, ...], path: Path, labelled: bool) -> str | None:
    usual = [name for name in rest if name.lower() in _USUAL["y"]]
    coded = [name for name in rest if name in names]
    for candidates in (coded, usual, [name for name, kind in rest.items() if labelled and kind != "number"]):
        if len(candidates) == 1:
            return candidates[0]
        if candidates and labelled:
            raise GgeurError(
                f"Several columns of {path} could be the labels: {_listed(candidates)}; name one with --y.",
                code="table-column-ambiguous",
            )
    if not labelled:
        return None
    raise GgeurError(
        f"{path} has no column of labels; name one with --y"
        + (f", of {_listed(rest)}." if rest else ", or give the file that has them."),
        code="table-labels-missing",
    )


def _there(name: str, role: str, there: Mapping[str, Kind], path: Path) -> str:
    if name not in there:
        raise GgeurError(
            f"{path} has no column '{name}' (--{role}); it has {_listed(there)}.{nearest(name, there)}",
            code="table-column-missing",
        )
    return name


def _say(chosen: ChosenColumns, wanted: TableColumns, path: Path) -> None:
    guessed: list[str] = []
    for role, column in zip(chosen._fields, chosen, strict=True):
        if not column or getattr(wanted, role) is not None:
            continue
        first: Any = column[0] if isinstance(column, tuple) else column
        if first != role and not (role == "id" and first == "path"):
            last = f" to '{column[-1]}'" if isinstance(column, tuple) and len(column) > 1 else ""
            guessed.append(f"{role} is '{first}'{last}")
    if guessed:
        warnings.warn(f"Columns of {path}, as guessed: {', '.join(guessed)}.", GgeurWarning, stacklevel=4)


def _listed(names: Iterable[str]) -> str:
    some = list(names)
    return ", ".join(f"'{name}'" for name in some[:8]) + (f" and {len(some) - 8} more" if len(some) > 8 else "")
