"""The one-shot classifier that is best by the statistics alone (`federation.selection`)."""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from ggeur.methods.algorithm import Candidate, ClosedForm, Selection, Validation
from ggeur.stats.errors import GgeurError
from ggeur.stats.site_statistics import Covariance, largest

# The default among them is `federation.selection.DEFAULTS`: another must lead it by more than a standard error.
CANDIDATES: tuple[Mapping[str, Any], ...] = (
    {"method": "lda"},
    {"method": "lda", "shrinkage": 0.5},
    {"method": "ridge"},
    {"method": "ridge", "alpha": 0.1},
    {"method": "ridge", "alpha": 1.0},
    {"method": "ggeur-limit"},
    {"method": "ggeur-limit", "decay": 1e-2},
    {"method": "ggeur-limit", "scale": 2.0},
    {"method": "mixture"},
    {"method": "mixture", "tau": 1000.0, "shrinkage": 0.1},
    {"method": "blend"},
    {"method": "blend", "t": 0.1},
)
BY_TEXT: tuple[Mapping[str, Any], ...] = (  # where a table has text embeddings of the class names
    {"method": "text-prior"},
    {"method": "text-prior", "head": "ridge"},
)
_ENOUGH = (
    80.0  # samples of a class for each unit of noise in their sum, from which on second moments pay for their noise
)
Folds = Annotated[int, Field(ge=2, le=20)]


def auto(
    *,
    folds: Folds = 4,
    candidates: Sequence[str | dict[str, Any]] | None = None,
    cv: Validation = "statistics",
    covariance: Covariance = "per-class",
) -> Selection:
    """`folds`: how many parts of the synthetic samples are left out in turn. `candidates`: what is selected from.

    Each is a name, or a table such as {method = "lda", shrinkage = 0.5}. With `cv` "samples" the real samples are left
    out, which a simulation has in one process.
    `covariance` is that of [augment], and pooled where that would be none.
    """
    kind = largest([covariance, "pooled"]) or "pooled"
    found = [_candidate(one, kind) for one in (CANDIDATES if candidates is None else candidates)]
    if not found:
        raise GgeurError("[method.auto] candidates: name at least one.", code="method-candidates-missing")
    by_text = [_candidate(one, kind) for one in BY_TEXT] if candidates is None else []
    return Selection(tuple(found), folds, tuple(by_text), cv)


def _candidate(one: str | Mapping[str, Any], kind: Covariance) -> Candidate:
    from ggeur.methods import SOLVED, kind_of, resolve_closed_form

    given = {"method": one} if isinstance(one, str) else dict(one)
    name = str(given.pop("method", ""))
    if not name or kind_of(name) is not ClosedForm:
        raise GgeurError(
            f"[method.auto] candidates: '{name}' is not a one-shot classifier; there are {', '.join(SOLVED)}.",
            code="method-candidate-unknown",
        )
    solved = resolve_closed_form(name, given, kind)
    if solved.features is not None:
        raise GgeurError(
            f"[method.auto] candidates: '{name}' asks sites for statistics of features, which synthetic samples do not "
            f'have; name it by itself, method = "{name}".',
            code="method-candidate-features",
        )
    return Candidate(name, given, solved)


def in_public() -> Selection:
    """Return the candidates where no sample may be left out and scored: class means alone, or second moments, too."""
    from ggeur.methods import resolve_closed_form

    return Selection(
        tuple(Candidate(name, {}, resolve_closed_form(name, {}, "pooled")) for name in ("ncm", "ridge")), 1
    )


def public_rule(samples: int, classes: int, noise: float) -> tuple[int, str]:
    """Return which of these to take, and why, for so many `samples` and that `noise` in a class's sum, in radii.

    Second moments bring more to learn from, and noise into everything, as a sample then moves the statistics further.
    Where that pays depends on how far a class's sum stands out of the noise, and hardly on how many dimensions it has
    (`docs/threat-model.md`).
    """
    stands = samples / classes / noise if noise else math.inf
    taken = int(stands >= _ENOUGH)
    name, why = (("ncm", "class means alone"), ("ridge", "second moments too"))[taken]
    return taken, (
        f"Took {name}, {why}, by a public rule: {samples:,} samples of {classes:,} classes are {stands:.3g} a class "
        f"for each unit of noise, and second moments pay from {_ENOUGH:g} on."
    )
