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
from ggeur.stats.types import Bool, Float

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
        w, b = _below(w, b, present)
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


def uncentred_head(solve: Solve, apart: Breakdown | None = None) -> ClosedForm:
    """Return the solver whose `solve` gets statistics about zero, in the embedding's own units: as it was published.

    Such a head depends on the units and on where the mean lies. Classes without samples are treated as above.
    """

    def exact(total: FederationStatistics, task: Task) -> Params:
        _check_some(total)
        w, b = solve(total.about(np.zeros(total.dimension)), task)
        w, b = _below(w, b, total.present)
        return {"W": w.astype(np.float32), "b": b}

    return ClosedForm("pooled", exact, apart, repair="floor-total")


def _below(w: Float, b: Float, present: Bool) -> tuple[Float, Float]:
    """Return W and b with the mean logit of the `present` classes, less a constant, for the others."""
    return np.where(present[:, None], w, w[present].mean(axis=0)), np.where(present, b, b[present].mean() - BELOW)


def _standard(total: FederationStatistics) -> FederationStatistics:
    _check_some(total)
    return total.standard


def _check_some(total: FederationStatistics) -> None:
    if not total.present.any():
        raise GgeurError(
            "There are no samples at all, so no classifier can be computed.", code="training-samples-missing"
        )


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
