"""Accuracy of the global head on every domain's test samples, and what is read off the rounds at the end."""

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ggeur.data.table import EmbeddingTable
from ggeur.heads.head import Head, Params, double_logits, has_float64, in_blocks
from ggeur.stats.errors import GgeurError
from ggeur.stats.types import Int

LAST_ROUNDS = 5  # the paper's "average of the last five rounds"
ByClass = tuple[list[float | None], float | None]  # recall of each class, macro-F1


@lru_cache(maxsize=16)
def predicted_labels(head: Head) -> Any:
    """(params, x) -> the class of each sample, compiled; of a head in float64 by NumPy."""

    def classes(params: Params, x: Any) -> Any:
        if has_float64(params):
            return np.asarray(double_logits(head, params, x)).argmax(axis=-1)
        return in_blocks(head, partial(_compiled(head), params), x)

    return classes


@lru_cache(maxsize=16)
def _compiled(head: Head) -> Any:
    import jax
    import jax.numpy as jnp

    return jax.jit(lambda params, x: jnp.argmax(head.logits(params, x.astype(jnp.float32)), axis=-1))


class TestSet:
    """The test samples of a split table, ready to score heads on."""

    def __init__(self, table: EmbeddingTable, head: Head) -> None:
        samples = np.flatnonzero(table.test) if table.test is not None else np.zeros(0, int)
        if not len(samples):
            raise GgeurError(
                "The table has no test samples: its test mask must mark some.", code="test-samples-missing"
            )
        self._x, self._y, self._domain = table.x[samples], table.y[samples], table.domains[samples]
        self._head, self._n_classes = head, table.n_classes
        self._names = {d: table.domain_names[d] for d in np.unique(self._domain)}

    @property
    def samples(self) -> dict[str, int]:
        """How many there are of each domain."""
        return {name: int((self._domain == d).sum()) for d, name in self._names.items()}

    def accuracy(self, params: Params) -> dict[str, float]:
        """Percent right in each domain that has test samples."""
        right = self._predicted(params) == self._y
        return {name: 100 * float(right[self._domain == d].mean()) for d, name in self._names.items()}

    def mean_accuracy(self, heads: Sequence[Params]) -> dict[str, float]:
        """The same, averaged over heads; there is one but for the bound `local`."""
        scores = [self.accuracy(params) for params in heads]
        return {name: float(np.mean([s[name] for s in scores])) for name in scores[0]}

    def groups(self, params: Params) -> dict[str, dict[int, tuple[int, int]]]:
        """Return, by domain and class, the number of right answers and of samples."""
        right = self._predicted(params) == self._y
        found: dict[str, dict[int, tuple[int, int]]] = {}
        for d, name in self._names.items():
            own = [(c, right[(self._domain == d) & (self._y == c)]) for c in range(self._n_classes)]
            found[name] = {c: (int(hits.sum()), len(hits)) for c, hits in own if len(hits)}
        return found

    def by_class(self, params: Params) -> ByClass:
        """Recall of each class and macro-F1."""
        return by_class(confusion(self._y, self._predicted(params), self._n_classes))

    def _predicted(self, params: Params) -> Int:
        """(n,): the class of each sample."""
        x = self._x if has_float64(params) else self._on_device
        return np.asarray(predicted_labels(self._head)(params, x))

    @cached_property
    def _on_device(self) -> Any:
        """The samples where JAX computes, where they stay over all rounds."""
        import jax.numpy as jnp

        return jnp.asarray(self._x)


def confusion(y: Int, predicted: Int, n_classes: int) -> Int:
    """(C, C): how often class i was taken for class j."""
    table = np.zeros((n_classes, n_classes), np.int64)
    np.add.at(table, (y, predicted), 1)
    return table


def by_class(confusion: Int) -> ByClass:
    """Recall of each class in percent (None without test samples), and macro-F1 over classes that occur."""
    hit, true, said = np.diag(confusion), confusion.sum(axis=1), confusion.sum(axis=0)
    recall = [100 * float(h / t) if t else None for h, t in zip(hit, true, strict=True)]
    occurs = true + said > 0
    f1 = 100 * float((2 * hit[occurs] / (true + said)[occurs]).mean()) if occurs.any() else None
    return recall, f1


def mean_accuracy(domains: dict[str, float]) -> float:
    """The unweighted mean over domains."""
    return float(np.mean(list(domains.values())))


def test_deviation(domains: Mapping[str, float], samples: Mapping[str, int]) -> float:
    """How much AVG moves, as a standard deviation, when the test samples of every domain are drawn anew with
    replacement.

    The bootstrap needs no draws here: of n samples with a share a right, a redraw's share deviates by sqrt(a (1 - a) /
    n).
    """
    variance = [a * (100 - a) / samples[name] for name, a in domains.items() if samples.get(name)]
    return float(np.sqrt(np.sum(variance)) / max(len(variance), 1))


class Summary(NamedTuple):
    """The paper's figures of a group: each domain's mean over the last rounds, their mean and their spread."""

    domains: dict[str, float]
    avg: float
    std: float | None
    rounds_to_95: int | None


def summarise_scores(rounds: Sequence[dict[str, float]]) -> Summary:
    """From the per-round accuracies; `std` is the population's over domains, None where there is one.

    A domain that nobody scored in some rounds, its site being away, counts in those in which somebody did.

    >>> summarise_scores([{"a": 50.0, "b": 70.0}, {"a": 60.0, "b": 80.0}])
    Summary(domains={'a': 55.0, 'b': 75.0}, avg=65.0, std=10.0, rounds_to_95=2)
    """
    last = [r for r in rounds if r][-LAST_ROUNDS:]
    if not last:
        raise GgeurError("No site could score the head; there is nothing to report.", code="head-not-scored")
    names = dict.fromkeys(name for r in last for name in r)
    domains = {name: float(np.mean([r[name] for r in last if name in r])) for name in names}
    values: NDArray[np.float64] = np.array(list(domains.values()))
    avg = float(values.mean())
    reached = next((i for i, r in enumerate(rounds, 1) if r and mean_accuracy(r) >= 0.95 * avg), None)
    return Summary(domains, avg, float(values.std()) if len(values) > 1 else None, reached)
