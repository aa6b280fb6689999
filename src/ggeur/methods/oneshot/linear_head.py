"""The frame of every linear solver: the units it works in, and the scores of classes that nobody holds.

A head is solved for samples about their grand mean m and in units of their spread s, and moved back: W/s and b - W m/s.
So it is free of the embedding's units, and a mean far from zero costs no digits.
"""

import weakref
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

import numpy as np

from ggeur.heads.head import Params
from ggeur.methods.algorithm import ClosedForm, Task
from ggeur.stats.errors import GgeurError
from ggeur.stats.site_statistics import Breakdown, Covariance, FederationStatistics
from ggeur.stats.types import Float

Solve = Callable[[FederationStatistics, Task], tuple[Float, Float]]
Near = Callable[[FederationStatistics, Task, tuple[Float, Float] | None], tuple[Float, Float]]
Found = TypeVar("Found")
Rest = TypeVarTuple("Rest")
BELOW = 10.0  # how far a class without samples stays below the mean of the others


def linear_head(
    needs: Covariance, solve: Solve, apart: Breakdown | None = None, near: Near | None = None
) -> ClosedForm:
    """Return the solver whose `solve` gets statistics about the mean, in units of the spread, and finds W and b.

    A class without samples gets the mean logit of the others, less a constant: it is never the answer, and a head that
    goes on to be trained does not start with a huge weight. The intercept is float64: of samples far from zero, W x is
    a large number that it must cancel. `near`, if given, does the same from W and b that fit similar statistics.
    """

    def moved(total: FederationStatistics, found: tuple[Float, Float]) -> Params:
        (w, b), present, units = found, total.present, total.units
        w, b = np.where(present[:, None], w, w[present].mean(axis=0)), np.where(present, b, b[present].mean() - BELOW)
        w = (w / units.scale).astype(np.float32)
        return {"W": w, "b": b - w.astype(np.float64) @ units.shift}

    def exact(total: FederationStatistics, task: Task) -> Params:
        return moved(total, solve(_standard(total), task))

    def approximate(total: FederationStatistics, task: Task, start: Params | None) -> Params:
        assert near is not None
        s, units = _standard(total), total.units
        known = None
        if start is not None:
            known = start["W"] * units.scale, start["b"] + start["W"].astype(np.float64) @ units.shift
        return moved(total, near(s, task, known))

    return ClosedForm(needs, exact, apart, approximate=None if near is None else approximate)


def _standard(total: FederationStatistics) -> FederationStatistics:
    if not total.present.any():
        raise GgeurError(
            "There are no samples at all, so no classifier can be computed.", code="training-samples-missing"
        )
    return total.standard


def of_the_last(
    solve: Callable[[FederationStatistics, *Rest], Found],
) -> Callable[[FederationStatistics, *Rest], Found]:
    """Return `solve` with a memory of its last total: candidates of a selection may have a part in common.

    Whatever else it is given is looked at for a new total only.
    """
    last: tuple[weakref.ref[FederationStatistics] | None, Found | None] = None, None

    def remembered(s: FederationStatistics, *rest: *Rest) -> Found:
        nonlocal last
        known, found = last
        if known is None or known() is not s or found is None:
            found = solve(s, *rest)
            last = weakref.ref(s), found
        return found

    return remembered
