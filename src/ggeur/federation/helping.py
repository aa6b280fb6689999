"""Who helps whom: what every site adds to a head that is solved from messages, told by rows that are left out.

Messages add up, so the head of any set of sites is solved exactly as if the others had never been there. The worth of a
set is the accuracy of its head on the rows left out at a site, averaged over all sites, in the set or not; that of
nobody is a guess among the classes. Figures are percent, or points, with the standard error that the rows left out
allow for: binomial of an accuracy, of the change from row to row where heads are compared, and never below one row.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from math import comb, inf
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ggeur.core.errors import GgeurError
from ggeur.core.message import KINDS, Message, Statistics, Total, largest
from ggeur.core.types import Float, Int
from ggeur.federation.choosing import row_folds
from ggeur.federation.settlement import about_center
from ggeur.federation.simulated import Clients
from ggeur.federation.site_map import distances, places
from ggeur.federation.start import solved_head
from ggeur.heads import resolve as resolve_head
from ggeur.heads.head import double_logits
from ggeur.methods.algorithm import Solved, Task

FOLDS = 4  # one of them is left out
SHAPLEY = 8  # sites up to which every set of them is solved for


class Site(NamedTuple):
    """A site as it is looked at here: what it sends of all rows but some, and those."""

    name: str
    messages: Sequence[tuple[int, Message]]  # each with its domain
    x: NDArray[Any]  # (m, p), left out of the messages
    y: Int


class Estimate(NamedTuple):
    """Percent, or points, and their standard error."""

    value: float
    error: float


Estimates = tuple[Estimate | None, ...]  # None where no row is left out to tell by


class Helping(NamedTuple):
    """Who helps whom among `sites`."""

    sites: tuple[str, ...]
    classes: tuple[str, ...]
    rows: tuple[int, ...]  # left out, of every site
    guess: float  # how often a guess is right
    accuracy: Estimates  # of the head of all sites, at every site
    by_class: Estimates  # and on every class
    from_others: Estimates  # what every site gains on its own rows by not being alone
    matrix: tuple[Estimates, ...]  # [i][j]: what site i, joining the others, adds at site j
    to_all: Estimates  # the same on average over all sites
    to_others: Estimates  # and over all but itself
    shapley: Estimates | None  # None where there are too many sites
    distance: tuple[tuple[float, ...], ...]  # of the sites' statistics
    places: tuple[tuple[float, float], ...]  # of the sites on a map of these distances
    head: str = ""  # what it is called


OnHead = Callable[[int, int], None]  # called with the heads that are solved, and how many there will be


def helping(
    sites: Sequence[Site],
    solved: Solved,
    task: Task,
    most: int = SHAPLEY,
    *,
    seconds: float = inf,
    on_head: OnHead = lambda done, total: None,
) -> Helping:
    """Who helps whom where the head is `solved`, every set of sites adding its messages up in the order of `sites`.

    Shapley values, for which n sites take 2^n heads, are of at `most` so many, and only where that would take fewer
    than so many `seconds`, by what the heads without each site took. `on_head` hears of every head.
    """
    n, everybody = len(sites), tuple(range(len(sites)))
    at = np.repeat(everybody, [len(site.y) for site in sites])
    if not (len(at) and any(message.count.any() for site in sites for _, message in site.messages)):
        raise GgeurError("No site has enough rows to leave some out, so who helps whom cannot be told.")
    kind = _kind(solved)
    sites = [site._replace(messages=[(d, _of_kind(m, kind)) for d, m in site.messages]) for site in sites]
    took: list[float] = []
    heads = min(2 * n + 1, 2**n - 1)  # of all, of each alone and of all but each

    def on_solved(spent: float) -> None:
        took.append(spent)
        on_head(len(took), max(heads, len(took)))

    right = _right(sites, solved, task, on_solved)
    whole = right(everybody)
    alone = np.concatenate([right((i,))[at == i] for i in everybody])
    without = [right(tuple(j for j in everybody if j != i)) for i in everybody]
    matrix = tuple(_by_group(whole - other, at, n) for other in without)
    # The median, as the first head may take as long as its program takes to compile.
    every_set = n <= most and 2**n * median(took) < seconds
    heads = 2**n - 1 if every_set else heads
    distance = distances([[message for _, message in site.messages] for site in sites])
    return Helping(
        sites=tuple(site.name for site in sites),
        classes=task.class_names,
        rows=tuple(len(site.y) for site in sites),
        guess=100 * float(right(())[0]),
        accuracy=_by_group(whole, at, n),
        by_class=_by_group(whole, np.concatenate([site.y for site in sites]), len(task.class_names)),
        from_others=_by_group(whole - alone, at, n),
        matrix=matrix,
        to_all=tuple(_mean(added) for added in matrix),
        to_others=tuple(_mean(added[:i] + added[i + 1 :]) for i, added in enumerate(matrix)),
        shapley=tuple(_mean(_by_group(value, at, n)) for value in _shapley(right, n)) if every_set else None,
        distance=tuple(map(tuple, distance.tolist())),
        places=tuple((float(x), float(y)) for x, y in places(distance)),
    )


def sites_of(clients: Clients, names: Sequence[str], solved: Solved, seed: int) -> list[Site]:
    """The `clients` of a table as sites: of the rows of every class and domain at each, one fold is left out."""
    kind, kept, left = _kind(solved), [], []
    for k, rows in enumerate(clients.parts):
        out = row_folds(clients.y[rows], clients.domains[rows], FOLDS, seed, k) == 0
        kept.append(rows[~out])
        left.append(rows[out])

    def messages(rows: Int, center: Float | None) -> Iterator[tuple[int, Message]]:
        for domain in np.unique(clients.domains[rows]).tolist():
            yield domain, clients.message(rows[clients.domains[rows] == domain], kind, center)

    center = about_center(lambda given: Total.of(one for rows in kept for one in messages(rows, given))).center
    return [
        Site(name, list(messages(rows, center)), clients.x[out], clients.y[out])
        for name, rows, out in zip(names, kept, left, strict=True)
    ]


def _kind(solved: Solved) -> Statistics:
    """What the head needs of a message, merged or apart."""
    return largest([solved.needs, solved.apart and solved.apart.kind]) or solved.needs


def _of_kind(message: Message, kind: Statistics) -> Message:
    return message.of_kind(kind) if KINDS.index(message.kind) > KINDS.index(kind) else message


Right = Callable[[tuple[int, ...]], Float]  # a set of sites -> (R,): 1 for every row left out that its head gets right


def _right(sites: Sequence[Site], solved: Solved, task: Task, on_solved: Callable[[float], None]) -> Right:
    head = resolve_head(solved.head)
    x, y = (np.concatenate(rows) for rows in ([site.x for site in sites], [site.y for site in sites]))
    held = [any(message.count.any() for _, message in site.messages) for site in sites]
    classes = np.sum([message.count for site in sites for _, message in site.messages], axis=0) > 0
    known: dict[tuple[int, ...], Float] = {(): np.full(len(y), 1 / max(classes.sum(), 1))}

    def right(members: tuple[int, ...]) -> Float:
        members = tuple(i for i in members if held[i])  # a site without rows changes nothing, not even by rounding
        if members not in known:
            start = perf_counter()
            total = Total.of((one for i in members for one in sites[i].messages), solved.apart)
            params = solved_head(solved, "helping", total, task, 0)
            logits = double_logits(head, params, x)
            logits = np.asarray(head.logits(params, jnp.asarray(x, jnp.float32))) if logits is None else logits
            known[members] = (logits.argmax(axis=1) == y).astype(np.float64)
            on_solved(perf_counter() - start)
        return known[members]

    return right


def _shapley(right: Right, n: int) -> Float:
    """(n, R): the Shapley value of every site for every row left out, as it is linear in the worth."""
    values = np.zeros((n, len(right(()))))
    for i in range(n):
        others = [j for j in range(n) if j != i]
        for size in range(n):
            for members in combinations(others, size):
                joined = tuple(sorted((*members, i)))
                values[i] += (right(joined) - right(members)) / (n * comb(n - 1, size))  # |S|! (n - |S| - 1)! / n!
    return values


def _by_group(values: Float, group: Int, n: int) -> Estimates:
    """The mean of each group's `values` (R,), in percent."""

    def estimate(own: Float) -> Estimate | None:
        if not len(own):
            return None
        # Where all rows agree their spread is zero, and yet one more row could have been different.
        error = max(float(own.std()) / len(own) ** 0.5, 1 / len(own))
        return Estimate(100 * float(own.mean()), 100 * error)

    return tuple(estimate(values[group == g]) for g in range(n))


def _mean(each: Sequence[Estimate | None]) -> Estimate | None:
    """Of independent estimates."""
    there = [e for e in each if e is not None]
    if not there:
        return None
    value, error = np.mean([e.value for e in there]), np.sqrt(np.sum([e.error**2 for e in there])) / len(there)
    return Estimate(float(value), float(error))
