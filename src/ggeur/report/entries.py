"""The rows of a run as a reader thinks of them: method, what was done to the data, and under which condition."""

from collections.abc import Sequence
from enum import StrEnum
from statistics import mode
from typing import NamedTuple, Self

import numpy as np

from ggeur.experiments.grid import Experiment
from ggeur.experiments.result import Difference, Result, Row, paired_difference
from ggeur.experiments.settings import Settings
from ggeur.federation.augmentation import ggeur, none, prototypes, resample
from ggeur.heads import IMAGES
from ggeur.paper.reproduction import Reproduction
from ggeur.report.tables import labels, method_name, setting
from ggeur.stats.custom import is_custom
from ggeur.stats.errors import GgeurError


class Variant(StrEnum):
    """The treatment of a method's data, in the order of what each adds to the one before; there may be others."""

    PICTURES = "on pictures"
    PLAIN = none().label
    EQUAL_WEIGHTS = "equal weights"
    STEPS_MATCHED = "steps matched"
    RESAMPLE = resample().label
    PROTOTYPES = prototypes().label
    STEP_1 = f"{ggeur().label}, step 1"
    FULL = ggeur().label


class ReportEntry(NamedTuple):
    """One row of a result with its place in the comparison."""

    name: str
    method: str
    variant: str  # a Variant, or another in words
    condition: str  # dataset and varied setting, in words; empty where nothing else varies
    row: Row
    point: Settings
    published: str = ""  # the paper's row

    @property
    def avg(self) -> float | None:
        return self.row.avg

    def mean(self, name: str) -> float | None:
        """Return a number of trials by its `name`, on average over the seeds that finished; None if they lack it.

        Numbers of every client are averaged over clients first.
        """
        values = [getattr(trial, name) for trial in self.row.trials if trial.status == "ok"]
        numbers = [np.mean(value) for value in values if value not in (None, [])]
        return float(np.mean(numbers)) if numbers else None

    @property
    def full_name(self) -> str:
        """The row's name and its condition, which the name of a row of a grid has already."""
        return self.name if self.condition in self.name else f"{self.name}, {self.condition}"

    @property
    def title(self) -> str:
        """The method and where it was tried, as a chart names them."""
        method = method_name(self.method)
        return f"{method}, {self.condition}" if self.condition else method


class Pair(NamedTuple):
    """GGEUR and a row that differs from it in the augmentation alone."""

    full: ReportEntry
    other: ReportEntry
    difference: Difference | None  # None with fewer than two common seeds

    @classmethod
    def of(cls, full: ReportEntry, other: ReportEntry) -> Self:
        """Two finished rows, seed by seed: `full` is compared with `other`."""
        try:
            return cls(full, other, paired_difference(full.row, other.row))
        except GgeurError:
            return cls(full, other, None)

    @property
    def mean(self) -> float:
        assert self.full.avg is not None and self.other.avg is not None
        return self.full.avg - self.other.avg if self.difference is None else self.difference.mean

    @property
    def side(self) -> int:
        """1 or -1 where the 95 % interval lies above or below zero; 0 where the seeds cannot tell."""
        if self.difference is None:
            return 0
        return int(self.difference.low > 0) - int(self.difference.high < 0)

    @property
    def text(self) -> str:
        """The difference with its interval, as "+1.20 points [+0.40, +2.00]"."""
        d = self.difference
        return f"{self.mean:+.2f} points" + (f" [{d.low:+.2f}, {d.high:+.2f}]" if d is not None else "")


def entries(result: Result, experiment: Experiment, reading: Reproduction | None) -> list[ReportEntry]:
    """Every row of the `result` of an `experiment`, in its order; `reading` says which of the paper's each one is."""
    points = list(zip(experiment.varied, experiment.points, strict=True))
    rows = [(row, point) for row in result.rows() for varied, point in points if varied == row.settings]
    if not rows:
        raise GgeurError(
            "The result does not belong to the experiment beside it in the run folder.",
            code="result-experiment-mismatch",
        )
    arms = {} if reading is None else {arm.arm: arm for arm in reading.arms}
    several = len({arm.part for arm in arms.values()}) > 1
    weights = mode(p.train.weights for _, p in rows)
    steps = mode(p.train.local_steps for _, p in rows)
    scale = mode(p.augment.scale for _, p in rows)
    most = max((p.augment.steps or 1 for _, p in rows if draws_noise(p)), default=1)
    found = []
    names = labels([row for row, _ in rows])
    for (row, point), label in zip(rows, names, strict=True):
        arm = arms.get(str(row.settings.get("arm")))
        condition = setting(row.settings)
        if several and arm is not None:
            condition = f"{arm.part}, {condition}" if condition else arm.part
        variant = _variant(point, weights, steps, scale, most)
        name = arm.row if arm is not None else label
        published = "" if arm is None else arm.published
        found.append(ReportEntry(name, point.train.method, variant, condition, row, point, published))
    return found


def draws_noise(point: Settings) -> bool:
    """Return whether noise is drawn at a point; a custom augmentation is not imported to find out."""
    return not is_custom(point.augment.kind) and point.augment.build().noise is not None


def _variant(point: Settings, weights: str, steps: int | None, scale: str, most: int) -> str:
    a = point.augment
    if is_custom(a.kind):  # custom, and not imported to be named
        return a.kind.partition(":")[2]
    augmentation = a.build()
    words = [augmentation.label]
    if augmentation.noise is not None:
        words += [f"step {a.steps}"] if (a.steps or 1) < most else []
        words += [f"scale {a.scale}"] if a.scale != scale else []
        words += [a.covariance] if a.covariance != "per-class" else []
    extra = [f"{point.train.weights} weights"] if point.train.weights != weights else []
    extra += [Variant.STEPS_MATCHED] if point.train.local_steps not in (None, steps) else []
    extra += [Variant.PICTURES] if point.train.head in IMAGES else []
    extra += [f"from {point.train.solver}"] if point.train.solver else []
    return ", ".join(extra if extra and augmentation.rule is None else words + extra)


def pairs(all_entries: Sequence[ReportEntry], variant: str = Variant.PLAIN) -> list[Pair]:
    """GGEUR beside `variant` of the same method under the same condition, wherever both of `all_entries` finished."""
    done = [entry for entry in all_entries if entry.avg is not None]
    others: dict[tuple[str, str], ReportEntry] = {}
    for entry in done:
        if entry.variant == variant:
            others.setdefault((entry.method, entry.condition), entry)
    found = [(full, others.get((full.method, full.condition))) for full in done if full.variant == Variant.FULL]
    return [Pair.of(full, other) for full, other in found if other is not None]
