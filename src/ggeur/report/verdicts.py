"""Is it the geometry? What is left of GGEUR's gain once balancing, prototypes or weights go to the baseline as well."""

from collections.abc import Sequence
from typing import NamedTuple

from ggeur.report.entries import Entry, Pair, Variant, pairs

CONTROLS = (Variant.EQUAL_WEIGHTS, Variant.STEPS_MATCHED, Variant.RESAMPLE, Variant.PROTOTYPES)


class ControlComparison(NamedTuple):
    """GGEUR against one control of the same method, in every setting where both ran."""

    control: str
    pairs: list[Pair]

    @property
    def left(self) -> float:
        """Points by which GGEUR is above it, on average over settings."""
        return sum(pair.mean for pair in self.pairs) / len(self.pairs)

    @property
    def last(self) -> float:
        """The same after the last round alone."""
        return sum(pair.last for pair in self.pairs) / len(self.pairs)


def against_controls(all_entries: Sequence[Entry]) -> list[str]:
    """A sentence or two for each method that has controls among `all_entries`."""
    sentences = []
    for method in dict.fromkeys(e.method for e in all_entries if e.variant in CONTROLS):
        own = [e for e in all_entries if e.method == method]
        base = pairs(own)
        each = [ControlComparison(control, found) for control in CONTROLS if (found := pairs(own, control))]
        if base and each:
            sentences.append(_sentence(ControlComparison(Variant.PLAIN, base), each))
    return sentences


def _sentence(base: ControlComparison, each: Sequence[ControlComparison]) -> str:
    name = base.pairs[0].other._replace(condition="").title
    where = f", on average over {len(base.pairs)} settings" if len(base.pairs) > 1 else ""
    parts = ", ".join(f"{a.left:+.2f} ({a.control})" for a in each)
    strict = min(each, key=lambda a: a.left)
    text = f"Is it the geometry? Against plain {name} GGEUR is {base.left:+.2f} points{where}"
    return f"{text}; against controls {parts}. {_on_the_strictest(strict)}"


def _on_the_strictest(a: ControlComparison) -> str:
    n = len(a.pairs)
    above, below = (sum(pair.side == side for pair in a.pairs) for side in (1, -1))
    if n == 1:
        text = f"Against the strictest, {a.control}, it is {a.pairs[0].text}"
    else:
        where = f"above zero in {above} of {n} settings and below it in {below}"
        text = f"Against the strictest, {a.control}, the 95 % interval is {where}"
    if (above or below) and a.left * a.last < 0:  # the mean over the last rounds says one thing, the last another
        late = f"after the last round it is {a.last:+.2f}"
        return f"{text}; but {late}: training has not settled, and nothing follows yet."
    return f"{text}, so {_verdict(above, below, n)}."


def _verdict(above: int, below: int, n: int) -> str:
    if above:
        return f"the geometry itself adds something {_where(above, n)}"
    if below:
        return f"a control without any geometry does better {_where(below, n)}"
    return "these seeds do not show that the geometry itself adds anything"


def _where(some: int, n: int) -> str:
    return "here" if some == n else f"in {some} of {n} settings"
