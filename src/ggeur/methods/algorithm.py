"""The kinds of algorithm that [train] method can name, each a type of its own.

Trained: rounds over the clients. Solved: a head from the statistics that clients send once. Chosen: the best of several
such heads, found by leaving rows out. Given: a head from the task itself, without a training row. Bound: FedAvg where
there is no federation, for comparison.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ggeur.core.message import Apart, Statistics, Total, largest

if TYPE_CHECKING:
    import jax

    from ggeur.heads.head import Head, Params
    from ggeur.methods.method import Method
    from ggeur.privacy.repair import Under


class Task(NamedTuple):
    """What is to be learnt, as far as it is public."""

    dimension: int
    class_names: tuple[str, ...]
    text: NDArray[np.floating] | None = None  # (C, p): embeddings of the class names
    key: "jax.Array | None" = None  # for a head that draws


@dataclass(frozen=True)
class Recipe:
    """How a method is built around numbers that come later; recipes that are equal share their compiled programs."""

    build: "Callable[..., Method]"
    head: "Head | None"
    fixed: tuple[tuple[str, Any], ...]  # parameters that a program is made of: counts, choices

    def __call__(self, numbers: Mapping[str, Any]) -> "Method":
        return self.build(self.head, **dict(self.fixed), **numbers)


@dataclass(frozen=True)
class Trained:
    """A federated method: its recipe, and the numbers that compiled programs take as arguments."""

    recipe: Recipe
    numbers: Mapping[str, float]

    @classmethod
    def of(cls, method: "Method") -> "Trained":
        """A method as it is, with no numbers to come later."""
        return cls(Recipe(lambda head: method, None, ()), {})

    @cached_property
    def method(self) -> "Method":
        """The method around its own numbers."""
        return self.recipe(self.numbers)


class Solved(NamedTuple):
    """A head, solved from what clients send in round 0.

    >>> def solve(total, task):
    ...     mean = total.mean  # (C, p), of every class
    ...     return {"W": mean, "b": -0.5 * (mean**2).sum(axis=1)}
    >>> nearest_mean = Solved("means", solve)
    >>> nearest_mean.head
    'linear'
    """

    needs: Statistics
    solve: "Callable[[Total, Task], Params]"
    """(the total of all messages, task) -> parameters."""

    apart: Apart | None = None  # what the total must hold of every domain, or client, beside the sum
    head: str = "linear"  # the head whose parameters are solved for
    under: "Under" = "levelled"  # what becomes of a total's directions that are under noise, where there is noise


class Candidate(NamedTuple):
    """A solved head among several."""

    name: str
    parameters: Mapping[str, Any]  # that are not its defaults
    solved: Solved

    @property
    def label(self) -> str:
        """Its name and what is not default of it, as "lda (shrinkage 0.01)"."""
        given = ", ".join(
            f"{k} {v:g}" if isinstance(v, int | float) else f"{k} {v}" for k, v in self.parameters.items()
        )
        return f"{self.name} ({given})" if given else self.name


@dataclass(frozen=True)
class Chosen:
    """That of several solved heads which does best on rows, and cells, that are left out of the statistics."""

    candidates: tuple[Candidate, ...]  # the simplest first
    folds: int  # how many parts are left out in turn

    @property
    def needs(self) -> Statistics:
        """What serves every candidate."""
        found = largest(c.solved.needs for c in self.candidates)
        assert found is not None
        return found

    @property
    def apart(self) -> Apart | None:
        """What serves every candidate, of every domain."""
        kind = largest(c.solved.apart.kind for c in self.candidates if c.solved.apart is not None)
        return None if kind is None else Apart(kind)


class Given(NamedTuple):
    """A linear head that looks at no training row."""

    lacks: Callable[[Task], str]
    """(task) -> what it lacks to be had, in a sentence; nothing if it can be."""

    solve: "Callable[[Task], Params]"


@dataclass(frozen=True)
class Bound:
    """FedAvg with each client alone, or with all data in one place."""

    trained: Trained
    alone: bool


Algorithm = Trained | Solved | Chosen | Given | Bound
