"""How a head is solved from what sites sent: by which method, with which constants, and who took part in choosing."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np

from ggeur.federation.local_federation import LocalFederation
from ggeur.federation.one_shot import OneShot, one_shot
from ggeur.federation.stored_statistics import StoredFederation
from ggeur.heads.head import Params
from ggeur.methods import SOLVED, checked_parameters, factory, kind_of, names, resolve_closed_form
from ggeur.methods.algorithm import Candidate, ClosedForm, Selection, Task
from ggeur.methods.auto import auto
from ggeur.models.sites import AnySite, class_names_of, held_samples
from ggeur.stats.custom import is_custom, load_custom
from ggeur.stats.errors import GgeurError
from ggeur.stats.features import FeatureMap
from ggeur.stats.hyperparameters import declared_parameters as declared_by
from ggeur.stats.long_jobs import phased
from ggeur.stats.site_statistics import Covariance, largest
from ggeur.stats.validate import check_is

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
    units_of: Mapping[str, Any] = field(default_factory=dict)  # date and sites of the units of features, if not public

    @classmethod
    def given(cls, method: str, parameters: Mapping[str, Any], covariance: Covariance, seed: int = 0) -> Self:
        """The one-shot classifier `method` with these `parameters`, and its defaults for others."""
        check_is("parameters", parameters, Mapping, "a mapping of names to values")
        solved = resolve_closed_form(method, parameters, covariance)  # which says what is wrong with them
        if solved.by_text:
            raise GgeurError(
                f"'{method}' goes by text, and fit, add and forget know samples alone: use it with `ggeur run` or "
                f"`ggeur "
                "federate`.",
                code="method-needs-text",
            )
        plain = {k: p.default for k, p in declared_by(factory(method)).items() if k != "covariance"}
        plain = {k: v for k, v in plain.items() if isinstance(v, bool | int | float | str)}
        sent = covariance if solved.features is None else solved.needs
        return cls(method, plain | dict(parameters), sent, seed)

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> Self:
        """Return the solution that `to_json` wrote."""
        return cls(**{**tree, "chosen_by": tuple(tree["chosen_by"])})

    def to_json(self) -> dict[str, Any]:
        """Plain values, as model.json has them."""
        return asdict(self)

    @property
    def called(self) -> str:
        """Return its label, or else its method's name."""
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
        """Return the covariance that sites must send for it."""
        solved = self.solved
        found = largest([solved.needs, None if solved.apart is None else solved.apart.kind])
        assert found is not None
        return found

    def solve(self, federation: StoredFederation, kept: FeatureMap | None = None) -> OneShot:
        """Compute the classifier of `federation`; of features by the map that is `kept`, if one is."""
        check_several(federation)
        task, solved = Task(federation.dimension, federation.class_names), self.solved
        if kept is not None and (asks := solved.features) is not None:
            solved = solved._replace(features=lambda total, task: asks(total, task)._replace(map=kept))
        return one_shot(federation, solved, self.method, task, self.seed)

    def with_units(self, found: OneShot, federation: StoredFederation) -> Self:
        """Return the same, with who has a part in the units and landmarks of the features `found`, and since when."""
        features = found.statistics.features
        if features is None or features.asked.public:
            return self
        sites = [site.name for site in federation.sites]
        return replace(self, units_of={"date": time.strftime("%Y-%m-%d", time.gmtime()), "sites": sites})

    @property
    def solver(self) -> Candidate:
        """Return the solver with its hyperparameters."""
        return Candidate(self.method, self.constants, self.solved)


def check_method(method: str, covariance: str) -> None:
    """GgeurError unless a head of that name can be solved from such statistics."""
    check_is("method", method, str, "a method's name")
    if covariance not in COVARIANCES:
        raise GgeurError(
            f"The statistics are '{covariance}'; they can be {' or '.join(COVARIANCES)}.", code="covariance-unknown"
        )
    ours = ("auto", *(name for name in SOLVED if name != "text-prior"))  # which needs text
    if not is_custom(method) and method not in names():
        load_custom(method, "method", ours)  # which says what there is
    if kind_of(method) not in (ClosedForm, Selection):
        raise GgeurError(
            f"'{method}' is trained over rounds: use `ggeur run`, or one of fit's methods: {', '.join(ours)}.",
            code="method-not-one-shot",
        )


def check_several(federation: StoredFederation) -> None:
    """Raise GgeurError where there are samples of one class only."""
    count, names = np.sum([site.counts for site in federation.sites], axis=0), federation.class_names
    if (count > 0).sum() < 2:
        raise GgeurError(
            f"There are samples of one class only, '{names[int(count.argmax())]}'; a head needs two to tell apart.",
            code="classes-too-few",
        )


def covariance_to_send(
    method: str, parameters: Mapping[str, Any], covariance: Covariance, *, calibrate: bool = False
) -> Covariance:
    """Return the covariance that sites send for `method`; to `calibrate` it, all of `covariance`, the most they may."""
    check_method(method, covariance)
    if kind_of(method) is Selection:
        needs = _auto(parameters, covariance).sends
    else:
        solution = Solution.given(method, parameters, covariance)
        needs = solution.kind
        if solution.solved.features is not None:  # no more: beside features, statistics per class tell too much
            return needs
    return largest([needs, covariance if calibrate else None]) or needs


def solve(
    federation: StoredFederation, method: str, parameters: Mapping[str, Any], covariance: Covariance, seed: int = 0
) -> tuple[Solution, OneShot]:
    """Compute the classifier of `federation` by `method`: a solver or, for `auto`, the one its statistics select."""
    if kind_of(method) is ClosedForm:
        solution = Solution.given(method, parameters, covariance, seed)
        found = solution.solve(federation)
        return solution.with_units(found, federation), found
    chosen = _auto(parameters, covariance)
    check_several(federation)
    found = one_shot(federation, chosen, method, Task(federation.dimension, federation.class_names), seed)
    assert found.selected is not None
    solution = replace(
        Solution.given(found.solver.name, found.solver.parameters, covariance, seed),
        chosen_by=tuple(site.name for site in federation.sites),
        asked=dict(parameters),
        why=found.selected.sentence(chosen.candidates),
        expected={label: round(e, 2) for label, e in found.selected.expected(chosen.candidates).items()},
        label=found.solver.label,
    )
    return solution, found


class SolvedSites(NamedTuple):
    """The classifier of several sites, what it was computed from, and the classes as they were given."""

    solution: Solution
    params: Params
    federation: StoredFederation
    labels: tuple[Any, ...]


def solve_sites(
    sites: Sequence[AnySite],
    method: str,
    parameters: Mapping[str, Any],
    covariance: Covariance,
    seed: int = 0,
    *,
    calibrate: bool = False,
    workers: int = 0,
) -> SolvedSites:
    """Sum up the samples of `sites`, as `read_sites` gives them, select where that is asked for, and solve.

    Sites then send what it takes to `calibrate`, too. Their number of `workers` does not matter to a bit.
    """
    kind = covariance_to_send(method, parameters, covariance, calibrate=calibrate)
    names = class_names_of([s.class_names for s in sites])
    label = {str(label): label for s in sites for label in s.labels}
    statistics = [s.statistics(kind, workers=workers) for s in phased("summarize", sites)]
    federation = StoredFederation(statistics, names, held_samples(sites))
    solution, found = solve(federation, method, parameters, covariance, seed)
    return SolvedSites(solution, found.params, federation, tuple(label[name] for name in names))


def _auto(parameters: Mapping[str, Any], covariance: Covariance) -> Selection:
    check_is("parameters", parameters, Mapping, "a mapping of names to values")
    return auto(**checked_parameters("auto", parameters, covariance))


class Together(NamedTuple):
    """The samples of several sites in one array, with classes and domains in common."""

    clients: LocalFederation
    class_names: tuple[str, ...]
    domain_names: tuple[str, ...]


def together(sites: Sequence[AnySite]) -> Together:
    """The training samples of the sites, in memory; the classes are those of all of them."""
    names = class_names_of([s.class_names for s in sites])
    each = [s.samples for s in sites]
    held = zip(sites, each, strict=True)
    domains = tuple(sorted({s.domain_names[d] for s, own in held for d in np.unique(own.domain).tolist()}))
    x = np.concatenate([own.x for own in each])
    y = np.concatenate([np.array(positions(s.class_names, names))[o.y] for s, o in zip(sites, each, strict=True)])
    d = np.concatenate(
        [np.array(positions(s.domain_names, domains))[o.domain] for s, o in zip(sites, each, strict=True)]
    )
    parts = np.split(np.arange(len(x)), np.cumsum([len(own.y) for own in each])[:-1])
    return Together(LocalFederation.of(x, y, d, len(names), parts), names, domains)


def positions(own: Sequence[str], names: Sequence[str]) -> list[int]:
    """Return where each of a site's `own` names is among `names`; -1 where it is not."""
    at = {name: i for i, name in enumerate(names)}
    return [at.get(name, -1) for name in own]
