"""The kinds of algorithm that [train] method can name, each a type of its own.

Iterative: rounds over the clients. ClosedForm: a head from the statistics that clients send once. Selection: the best
of several such heads, found by cross-validation. ZeroShot: a head from the task itself, without a training sample.
Reference: FedAvg where there is no federation, for comparison.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ggeur.stats.errors import Unavailable
from ggeur.stats.hyperparameters import positional
from ggeur.stats.site_statistics import (
    Breakdown,
    Covariance,
    EigenvalueRule,
    FederationStatistics,
    StatisticsQuery,
    largest,
)

if TYPE_CHECKING:
    import jax

    from ggeur.heads.head import Head, Params
    from ggeur.methods.method import Method
    from ggeur.stats.features import FeatureQuery


@dataclass(frozen=True, eq=False)
class Task:
    """The task, as far as it is public. Two tasks are never equal, whatever they say."""

    dimension: int
    class_names: tuple[str, ...]
    text: Mapping[str, NDArray[np.floating]] | None = None  # (C, p) each: embeddings of the class names, by prompts
    draws: tuple[int, ...] = ()  # for a head that draws: the seed, and which stream of it
    encoder: str = ""  # the encoder that made the embeddings
    clip: str = ""  # a folder with its text tower, where this machine has one of its own

    @cached_property
    def key(self) -> "jax.Array":
        """JAX's key of these draws, which is made when a head draws: the import alone takes a second."""
        import jax

        seed, *streams = self.draws
        return reduce(jax.random.fold_in, streams, jax.random.key(seed))

    def text_of(self, prompts: str | None, who: str) -> NDArray[np.floating]:
        """Return the set of text by these `prompts`, or the first; `who` needs it, for the sentence of an error."""
        if not self.text:
            raise Unavailable(
                f"{who} needs a table with text embeddings of the class names; `ggeur embed` makes them.",
                code="text-embeddings-missing",
            )
        if prompts is None:
            return next(iter(self.text.values()))
        if prompts not in self.text:
            from ggeur.encoders.prompts import known_prompts

            known = prompts in known_prompts()
            make = f"`ggeur embed --prompts {prompts}`" if known else f"`ggeur embed --prompts`, from {prompts}.txt"
            raise Unavailable(
                f"{who} needs text embeddings '{prompts}', and the table has {', '.join(self.text)}: name one of these "
                f"as its prompts, or make them with {make}"
                + ("." if known else f"; by name there are {', '.join(known_prompts())}."),
                code="text-embeddings-prompts-missing",
            )
        return self.text[prompts]


@dataclass(frozen=True)
class Recipe:
    """A method without its numbers, which come later; recipes that are equal share their compiled programs."""

    build: "Callable[..., Method]"
    head: "Head | None"
    fixed: tuple[tuple[str, Any], ...]  # parameters that a program is made of: counts, choices
    task: Task | None = None  # for a method that asks for it

    def __call__(self, numbers: Mapping[str, Any]) -> "Method":
        given = [self.task if name == "task" else self.head for name in positional(self.build) or ["head"]]
        return self.build(*given, **dict(self.fixed), **numbers)


@dataclass(frozen=True)
class Iterative:
    """A federated method: its recipe, and the numbers that compiled programs take as arguments."""

    recipe: Recipe
    numbers: Mapping[str, float]

    @classmethod
    def of(cls, method: "Method") -> "Iterative":
        """A method as it is, with no numbers to come later."""
        return cls(Recipe(lambda head: method, None, ()), {})

    @cached_property
    def method(self) -> "Method":
        """The method around its own numbers."""
        return self.recipe(self.numbers)


class ClosedForm(NamedTuple):
    """A solver: it computes a head from the statistics that clients send in round 0.

    Parameters
    ----------
    needs : the covariance that it needs.
    solve : (total, task) -> the head's numbers, such as W (C, p) and b (C,).
    apart : what it needs kept apart, such as domains.
    head : the kind of head that it computes.
    repair : how a noisy total is made positive.
    by_text : whether it uses class names.
    approximate : a faster solve that selection ranks candidates by.

    >>> def solve(total, task):
    ...     mean = total.mean  # (C, p), of every class
    ...     return {"W": mean, "b": -0.5 * (mean**2).sum(axis=1)}
    >>> nearest_mean = ClosedForm("none", solve)
    >>> nearest_mean.head
    'linear'
    """

    needs: Covariance
    solve: "Callable[[FederationStatistics, Task], Params]"
    """(the total of all statistics, task) -> parameters."""

    apart: Breakdown | None = None  # what the total must hold of every domain, or client, beside the sum
    head: str = "linear"  # the head whose parameters are solved for
    repair: EigenvalueRule = "floor"  # what becomes of those of a total that are under noise, if there is noise
    by_text: bool = False  # whether the task's text tells it about classes that nobody holds
    approximate: "Callable[[FederationStatistics, Task, Params | None], Params] | None" = None
    """(total, task, parameters of a similar total) -> nearly what `solve` returns, sooner: for cross-validation."""

    features: "Callable[[FederationStatistics, Task], FeatureQuery] | None" = None
    """(total, task) -> the statistics of features that sites are asked for next; the total for `solve` has them."""

    @property
    def query(self) -> StatisticsQuery:
        """Return what sites are asked for."""
        return StatisticsQuery(self.needs, self.apart, repair=self.repair)


class Candidate(NamedTuple):
    """A one-shot classifier among several."""

    name: str
    parameters: Mapping[str, Any]  # those that are not its defaults
    solved: ClosedForm

    @property
    def label(self) -> str:
        """Its name and what is not default of it, as "lda (shrinkage 0.01)"."""
        given = ", ".join(
            f"{k} {v:g}" if isinstance(v, int | float) else f"{k} {v}" for k, v in self.parameters.items()
        )
        return f"{self.name} ({given})" if given else self.name


Validation = Literal["statistics", "samples"]


@dataclass(frozen=True)
class Selection:
    """That of several one-shot classifiers which is best by the statistics alone."""

    candidates: tuple[Candidate, ...]  # the simplest first
    folds: int  # how many parts are left out in turn
    by_text: tuple[Candidate, ...] = ()  # more of them, for a task that has text
    cv: Validation = "statistics"  # cross-validation on synthetic samples, or on real ones in this process

    def of_task(self, task: Task) -> "Selection":
        """Return the same with all candidates that this task allows."""
        return replace(self, candidates=self.candidates + self.by_text, by_text=()) if task.text else self

    @property
    def wants_text(self) -> bool:
        """Return whether a candidate would look at a task's text."""
        return any(c.solved.by_text for c in self.candidates + self.by_text)

    @property
    def needs(self) -> Covariance:
        """The covariance that serves every candidate."""
        found = largest(c.solved.needs for c in self.candidates)
        assert found is not None
        return found

    @property
    def sends(self) -> Covariance:
        """Return what sites send, by domain: what serves every candidate, and selection, which needs second moments."""
        return largest([self.needs, "pooled"]) or "pooled"

    @property
    def query(self) -> StatisticsQuery:
        """Return what sites are asked for: of every domain, what serves every candidate and selection."""
        return StatisticsQuery(self.sends, Breakdown(self.sends))

    @property
    def apart(self) -> Breakdown | None:
        """The covariance by domain that serves every candidate."""
        kind = largest(c.solved.apart.kind for c in self.candidates if c.solved.apart is not None)
        return None if kind is None else Breakdown(kind)


class ZeroShot(NamedTuple):
    """A head that looks at no training sample."""

    solve: "Callable[[Task], Params]"
    """(task) -> parameters; `Unavailable` where the task lacks what it takes."""

    head: str = "linear"  # the head whose parameters they are


@dataclass(frozen=True)
class Reference:
    """A reference: FedAvg with each client alone, or with all data in one place."""

    trained: Iterative
    alone: bool


Algorithm = Iterative | ClosedForm | Selection | ZeroShot | Reference
