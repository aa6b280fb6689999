"""What a site sends in round 0: counts, sums and second moments; of all sites' a federation needs only the total.

Second moments are per class, pooled over the classes, or left out where means suffice. Whatever the kind, messages add
up; means and covariances (Eq. 4) are read off the total. `ClassStatistics` is the arithmetic of the per-class kind.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ggeur.core.errors import GgeurError
from ggeur.core.statistics import ClassStatistics
from ggeur.core.types import Bool, Float

Statistics = Literal["means", "pooled", "per-class"]
KINDS: tuple[Statistics, ...] = ("means", "pooled", "per-class")  # each holds what those before it hold


def largest(kinds: Iterable[Statistics | None]) -> Statistics | None:
    """The kind that serves all of these; None where nothing is needed.

    >>> largest(["means", None, "per-class"])
    'per-class'
    """
    return max((kind for kind in kinds if kind is not None), key=KINDS.index, default=None)


def matrices(kind: Statistics, n_classes: int) -> int:
    """How many second moments a message of that kind holds."""
    return {"per-class": n_classes, "pooled": 1, "means": 0}[kind]


def message_bytes(kind: Statistics, n_classes: int, p: int) -> int:
    """Of a message on its way: float64, and of a symmetric matrix its triangle."""
    return 8 * (n_classes * (1 + p) + matrices(kind, n_classes) * p * (p + 1) // 2)


@dataclass(frozen=True, eq=False)
class Message:
    """Count and sum of each class and second moments, about a shared public `center`; float64.

    >>> s = ClassStatistics.from_embeddings([[0.0, 1.0], [2.0, 1.0], [5.0, 5.0]], [0, 0, 1], 2)
    >>> m = Message.of(s, "pooled")
    >>> m.mean[0], m.within[0, 0]
    (array([1., 1.]), np.float64(0.666...))
    """

    count: Float  # (C,)
    sum: Float  # (C, p), of x - center
    second: Float  # (C, p, p), or (1, p, p) summed over the classes, or (0, p, p)
    center: Float  # (p,)

    @classmethod
    def of(cls, s: ClassStatistics, kind: Statistics) -> "Message":
        """What is sent of these statistics."""
        second = s.second if kind == "per-class" else s.second.sum(axis=0, keepdims=True)
        return cls(s.count, s.sum, second[: matrices(kind, s.n_classes)], s.center)

    @property
    def kind(self) -> Statistics:
        held = len(self.second)
        return "per-class" if held == len(self.count) else "pooled" if held else "means"

    @property
    def n_classes(self) -> int:
        return len(self.count)

    @property
    def dimension(self) -> int:
        return int(self.sum.shape[1])

    @property
    def present(self) -> Bool:
        """Which classes have rows."""
        return self.count > 0

    @property
    def _n(self) -> Float:
        return np.where(self.present, self.count, 1.0)

    @property
    def mean(self) -> Float:
        """(C, p): mu_i of Eq. 4; zero for a class without rows."""
        return np.where(self.present[:, None], self.center + self.sum / self._n[:, None], 0.0)

    @property
    def statistics(self) -> ClassStatistics:
        """The same as per-class statistics, which the message must hold."""
        self._require("per-class")
        return ClassStatistics(self.count, self.sum, self.second, self.center)

    def scatter_of(self, i: int) -> Float:
        """(p, p): sum of (x - mean)(x - mean)' of class i or, where moments are pooled, over all classes."""
        mine = slice(i, i + 1) if self.kind == "per-class" else slice(None)
        shift = self.sum[mine] / np.sqrt(self._n[mine])[:, None]
        return np.asarray(self.second[i] - shift.T @ shift)

    @property
    def within(self) -> Float:
        """(p, p): the classes' covariances averaged by count, one covariance for all of them."""
        self._require("pooled")
        if self.kind == "per-class":
            return self.statistics.within
        sigma = self.scatter_of(0) / max(float(self.count.sum()), 1.0)
        return np.asarray((sigma + sigma.T) / 2)

    def about(self, center: ArrayLike) -> "Message":
        """The same with moments about another center."""
        center = np.asarray(center, np.float64)
        d = self.center - center
        cross = self.sum[:, :, None] * d
        moved = cross + cross.swapaxes(1, 2) + self.count[:, None, None] * np.outer(d, d)
        if self.kind != "per-class":
            moved = moved.sum(axis=0, keepdims=True)[: len(self.second)]
        return replace(self, sum=self.sum + self.count[:, None] * d, second=self.second + moved, center=center)

    def only(self, classes: Bool) -> "Message":
        """The message of these classes, the others emptied; pooled moments cannot be told apart, and stay."""
        second = np.where(classes[:, None, None], self.second, 0.0) if self.kind == "per-class" else self.second
        return replace(
            self, count=np.where(classes, self.count, 0.0), sum=np.where(classes[:, None], self.sum, 0.0), second=second
        )

    def __add__(self, other: "Message") -> "Message":
        return merge([self, other])

    def check_alike(self, other: "Message") -> None:
        """Raise unless the two can be added."""
        alike = self.sum.shape == other.sum.shape and self.second.shape == other.second.shape
        if not (alike and np.array_equal(self.center, other.center)):
            raise GgeurError(
                "Cannot add these messages: all sites must use the same classes, encoder, statistics and center."
            )

    def _require(self, kind: Statistics) -> None:
        if KINDS.index(self.kind) < KINDS.index(kind):
            raise GgeurError(f"This needs {kind} second moments, and the sites sent {self.kind}.")


def merge(messages: Iterable[Message]) -> Message:
    """The total, in the order in which they come, holding two at a time."""
    messages = iter(messages)
    first = next(messages, None)
    if first is None:
        raise GgeurError("There are no statistics to merge: the federation has no clients.")
    total = replace(first, count=first.count.copy(), sum=first.sum.copy(), second=first.second.copy())
    for one in messages:
        total.check_alike(one)
        for mine, theirs in ((total.count, one.count), (total.sum, one.sum), (total.second, one.second)):
            mine += theirs
    return total
