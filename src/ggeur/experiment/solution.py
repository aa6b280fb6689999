"""How a head is solved from what sites sent: by which method, with which constants, and who took part in choosing."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ggeur.core.errors import GgeurError, GgeurWarning
from ggeur.core.hyperparameters import declared_parameters as declared_by
from ggeur.core.site_statistics import Breakdown, Covariance, largest
from ggeur.core.validate import check_is
from ggeur.experiment.sites import Site, class_names_of
from ggeur.federation.local_clients import Clients
from ggeur.federation.selection import select
from ggeur.federation.start import one_shot_head
from ggeur.federation.stored_statistics import MergedStatistics, StoredStatistics, add_up
from ggeur.federation.summary import digits_note
from ggeur.heads.head import Params
from ggeur.methods import SOLVED, checked_parameters, factory, kind_of, resolve_closed_form
from ggeur.methods.algorithm import ClosedForm, Selection, Task
from ggeur.methods.auto import auto

COVARIANCES = ("per-class", "pooled")


@dataclass(frozen=True)
class Solution:
    """A one-shot classifier's method and all its constants; where `auto` took it, which sites it was chosen by."""

    method: str
    constants: Mapping[str, Any]
    covariance: Covariance = "per-class"
    seed: int = 0  # of the synthetic samples by which it was chosen, and of heads that draw
    chosen_by: tuple[str, ...] = ()
    asked: Mapping[str, Any] = field(default_factory=dict)  # the parameters of `auto`
    why: str = ""
    expected: Mapping[str, float] = field(
        default_factory=dict
    )  # points behind the first in the ranking, of every candidate
    label: str = ""  # which of these candidates it is

    @classmethod
    def given(cls, method: str, parameters: Mapping[str, Any], covariance: Covariance, seed: int = 0) -> Self:
        """The one-shot classifier `method` with these `parameters`, and its defaults for others."""
        check_is("parameters", parameters, Mapping, "a mapping of names to values")
        if resolve_closed_form(method, parameters, covariance).by_text:  # which says what is wrong with them
            raise GgeurError(
                f"'{method}' goes by text, and fit, add and forget know samples alone: use it with `ggeur run` or "
                f"`ggeur "
                "federate`.",
                code="method-needs-text",
            )
        plain = {k: p.default for k, p in declared_by(factory(method)).items() if k != "covariance"}
        plain = {k: v for k, v in plain.items() if isinstance(v, bool | int | float | str)}
        return cls(method, plain | dict(parameters), covariance, seed)

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> Self:
        """As `asdict` gives it, through JSON."""
        return cls(**{**tree, "chosen_by": tuple(tree["chosen_by"])})

    def to_json(self) -> dict[str, Any]:
        """Plain values, as model.json has them."""
        return asdict(self)

    @property
    def called(self) -> str:
        """Return what people call it."""
        return self.label or self.method

    @property
    def candidates(self) -> list[str]:
        """The methods that `auto` was told to choose from; none where it had its own."""
        asked = self.asked.get("candidates") or []
        return [one if isinstance(one, str) else str(one.get("method", "")) for one in asked]

    @property
    def solved(self) -> ClosedForm:
        """The head itself."""
        return resolve_closed_form(self.method, self.constants, self.covariance)

    @property
    def kind(self) -> Covariance:
        """Return what sites must send for it."""
        solved = self.solved
        found = largest([solved.needs, None if solved.apart is None else solved.apart.kind])
        assert found is not None
        return found

    def whole(self, sites: Sequence[StoredStatistics], names: tuple[str, ...]) -> MergedStatistics:
        """Return what the sums of `sites` come to, of the classes `names`."""
        return add_up(sites, names, self.solved.needs, self.solved.apart)

    def head(self, whole: MergedStatistics) -> Params:
        """The parameters of the head, solved from the total."""
        check_several(whole.message.count, whole.class_names)
        total = whole.total
        if note := digits_note(total):
            warnings.warn(note, GgeurWarning, stacklevel=2)
        return one_shot_head(self.solved, self.method, total, Task(total.dimension, whole.class_names), self.seed)


def check_method(method: str, covariance: str) -> None:
    """GgeurError unless a head of that name can be solved from such sums."""
    check_is("method", method, str, "a method's name")
    if covariance not in COVARIANCES:
        raise GgeurError(
            f"The statistics are '{covariance}'; they can be {' or '.join(COVARIANCES)}.", code="covariance-unknown"
        )
    if kind_of(method) not in (ClosedForm, Selection):
        raise GgeurError(
            f"'{method}' is trained over rounds, and fit, add and forget are of heads solved from sums: "
            f"auto, {', '.join(SOLVED)}.",
            code="method-not-one-shot",
        )


def check_several(count: NDArray[Any], names: tuple[str, ...]) -> None:
    """GgeurError where `count` (C,) says that there are samples of one class only."""
    if (count > 0).sum() < 2:
        raise GgeurError(
            f"There are samples of one class only, '{names[int(count.argmax())]}'; a head needs two to tell apart.",
            code="classes-too-few",
        )


def decide(
    sites: Sequence[Site], method: str, parameters: Mapping[str, Any], covariance: Covariance, seed: int = 0
) -> Solution:
    """Return what `method` comes to for these sites: itself or, of `auto`, what their statistics select."""
    check_method(method, covariance)
    if kind_of(method) is ClosedForm:
        return Solution.given(method, parameters, covariance, seed)
    kind = _auto(parameters, covariance).sends
    names = class_names_of([s.class_names for s in sites])
    return decide_from([s.sums(kind) for s in sites], names, method, parameters, covariance, seed)


def decide_from(
    sites: Sequence[StoredStatistics],
    names: tuple[str, ...],
    method: str,
    parameters: Mapping[str, Any],
    covariance: Covariance,
    seed: int = 0,
) -> Solution:
    """The same for what `sites` sent, of the classes `names`."""
    if kind_of(method) is ClosedForm:
        return Solution.given(method, parameters, covariance, seed)
    chosen = _auto(parameters, covariance)
    whole = add_up(sites, names, chosen.sends, Breakdown(chosen.sends))
    check_several(whole.message.count, names)
    total = whole.total
    choice = select(chosen, total.apart, Task(total.dimension, names), seed)
    taken = chosen.candidates[choice.taken]
    found = Solution.given(taken.name, taken.parameters, covariance, seed)
    return replace(
        found,
        chosen_by=tuple(s.name for s in sites),
        asked=dict(parameters),
        why=choice.sentence(chosen.candidates),
        expected={label: round(e, 2) for label, e in choice.expected(chosen.candidates).items()},
        label=taken.label,
    )


def _auto(parameters: Mapping[str, Any], covariance: Covariance) -> Selection:
    check_is("parameters", parameters, Mapping, "a mapping of names to values")
    return auto(**checked_parameters("auto", parameters, covariance))


class Together(NamedTuple):
    """The samples of several sites in one array, with classes and domains in common."""

    clients: Clients
    class_names: tuple[str, ...]
    domain_names: tuple[str, ...]


def together(sites: Sequence[Site], names: tuple[str, ...] | None = None, *, test: bool = False) -> Together:
    """The training samples of the sites, or their `test` samples; the classes are `names`, or those of all of them."""
    names = names or class_names_of([s.class_names for s in sites])
    domains = tuple(sorted({s.domain_names[d] for s in sites for d in np.unique(s.domain).tolist()}))
    samples = [np.flatnonzero(s.test == test) for s in sites]
    x = np.concatenate([s.x[r] for s, r in zip(sites, samples, strict=True)])
    y = np.concatenate([_renamed(s.y[r], s.class_names, names) for s, r in zip(sites, samples, strict=True)])
    d = np.concatenate([_renamed(s.domain[r], s.domain_names, domains) for s, r in zip(sites, samples, strict=True)])
    parts = np.split(np.arange(len(x)), np.cumsum([len(r) for r in samples])[:-1])
    return Together(Clients.of(x, y, d, len(names), parts), names, domains)


def _renamed(codes: Any, own: Sequence[str], names: Sequence[str]) -> Any:
    code = {name: i for i, name in enumerate(names)}
    return np.array([code.get(name, -1) for name in own], np.int64)[codes]
