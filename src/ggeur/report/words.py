"""A result in sentences: what won, by how much, what the controls say, and how the paper's own gain compares."""

from collections.abc import Sequence

from ggeur.experiment.evaluate import LAST_ROUNDS
from ggeur.experiment.reproduction import Reproduction
from ggeur.report.entries import PLAIN, Entry, Pair, pairs
from ggeur.report.published import published_tables
from ggeur.report.tables import Comparison

CONTROLS = ("equal weights", "steps matched", "resample", "prototypes")


def summary(all_entries: Sequence[Entry], table: Comparison, reading: Reproduction | None) -> list[str]:
    """The findings, most important first; every figure is computed from the result."""
    if table.unit == "seconds":
        return _times(table)
    found = [*_winner(all_entries), *_gains(pairs(all_entries)), *_controls(all_entries), *_paper(all_entries, reading)]
    rounds = max((len(c.rounds) for e in all_entries for c in e.row.cells), default=0)
    if 1 < rounds <= LAST_ROUNDS:
        found.append(
            f"With {rounds} rounds, the mean of the last {LAST_ROUNDS} holds the first as well, which favours what "
            "starts fast; the curves say more."
        )
    missing = [line.name for line in table.lines if line.why]
    if missing:
        found.append(f"{len(missing)} of {len(table.lines)} rows did not run; the table says why for each.")
    return found or ["Nothing finished, so there is nothing to compare."]


def _winner(all_entries: Sequence[Entry]) -> list[str]:
    conditions = list(dict.fromkeys(e.condition for e in all_entries))
    best = []
    for condition in conditions:
        done = sorted((e for e in all_entries if e.condition == condition and e.avg is not None), key=_avg)
        if done:
            best.append((condition, done))
    if not best:
        return []
    if len(best) == 1:
        (_, done) = best[0]
        top = done[-1]
        spread = f" ± {top.row.spread:.2f} over {len(top.row.cells)} seeds" if top.row.spread is not None else ""
        lead = ""
        if len(done) > 1:
            second = done[-2]
            lead = f", {_avg(top) - _avg(second):.2f} points above the next, {second.name} ({_avg(second):.2f} %)"
        return [f"Best of {len(done)} is {top.name} with {_avg(top):.2f} %{spread}{lead}."]
    winners = [done[-1].name for _, done in best]
    counts = {name: winners.count(name) for name in dict.fromkeys(winners)}
    ranked = sorted(counts.items(), key=lambda item: -item[1])
    told_all = [f"{name} in {n} of {len(best)} settings" for name, n in ranked]
    return [f"Best is {told_all[0]}" + (f", then {'; '.join(told_all[1:])}" if told_all[1:] else "") + "."]


def _avg(entry: Entry) -> float:
    assert entry.avg is not None
    return entry.avg


def _gains(found: Sequence[Pair]) -> list[str]:
    """GGEUR against the same method without it."""
    if not found:
        return []
    if len(found) == 1:
        return [f"GGEUR changes {_whose(found[0])} by {told(found[0])}."]
    up = [p for p in found if p.mean > 0]
    sure = [p for p in found if p.difference is not None and (p.difference.low > 0 or p.difference.high < 0)]
    most, least = max(found, key=lambda p: p.mean), min(found, key=lambda p: p.mean)
    verdict = "in every comparison" if len(up) == len(found) else f"in {len(up)} of {len(found)} comparisons"
    return [
        f"GGEUR is above the same method without it {verdict}: from {told(least)} ({_whose(least)}) to {told(most)} "
        f"({_whose(most)}); in {len(sure)} of {len(found)} the 95 % interval excludes zero."
    ]


def told(pair: Pair) -> str:
    d = pair.difference
    return f"{pair.mean:+.2f} points" + (f" [{d.low:+.2f}, {d.high:+.2f}]" if d is not None else "")


def _whose(pair: Pair) -> str:
    base = pair.other.name if pair.other.name != pair.other.variant else pair.other.method
    return f"{base}, {pair.full.condition}" if pair.full.condition else base


def _controls(all_entries: Sequence[Entry]) -> list[str]:
    """What is left of GGEUR's gain when balancing, prototypes or weights are given to the baseline as well."""
    sentences = []
    for method in dict.fromkeys(e.method for e in all_entries if e.variant in CONTROLS):
        own = [e for e in all_entries if e.method == method]
        base = pairs(own, PLAIN)
        if not base:
            continue
        gain = sum(p.mean for p in base) / len(base)
        parts = []
        for variant in CONTROLS:
            against = pairs(own, variant)
            if against:
                left = sum(p.mean for p in against) / len(against)
                above = sum(p.difference is not None and p.difference.low > 0 for p in against)
                below = sum(p.difference is not None and p.difference.high < 0 for p in against)
                parts.append((left, variant, above, below, len(against)))
        if not parts:
            continue
        left, variant, above, below, n = min(parts)
        where = f" on average over {len(base)} settings" if len(base) > 1 else ""
        each = ", ".join(f"{value:+.2f} over {name}" for value, name, *_ in parts)
        if n == 1:
            strict = f"{told(pairs(own, variant)[0])} over the strictest control, {variant}"
        else:
            strict = (
                f"the 95 % interval over the strictest control, {variant}, is above zero in {above} of {n} settings "
                f"and below it in {below}"
            )
        last = sum(p.last for p in pairs(own, variant)) / n
        verdict = _verdict(left, above, below, n)
        if left * last < 0:
            verdict = (
                f"; but after the last round it is {last:+.2f}, so training has not settled and nothing follows yet"
            )
        sentences.append(
            f"Controls: of GGEUR's {gain:+.2f} points over plain {method}{where}, what remains is {each}. "
            f"{strict[0].upper()}{strict[1:]}{verdict}."
        )
    return sentences


def _verdict(left: float, above: int, below: int, n: int) -> str:
    if above == n:
        return ", so the geometry itself adds something here"
    if above:
        return ", so in part of them the geometry itself adds something"
    if below or left <= 0:
        return ", so the geometry itself adds nothing here that balancing does not"
    return ", so these seeds do not show that the geometry itself adds anything"


def _paper(all_entries: Sequence[Entry], reading: Reproduction | None) -> list[str]:
    """Our gain beside the paper's, on average over the pairs for which it prints both."""
    paper = None if reading is None else published_tables().get(reading.table)
    if reading is None or paper is None:
        return []
    ours, theirs = [], []
    for pair in pairs(all_entries, PLAIN):
        printed = published_gain(pair, reading)
        if printed is not None:
            ours.append(pair.mean)
            theirs.append(printed)
    if not ours:
        return ["The paper prints no GGEUR figure for this table, so its gain cannot be compared."]
    n = len(ours)
    over = f"on average over {n} comparisons" if n > 1 else "in the one comparison"
    return [f"The paper's gain {over} that it prints is {sum(theirs) / n:+.2f} points; ours is {sum(ours) / n:+.2f}."]


def published_gain(pair: Pair, reading: Reproduction) -> float | None:
    """What the paper has GGEUR gain here, if it prints both figures."""
    paper = published_tables().get(reading.table)
    if paper is None:
        return None
    arm = next((a for a in reading.arms if a.arm == pair.full.row.settings.get("arm")), None)
    for column in reading.columns:
        here = arm is not None and column.part == arm.part
        fits = column.kind == "avg" or (
            column.kind == "value" and pair.full.row.settings.get(str(column.key)) == column.value
        )
        if here and fits:
            full, plain = (paper.value(e.published, column.label) for e in (pair.full, pair.other))
            return None if full is None or plain is None else full - plain
    return None


def _times(table: Comparison) -> list[str]:
    lines = [line for line in table.lines if any(n.mean for n in line.numbers)]
    if len(lines) < 2:
        return ["Not both rows ran, so there is nothing to compare."]
    first, second = lines[:2]
    ratios = [
        f"{name} {b.mean / a.mean:.1f} times"
        for name, a, b in zip(table.columns, first.numbers, second.numbers, strict=True)
        if a.mean and b.mean
    ]
    return [f"A round takes, {second.name.lower()} against {first.name.lower()}: {', '.join(ratios)}."]
