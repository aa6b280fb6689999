"""What every solved linear head shares: the units it is solved in, and what becomes of classes that nobody holds.

A head is solved for samples about their grand mean m and in units of their spread s, and moved back: W/s and b - W m/s.
So it is free of the embedding's units, and a mean far from zero costs no digits.
"""

import weakref
from collections.abc import Callable

import numpy as np

from ggeur.core.errors import GgeurError
from ggeur.core.site_statistics import Breakdown, Covariance, FederationStatistics
from ggeur.core.types import Float
from ggeur.heads.head import Params
from ggeur.methods.algorithm import ClosedForm, Task

Solve = Callable[[FederationStatistics, Task], tuple[Float, Float]]
BELOW = 10.0  # how far a class without samples stays below the mean of the others


def linear_head(needs: Covariance, solve: Solve, apart: Breakdown | None = None) -> ClosedForm:
    """The head of which `solve` finds W and b, given a message of samples about their mean and in units of their
    spread.

    A class without samples gets the mean logit of the others, less a constant: it is never the answer, and a head that
    goes on to be trained does not start with a huge weight. The intercept is float64: of samples far from zero, W x is
    a large number that it must cancel.
    """

    def moved(total: FederationStatistics, task: Task) -> Params:
        present = total.present
        if not present.any():
            raise GgeurError("There are no samples at all, so no head can be solved for.")
        units = total.units
        w, b = solve(total.standard, task)
        w, b = np.where(present[:, None], w, w[present].mean(axis=0)), np.where(present, b, b[present].mean() - BELOW)
        w = (w / units.scale).astype(np.float32)
        return {"W": w, "b": b - w.astype(np.float64) @ units.shift}

    return ClosedForm(needs, moved, apart)


def of_the_last(solve: Solve) -> Solve:
    """`solve`, remembering what it found of the last total: heads that are chosen from may have a part in common."""
    last: tuple[weakref.ref[FederationStatistics] | None, tuple[Float, Float] | None] = None, None

    def remembered(s: FederationStatistics, task: Task) -> tuple[Float, Float]:
        nonlocal last
        known, found = last
        if known is None or known() is not s or found is None:
            found = solve(s, task)
            last = weakref.ref(s), found
        return found

    return remembered
