"""Metrics of a classifier from the counts of its test samples at several sites, with intervals.

What sites withhold bounds a metric: it is then known between `low` and `high`, which are equal otherwise. The interval
is that of other test samples: 95 %, by Wilson for shares and by redrawing the counts for all else. Where groups of
samples are known (patients, say), it is wider by the design effect of the accuracy.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ggeur.federation.score_counts import BINS, WITHHELD, ScoreCounts
from ggeur.federation.small_counts import FEW_RIGHT, FEW_WRONG
from ggeur.stats.types import Float, Int

Z = 1.959964  # of a normal distribution, 95 %
_DRAWS = 1000
_COARSE = 0.1  # width of a bin of scores from which on a calibration error says nothing


class Metric(NamedTuple):
    """A metric between `low` and `high`, equal where nothing is withheld, and its 95 % interval; None: not known."""

    low: float
    high: float
    interval: tuple[float, float] | None = None

    @property
    def value(self) -> float:
        """Return the middle of what is known."""
        return (self.low + self.high) / 2


class Bounded(NamedTuple):
    """The counts of several sites, added up: least and greatest confusion matrix and number of right samples."""

    samples: Int  # (C,)
    low: Int  # (C, C)
    high: Int
    right: tuple[int, int]
    design: float  # variance of the accuracy over that of independent samples

    @classmethod
    def of(cls, sites: Sequence[tuple[ScoreCounts, int]]) -> "Bounded":
        """Add up the counts of sites, each with its `min_count`."""
        bounds = [_bounds(counts, least) for counts, least in sites]
        lows, highs, rights = zip(*bounds, strict=True)
        right = sum(low for low, _ in rights), sum(high for _, high in rights)
        samples = np.sum([c.samples for c, _ in sites], axis=0)
        return cls(samples, np.sum(lows, axis=0), np.sum(highs, axis=0), right, _design([c for c, _ in sites]))


def _bounds(counts: ScoreCounts, least: int) -> tuple[Int, Int, tuple[int, int]]:
    n, diagonal = counts.samples, np.eye(len(counts.samples), dtype=np.bool_)
    hidden = counts.confusion == WITHHELD
    low = np.where(hidden, 0, counts.confusion)
    left = n - low.sum(axis=1)  # of hidden cells, by row
    high = np.where(hidden, left[:, None], counts.confusion)
    few = counts.few[:-1]
    at = hidden & diagonal & (few == FEW_WRONG)[:, None]
    low = np.where(at, np.maximum(n - least + 1, 0)[:, None], low)
    high = np.where(hidden & ~diagonal & (few == FEW_WRONG)[:, None], np.minimum(high, least - 1), high)
    at = hidden & diagonal & (few == FEW_RIGHT)[:, None]
    low, high = np.where(at, 1, low), np.where(at, np.minimum(high, least - 1), high)
    fewest, most, total = int(np.diag(low).sum()), int(np.diag(high).sum()), int(n.sum())
    if counts.right != WITHHELD:
        fewest = most = counts.right
    elif counts.few[-1] == FEW_WRONG:
        fewest = max(fewest, total - least + 1)
    elif counts.few[-1] == FEW_RIGHT:
        most = min(most, least - 1)
    wrong = total - fewest  # of all classes, so of each
    low = np.where(hidden & diagonal, np.maximum(low, (n - wrong)[:, None]), low)
    return low, np.where(hidden & ~diagonal, np.minimum(high, wrong), high), (fewest, most)


def _design(sites: Sequence[ScoreCounts]) -> float:
    """Return how much wider groups make the accuracy's variance; 1 where no groups are known at some site."""
    known = [(c.groups, int(c.samples.sum()), c.right) for c in sites if c.samples.any()]
    groups = [g for g, _, _ in known if g is not None]
    n, right = sum(n for _, n, _ in known), sum(r for _, _, r in known)
    if len(groups) < len(known) or not groups or not 0 < right < n:
        return 1.0
    share, m = right / n, sum(g.groups for g in groups)
    squares = sum(g.right_squared - 2 * share * g.right_times_samples + share**2 * g.samples_squared for g in groups)
    return max(float(squares * m / (m - 1) / (n * share * (1 - share))), 1.0)


def wilson(low: float, high: float, n: float, design: float = 1.0) -> tuple[float, float] | None:
    """Return the 95 % interval of a share that is `low` to `high` of `n` samples.

    >>> wilson(8, 8, 10)
    (0.49..., 0.94...)
    """
    if n <= 0:
        return None

    def end(k: float, sign: int) -> float:
        m, p = n / design, k / n
        middle, width = p + Z**2 / (2 * m), Z * np.sqrt(p * (1 - p) / m + Z**2 / (4 * m * m))
        return float(np.clip((middle + sign * width) / (1 + Z**2 / m), 0, 1))

    return end(low, -1), end(high, 1)


def share(low: float, high: float, n: float, design: float = 1.0) -> Metric | None:
    """Return `low` to `high` of `n` as a metric."""
    return Metric(low / n, high / n, wilson(low, high, n, design)) if n > 0 else None


def count_metrics(b: Bounded) -> dict[str, Any]:
    """Return accuracy, balanced accuracy and macro F1, and recall, precision and F1 of each class, from counts.

    As scikit-learn's with `zero_division=0`; classes without test samples count in none of them.
    """
    right = np.diag(b.low), np.diag(b.high)
    taken = b.low.sum(axis=0), b.high.sum(axis=0)
    held = np.flatnonzero(b.samples > 0)
    recall = [share(right[0][c], right[1][c], b.samples[c], b.design) for c in held]
    precision = [_precision(b, int(c)) for c in held]
    f1 = [_f1(b, int(c)) for c in held]
    drawn, wrong = _drawn(b, held), int(b.samples.sum()) - b.right[0]
    n, lost = b.samples[held], (b.samples - right[0])[held]
    taken_wrong = np.minimum((taken[1] - right[1])[held], wrong)
    # Every class by itself may have all that are wrong, but not all of them together.
    worst_recall = 1 - _largest(1 / n, lost, wrong) / len(held) if len(held) else 0.0
    weight = 1 / np.maximum(2 * n - lost, 1)  # 1 - F1 = (missed + taken wrongly) / (2 n - missed + taken wrongly)
    worst_f1 = 1 - (_largest(weight, lost, wrong) + _largest(weight, taken_wrong, wrong)) / max(len(held), 1)
    return {
        "samples": int(b.samples.sum()),
        "accuracy": share(*b.right, b.samples.sum(), b.design),
        "balanced_accuracy": _mean(
            [(m.low, m.high) for m in recall if m is not None], drawn[0], b.design, worst_recall
        ),
        "macro_f1": _mean(f1, drawn[1], b.design, worst_f1),
        "classes": {
            int(c): {"samples": int(b.samples[c]), "recall": r, "precision": p, "f1": Metric(*f)}
            for c, r, p, f in zip(held, recall, precision, f1, strict=True)
        },
    }


def _precision(b: Bounded, c: int) -> Metric:
    low, high = float(b.low[c, c]), float(b.high[c, c])
    fewest, most = (float(m[:, c].sum() - m[c, c]) for m in (b.low, b.high))  # others that are taken as the class
    most = min(most, float(b.samples.sum() - b.right[0]))
    least, best = (k / (k + wrong) if k + wrong else 0.0 for k, wrong in ((low, most), (high, fewest)))
    taken = (low + high + fewest + most) / 2
    return Metric(least, best, wilson(least * taken, best * taken, taken, b.design))


def _f1(b: Bounded, c: int) -> tuple[float, float]:
    low, high = b.low[c, c], b.high[c, c]
    wrong = [m[:, c].sum() - m[c, c] for m in (b.low, b.high)]
    wrong[1] = min(wrong[1], b.samples.sum() - b.right[0])
    return float(2 * low / (b.samples[c] + low + wrong[1])), float(2 * high / (b.samples[c] + high + wrong[0]))


def _largest(weight: Float, most: Int, total: int) -> float:
    """Return the largest sum of `weight` times counts up to `most` each and `total` together."""
    found, left = 0.0, total
    for k in np.argsort(-weight, kind="stable"):
        taken = min(int(most[k]), left)
        found, left = found + float(weight[k]) * taken, left - taken
    return found


def _mean(values: Sequence[tuple[float, float]], drawn: Float, design: float, least: float) -> Metric | None:
    """Return the mean of values that are known to lie between two ends each, and of which the mean is `least`."""
    if not values:
        return None
    low, high = (float(np.mean([v[k] for v in values])) for k in (0, 1))
    low = low if high - low < 1e-12 else min(max(low, least), high)
    return Metric(low, high, _around(low, high, drawn, design))


def _around(low: float, high: float, drawn: Float, design: float) -> tuple[float, float] | None:
    """Return the interval of what was `drawn`, moved to the ends of what is known, and widened by the `design`."""
    if not len(drawn) or np.ptp(drawn) == 0:
        return None  # all are right: what is drawn from them says nothing
    ends = np.quantile(drawn, [0.025, 0.975]) - np.median(drawn)
    return tuple(float(np.clip(v + d * np.sqrt(design), 0, 1)) for v, d in zip((low, high), ends, strict=True))  # type: ignore[return-value]


def _drawn(b: Bounded, held: Int) -> tuple[Float, Float]:
    """Return balanced accuracies and macro F1 of confusion matrices that are drawn anew, one class after the other."""
    rng, middle = np.random.default_rng(0), (b.low + b.high) / 2
    rows = np.zeros((_DRAWS, *middle.shape))
    for c in held:
        rows[:, c] = rng.multinomial(b.samples[c], middle[c] / middle[c].sum(), size=_DRAWS)
    right, taken = np.einsum("dcc->dc", rows), rows.sum(axis=1)
    n = b.samples[held]
    return (right[:, held] / n).mean(axis=1), (2 * right[:, held] / (n + taken[:, held])).mean(axis=1)


def score_metrics(sites: Sequence[ScoreCounts], c: int, specificity: float, design: float) -> Mapping[str, Any]:
    """Return AUROC, sensitivity at a given `specificity`, and calibration error of class `c` against the rest."""
    rows = [_row(site, c) for site in sites]
    rows = [row for row in rows if row[0].any() or row[1].any()]
    positive, negative = (sum(int(row[k].sum()) for row in rows) for k in (0, 1))
    if not positive or not negative:
        return {"auroc": None, "sensitivity": None, "calibration_error": None}
    common = np.flatnonzero(np.logical_and.reduce([edges for *_, edges in rows]))
    merged = [np.add.reduceat(sum(row[k] for row in rows), common[:-1]) for k in (0, 1)]
    return {
        "auroc": _auroc(rows, merged, design),
        "sensitivity": _sensitivity(merged, common / BINS, specificity, design),
        "calibration_error": _calibration_error(merged, common / BINS),
    }


def _row(site: ScoreCounts, c: int) -> tuple[Int, Int, Any]:
    """Return the scores of class `c`, of its samples and of others, and the edges; of two classes they mirror."""
    if len(site.positive) == len(site.samples):
        return site.positive[c], site.negative[c], site.edges[c]
    if c == len(site.samples) - 1:
        return site.positive[0], site.negative[0], site.edges[0]
    kept = np.flatnonzero(site.edges[0])
    mirrored = []
    for counts in (site.negative[0], site.positive[0]):
        out = np.zeros_like(counts)
        out[BINS - kept[1:]] = counts[kept[:-1]]
        mirrored.append(out)
    return mirrored[0], mirrored[1], site.edges[0][::-1]


def _auroc(rows: Sequence[tuple[Int, Int, Any]], merged: Sequence[Int], design: float) -> Metric:
    """Return between which values the AUROC lies, whatever the order within bins.

    Where nothing is withheld it is half the pairs in one bin off at most, so that is not told apart from the middle.
    """
    starts, ends = ([np.zeros(BINS + 1), np.zeros(BINS + 1)] for _ in range(2))
    for *counts, edges in rows:
        kept = np.flatnonzero(edges)
        for k in (0, 1):
            starts[k][kept[:-1]] += counts[k][kept[:-1]]
            ends[k][kept[1:]] += counts[k][kept[:-1]]
    pairs = starts[0].sum() * starts[1].sum()
    sure = float(starts[0] @ np.cumsum(ends[1])) / pairs  # a sample of the class begins where the other has ended
    never = float(starts[1] @ np.cumsum(ends[0])) / pairs
    whole = all(edges.all() for *_, edges in rows)
    low, high = (((sure + 1 - never) / 2,) * 2) if whole else (sure, 1 - never)
    rng = np.random.default_rng(0)
    p, n = (rng.multinomial(int(m.sum()), m / m.sum(), size=_DRAWS) for m in merged)
    below = np.cumsum(n, axis=1) - n / 2
    drawn = (p * below).sum(axis=1) / (p.sum(axis=1) * n.sum(axis=1))
    return Metric(low, high, _around(low, high, drawn, design))


def _sensitivity(merged: Sequence[Int], edges: Float, specificity: float, design: float) -> dict[str, Any] | None:
    """Return the share of the class's samples from the lowest threshold on below which enough of the others lie."""
    below = np.append(0, np.cumsum(merged[1])) / merged[1].sum()
    k = int(np.argmax(below >= specificity - 1e-12))
    if edges[k] >= 1:
        return None  # bins are too wide for it, or no threshold will do
    n, found = int(merged[0].sum()), int(merged[0][k:].sum())
    return {"threshold": float(edges[k]), "specificity": float(below[k]), "value": share(found, found, n, design)}


def _calibration_error(merged: Sequence[Int], edges: Float) -> float | None:
    """Return the mean distance of a bin's middle from the share of the class in it, by samples."""
    n = merged[0] + merged[1]
    held = n > 0
    if (np.diff(edges)[held] > _COARSE).any():
        return None
    middle = (edges[:-1] + edges[1:]) / 2
    gap = np.abs(merged[0][held] - n[held] * middle[held])
    return float(gap.sum() / n.sum())
