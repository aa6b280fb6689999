"""The head that does best on what is left out of the statistics: rows of cells that are there, and whole cells."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from ggeur.core.errors import GgeurError
from ggeur.core.message import Statistics, largest
from ggeur.methods.algorithm import Candidate, Chosen, Solved

# The simplest first: what is as good as the best, as far as can be told, and comes before it is taken.
CANDIDATES: tuple[Mapping[str, Any], ...] = (
    {"method": "lda"},
    {"method": "lda", "shrinkage": 0.5},
    {"method": "ridge"},
    {"method": "ridge", "alpha": 0.1},
    {"method": "ridge", "alpha": 1.0},
    {"method": "limit"},
    {"method": "limit", "decay": 1e-2},
    {"method": "limit", "scale": 2.0},
    {"method": "gated"},
    {"method": "gated", "tau": 1000.0, "shrinkage": 0.1},
    {"method": "limit+gated"},
    {"method": "limit+gated", "t": 0.1},
)
BY_TEXT: tuple[Mapping[str, Any], ...] = (  # where a table has text embeddings of the class names
    {"method": "text_prior"},
    {"method": "text_prior", "head": "ridge"},
)
_DROWNED = 8.0  # times a mean eigenvalue: noise beyond which second moments cost more than they tell
Folds = Annotated[int, Field(ge=2, le=20)]


def auto(
    *,
    folds: Folds = 4,
    candidates: Sequence[str | dict[str, Any]] | None = None,
    statistics: Statistics = "per-class",
) -> Chosen:
    """`folds`: how many parts are left out in turn. `candidates`: what is chosen from, the simplest first.

    Each is a name, or a table such as {method = "lda", shrinkage = 0.5}.
    `statistics` is that of [augment], and pooled where that would be means.
    """
    kind = largest([statistics, "pooled"]) or "pooled"
    found = [_candidate(one, kind) for one in (CANDIDATES if candidates is None else candidates)]
    if not found:
        raise GgeurError("[method.auto] candidates: name at least one.")
    by_text = [_candidate(one, kind) for one in BY_TEXT] if candidates is None else []
    return Chosen(tuple(found), folds, tuple(by_text))


def _candidate(one: str | Mapping[str, Any], kind: Statistics) -> Candidate:
    from ggeur.methods import SOLVED, kind_of, resolve_solved

    given = {"method": one} if isinstance(one, str) else dict(one)
    name = str(given.pop("method", ""))
    if not name or kind_of(name) is not Solved:
        raise GgeurError(f"[method.auto] candidates: '{name}' is not a solved head; there are {', '.join(SOLVED)}.")
    return Candidate(name, given, resolve_solved(name, given, kind))


def in_public() -> Chosen:
    """What is chosen from where no row may be left out and scored: class means alone, or second moments, too."""
    from ggeur.methods import resolve_solved

    return Chosen(tuple(Candidate(name, {}, resolve_solved(name, {}, "pooled")) for name in ("ncm", "ridge")), 1)


def by_rule(rows: int, p: int, floor: float, radius: float) -> tuple[int, str]:
    """Which of these to take, and why: of so many `rows`, second moments would be wrong by `floor`.

    Rows no longer than `radius` have eigenvalues of at most n R^2 / p on average, which the noise is measured in.
    """
    drowned = floor * p / (rows * radius**2)
    taken = int(drowned < _DROWNED)
    name, why = (("ncm", "drown in"), ("ridge", "stand out of"))[taken]
    return taken, (
        f"Took {name} by a public rule: with {rows:,} rows of {p} dimensions second moments {why} the noise "
        f"({drowned:.2g} of their mean eigenvalue, against {_DROWNED:g})."
    )
