"""Who helps whom in sentences, which call a difference one only where it is beyond what rows left out differ by."""

from collections.abc import Sequence
from math import comb, hypot
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from ggeur.federation.helping import Estimate, Estimates, Helping

_SITES = 8  # that are told of one by one
_CANNOT = "the rows left out cannot tell"
Numbered = tuple[int, Estimate]


class Findings(NamedTuple):
    """A sentence for each finding, and one for every site that is left out, those that help most first."""

    worst: str
    alone: str
    shapley: str
    matrix: str
    map: str
    left_out: tuple[str, ...]


def findings(h: Helping) -> Findings:
    """What `h` says."""
    if len(h.sites) == 1:
        one = "There is one site, so nobody helps anybody."
        return Findings(_worst(h), one, one, one, one, ())
    return Findings(_worst(h), _alone(h), _shapley(h), _matrix(h), _map(h), _left_out(h))


def clear(e: Estimate, tries: int = 1) -> bool:
    """Whether it is not zero, at 95 % and allowing for so many `tries` to find one that is not."""
    return abs(e.value) > NormalDist().inv_cdf(1 - 0.025 / tries) * e.error


def _left_out(h: Helping) -> tuple[str, ...]:
    order = sorted(_there(h.to_others), key=lambda pair: -pair[1].value)
    few = order if len(order) <= _SITES else order[: _SITES // 2] + order[-_SITES // 2 :]
    return tuple(_without(h, i, others) for i, others in few)


def _without(h: Helping, i: int, others: Estimate) -> str:
    if clear(others, len(h.sites)):
        at = [(j, e) for j, e in _there(h.matrix[i]) if j != i]
        j, most = max(at, key=lambda pair: pair[1].value * np.sign(others.value))
        verb = "lose" if others.value > 0 else "gain"
        text = f"Without {h.sites[i]} the others {verb} {_size(others)} points on average"
        text += f", most at {h.sites[j]} ({_lost(most)})" if len(at) > 1 else ""
    else:
        text = f"Without {h.sites[i]} the others change by {_lost(others)} points on average, which {_CANNOT} from none"
    own = h.matrix[i][i]
    return f"{text}." if own is None else f"{text}; {h.sites[i]} itself changes by {_lost(own)}."


def _alone(h: Helping) -> str:
    there = _there(h.from_others)
    better, worse = ([(i, e) for i, e in there if s * e.value > 0 and clear(e, len(there))] for s in (1, -1))
    if not better and not worse:
        return f"On rows like its own no site gains or loses by joining that {_CANNOT} from nothing: {_each(h, there)}."
    parts = [
        f"{len(some)} of {len(there)} sites {verb}{'s' if len(some) == 1 else ''} by joining ({_each(h, some)})"
        for some, verb in ((better, "gain"), (worse, "lose"))
        if some
    ]
    caution = "; but a head made alone serves such rows only" if worse else ""
    return f"On rows like their own {' and '.join(parts)}{caution}."


def _shapley(h: Helping) -> str:
    n = len(h.sites)
    if h.shapley is None:
        return f"Shapley values are left out: {n} sites form 2^{n} sets, and each would take a head of its own."
    order = sorted(_there(h.shapley), key=lambda pair: pair[1].value)
    (least, b), (most, a) = order[0], order[-1]
    text = (
        f"Together the sites are {sum(e.value for _, e in order):.1f} points above a guess ({h.guess:.1f} %); shared "
        f"out over all orders in which they could join, {h.sites[most]} brings most ({_size(a)}) and {h.sites[least]} "
        f"least ({b.value:.1f} ± {b.error:.1f})"
    )
    return f"{text}." if clear(_gap(a, b), comb(n, 2)) else f"{text}, which {_CANNOT} apart."


def _matrix(h: Helping) -> str:
    pairs = [(i, j, e) for i, own in enumerate(h.matrix) for j, e in _there(own) if i != j]
    told = [p for p in pairs if clear(p[2], len(pairs))]
    if not told:
        i, j, e = max(pairs, key=lambda pair: abs(pair[2].value))
        largest = f"the largest change is {h.sites[i]} at {h.sites[j]}, {_change(e)} points"
        return f"No site changes another's accuracy by more than the rows left out can tell; {largest}."
    up, down = (f(told, key=lambda pair: pair[2].value) for f in (max, min))
    parts = [f"{h.sites[i]} helps most at {h.sites[j]}, by {_size(e)} points" for i, j, e in [up] if e.value > 0]
    parts += [f"{h.sites[i]} costs most at {h.sites[j]}, {_size(e)} points" for i, j, e in [down] if e.value < 0]
    return f"{'; '.join(parts)}."


def _worst(h: Helping) -> str:
    sites, classes = _lowest(h.sites, h.accuracy), _lowest(h.classes, h.by_class)
    return f"Of the rows left out the head of all sites gets fewest right at {sites} and of the class {classes}."


def _lowest(names: Sequence[str], found: Estimates) -> str:
    there = sorted(_there(found), key=lambda pair: pair[1].value)
    i, low = there[0]
    text = f"{names[i]} ({low.value:.1f} ± {low.error:.1f} %"
    as_low = [names[j] for j, e in there[1:] if not clear(_gap(e, low), len(there) - 1)]
    return text + (f"; {len(as_low)} more may be as low)" if as_low else ")")


def _map(h: Helping) -> str:
    d = np.array(h.distance)
    a, b = divmod(int((d + np.diag(np.full(len(d), np.inf))).argmin()), len(d))
    text = f"By their statistics {h.sites[a]} and {h.sites[b]} are closest, {d[a, b]:.1f} apart"
    far = int(d.sum(axis=1).argmax())
    mean = d[far].sum() / (len(d) - 1)
    return (
        f"{text}, and {h.sites[far]} is farthest out, {mean:.1f} from the others on average."
        if len(d) > 2
        else f"{text}."
    )


def _there(found: Estimates) -> list[Numbered]:
    return [(i, e) for i, e in enumerate(found) if e is not None]


def _gap(a: Estimate, b: Estimate) -> Estimate:
    return Estimate(a.value - b.value, hypot(a.error, b.error))


def _each(h: Helping, some: Sequence[Numbered]) -> str:
    order = sorted(some, key=lambda pair: -abs(pair[1].value))
    more = f" and {len(order) - _SITES} more" if len(order) > _SITES else ""
    return ", ".join(f"{h.sites[i]} {_change(e)}" for i, e in order[:_SITES]) + more


def _size(e: Estimate) -> str:
    return f"{abs(e.value):.1f} ± {e.error:.1f}"


def signed(value: float) -> str:
    """With its sign and a tenth, and no sign where that is zero."""
    shown = f"{value:+.1f}"
    return shown if float(shown) else "0.0"


def _change(e: Estimate) -> str:
    return f"{signed(e.value)} ± {e.error:.1f}"


def _lost(e: Estimate) -> str:
    """What happens without it, where `e` is what it adds."""
    return _change(Estimate(-e.value, e.error))
