"""The rows of a run as a reader thinks of them: method, what was done to the data, and under which condition."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ggeur.core.errors import GgeurError
from ggeur.federation.augmentation import ggeur, none
from ggeur.paper.reproduction import Reproduction
from ggeur.report.tables import label
from ggeur.runs.compare import Difference, paired_difference
from ggeur.runs.result import Result, Row
from ggeur.settings.grid import Experiment
from ggeur.settings.schema import Settings

PLAIN, FULL = none().label, ggeur().label
# In the order of what each adds to the one before.
VARIANTS = (PLAIN, "equal weights", "steps matched", "resample", "prototypes", "GGEUR, step 1", FULL)


# As their papers write them; any other method goes by its own name.
_SPELLING = {
    "fedavg": "FedAvg",
    "fedprox": "FedProx",
    "scaffold": "SCAFFOLD",
    "moon": "MOON",
    "feddyn": "FedDyn",
    "fedopt": "FedOPT",
    "fedproto": "FedProto",
    "fedntd": "FedNTD",
    "fedmix": "FedMix",
    "fedgen": "FEDGEN",
    "fedfa": "FedFA",
    "fedfa_gaussian": "FedFA (Gaussian)",
    "zeroshot": "zero-shot",
    "ncm": "NCM",
    "lda": "LDA",
    "ccvr": "CCVR",
}


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


class Entry(NamedTuple):
    """One row of a result with its place in the comparison."""

    name: str
    method: str
    variant: str  # one of VARIANTS, or another in words
    condition: str  # dataset and varied setting, in words; empty where nothing else varies
    row: Row
    point: Settings
    published: str = ""  # the paper's row

    @property
    def avg(self) -> float | None:
        return self.row.avg

    @property
    def rounds_to_95(self) -> float | None:
        """Rounds until AVG is at 95 % of its final value, on average over seeds."""
        return _mean([c.rounds_to_95 for c in self.row.cells if c.status == "ok" and c.rounds_to_95 is not None])

    @property
    def local_steps(self) -> float | None:
        """Steps of a client in a round, on average over clients and seeds."""
        done = [c.local_steps for c in self.row.cells if c.status == "ok" and c.local_steps]
        return _mean([sum(steps) / len(steps) for steps in done])

    @property
    def title(self) -> str:
        """The method and where it was tried, as a chart names them."""
        method = _SPELLING.get(self.method, self.method)
        return f"{method}, {self.condition}" if self.condition else method


class Pair(NamedTuple):
    """GGEUR and a row that differs from it in the augmentation alone."""

    full: Entry
    other: Entry
    difference: Difference | None  # None with fewer than two common seeds

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
    def last(self) -> float:
        """The same after the last round alone, where the mean over rounds may still hold those of the start."""
        ends = [[c.rounds[-1] for c in e.row.cells if c.status == "ok"] for e in (self.full, self.other)]
        return sum(ends[0]) / len(ends[0]) - sum(ends[1]) / len(ends[1])


def entries(result: Result, experiment: Experiment, reading: Reproduction | None) -> list[Entry]:
    """Every row of the result, in its order."""
    points = {
        json.dumps(varied, sort_keys=True): point
        for varied, point in zip(experiment.varied, experiment.points, strict=True)
    }
    rows = [row for row in result.rows() if json.dumps(row.settings, sort_keys=True) in points]
    if not rows:
        raise GgeurError("The result does not belong to the experiment beside it in the run folder.")
    own = [points[json.dumps(row.settings, sort_keys=True)] for row in rows]
    arms = {} if reading is None else {arm.arm: arm for arm in reading.arms}
    several = reading is not None and len({arm.part for arm in reading.arms}) > 1
    weights = Counter(p.train.weights for p in own).most_common(1)[0][0]
    steps = Counter(p.train.local_steps for p in own).most_common(1)[0][0]
    scale = Counter(p.augment.scale for p in own).most_common(1)[0][0]
    most = max((p.augment.steps or 1 for p in own if p.augment.build().noise is not None), default=1)
    found = []
    for row, point in zip(rows, own, strict=True):
        arm = arms.get(str(row.settings.get("arm")))
        odd = {"arm", "train.method", "augment.kind", "augment.steps"}
        rest = {key: value for key, value in row.settings.items() if key not in odd}
        condition = label(rest)
        if several and arm is not None:
            condition = f"{arm.part}, {condition}" if condition else arm.part
        variant = _variant(point, weights, steps, scale, most)
        name = arm.row if arm is not None else label(row.settings) or point.train.method
        published = "" if arm is None else arm.published
        found.append(Entry(name, point.train.method, variant, condition, row, point, published))
    return found


def _variant(point: Settings, weights: str, steps: int | None, scale: str, most: int) -> str:
    a, augmentation = point.augment, point.augment.build()
    words = [augmentation.label]
    if augmentation.noise is not None:
        words += [f"step {a.steps}"] if (a.steps or 1) < most else []
        words += [f"scale {a.scale}"] if a.scale != scale else []
        words += [a.statistics] if a.statistics != "per-class" else []
    extra = [f"{point.train.weights} weights"] if point.train.weights != weights else []
    extra += ["steps matched"] if point.train.local_steps not in (None, steps) else []
    extra += [f"from {point.train.start}"] if point.train.start != "random" else []
    return ", ".join(extra) if extra and words == [PLAIN] else ", ".join(words + extra)


def pairs(all_entries: Sequence[Entry], variant: str = PLAIN) -> list[Pair]:
    """GGEUR beside `variant` of the same method under the same condition, wherever both finished."""
    found = []
    for full in all_entries:
        if full.variant != FULL or full.avg is None:
            continue
        for other in all_entries:
            same = (other.method, other.condition) == (full.method, full.condition)
            if same and other.variant == variant and other.avg is not None:
                found.append(paired(full, other))
                break
    return found


def paired(full: Entry, other: Entry) -> Pair:
    """Two finished rows, seed by seed."""
    try:
        return Pair(full, other, paired_difference(full.row, other.row))
    except GgeurError:
        return Pair(full, other, None)
