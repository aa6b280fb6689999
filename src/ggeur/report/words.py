"""A result in sentences: what GGEUR adds, how sure that is, and how the paper's own gain compares."""

from collections.abc import Sequence

from ggeur.experiments.result import what_seeds_vary
from ggeur.federation.evaluation import LAST_ROUNDS
from ggeur.paper.paper_tables import published_tables
from ggeur.paper.reproduction import Reproduction
from ggeur.report.entries import Pair, ReportEntry, pairs
from ggeur.report.tables import Comparison


def summary(all_entries: Sequence[ReportEntry], table: Comparison, reading: Reproduction | None) -> list[str]:
    """The findings, most important first; every figure is computed from the result.

    `all_entries` are its rows, `table` is the same as people read it, and `reading` says what of the paper it is.
    """
    if table.unit == "seconds":
        return _times(table)
    plain = pairs(all_entries)
    varied = what_seeds_vary([c for e in all_entries for c in e.row.trials])
    finished = any(entry.avg is not None for entry in all_entries)
    found = [] if finished else ["Nothing finished, so there is nothing to compare."]
    found += [*_gains(plain), *_paper(plain, reading), *_speed(plain)]
    rounds = max((len(c.rounds) for e in all_entries for c in e.row.trials), default=0)
    if 1 < rounds <= LAST_ROUNDS:
        found.append(
            f"With {rounds} rounds, the mean of the last {LAST_ROUNDS} holds the first as well, which favours what "
            "starts fast; the curves say more."
        )
    found += [varied] if varied else []
    missing = [line.name for line in table.lines if line.why]
    if missing:
        found.append(f"{len(missing)} of {len(table.lines)} rows did not run; the table says why for each.")
    return found


def _gains(found: Sequence[Pair]) -> list[str]:
    """GGEUR against the same method without it."""
    if not found:
        return []
    if len(found) == 1:
        doubt = "" if found[0].side or found[0].difference is None else ", which these seeds cannot tell from zero"
        return [f"GGEUR changes {found[0].other.title} by {found[0].text}{doubt}."]
    up = [p for p in found if p.mean > 0]
    most, least = max(found, key=lambda p: p.mean), min(found, key=lambda p: p.mean)
    verdict = "in every comparison" if len(up) == len(found) else f"in {len(up)} of {len(found)} comparisons"
    text = (
        f"GGEUR is above the same method without it {verdict}: from {least.text} ({least.other.title}) to "
        f"{most.text} ({most.other.title})."
    )
    if all(p.difference is None for p in found):
        return [text]
    above, below = (sum(p.side == side for p in found) for side in (1, -1))
    rest = "; the rest these seeds cannot tell from zero" if above + below < len(found) else ""
    where = f"above zero in {above} of {len(found)} and below it in {below}"
    return [f"{text} Paired by seed, the 95 % interval is {where}{rest}."]


def _paper(found: Sequence[Pair], reading: Reproduction | None) -> list[str]:
    """Our gain beside the paper's, on average over the pairs for which it prints both."""
    if reading is None or reading.table not in published_tables():
        return []
    both = [(pair.mean, gain) for pair in found if (gain := published_gain(pair, reading)) is not None]
    if not both:
        return ["The paper prints no GGEUR figure for this table, so its gain cannot be compared."] if found else []
    ours, theirs = (sum(values) / len(both) for values in zip(*both, strict=True))
    over = f"on average over {len(both)} comparisons" if len(both) > 1 else "in the one comparison"
    strange = [f"{column.value} for {column.label}" for column in reading.columns if column.replaced]
    caveat = f" (with {', '.join(strange)})" if strange else ""
    return [f"The paper's gain {over} that it prints is {theirs:+.2f} points; ours is {ours:+.2f}{caveat}."]


def published_gain(pair: Pair, reading: Reproduction) -> float | None:
    """Return the gain of GGEUR in the paper for this `pair`, if the table of `reading` prints both figures."""
    paper = published_tables().get(reading.table)
    arm = next((a for a in reading.arms if a.arm == pair.full.row.settings.get("arm")), None)
    if paper is None or arm is None:
        return None
    for column in reading.columns:
        fits = column.kind == "avg" or (
            column.kind == "value" and pair.full.row.settings.get(str(column.key)) == column.value
        )
        if column.part == arm.part and fits:
            full, plain = (paper.value(e.published, column.label) for e in (pair.full, pair.other))
            return None if full is None or plain is None else full - plain
    return None


def _speed(found: Sequence[Pair]) -> list[str]:
    """Section 4.5 of the paper: how soon training is there, and what its rounds hold."""
    numbers = ("rounds_to_95", "local_steps")
    both = [[entry.mean(name) for name in numbers for entry in (p.full, p.other)] for p in found]
    whole = [tuple(v for v in values if v is not None) for values in both if all(v for v in values)]
    if not whole:
        return []
    fast, slow, many, few = (sum(values) / len(whole) for values in zip(*whole, strict=True))
    over = f" on average over {len(whole)} comparisons" if len(whole) > 1 else ""
    return [
        f"To 95 % of its final accuracy GGEUR takes {fast:.1f} rounds and the same method without it {slow:.1f}{over}; "
        f"but a client's round holds {many / few:.1f} times the local steps."
    ]


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
