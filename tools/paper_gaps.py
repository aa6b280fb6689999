"""Tables about gaps: what each choice of the authors' scripts does to FedAvg and to GGEUR; what the paper misprints."""

from collections.abc import Mapping, Sequence

from paper_cells import NOT_RUN, figure, markdown, minus
from paper_results import Finished

from ggeur.paper.published import published_gains, published_tables
from ggeur.report.tables import Number

PLAIN, FULL = "FedAvg", "FedAvg + GGEUR"
Pair = Mapping[str, Number]


def choices(each: Mapping[str, Pair], pieces: Sequence[Finished]) -> str:
    """AVG without and with GGEUR as the paper is written, with one choice of its scripts each, and with all of them."""
    usual = each.get("paper", {})
    if not {PLAIN, FULL} <= usual.keys():
        return NOT_RUN
    pairs: dict[str, Pair] = {"as `paper` has it": usual}
    for one in pieces:
        if one.piece.choice:
            at = one.table.columns.index("AVG")
            pairs[one.piece.choice] = {**usual, **{line.name: line.numbers[at] for line in one.table.lines}}
    pairs["the best of all rounds is told"] = _best(pieces)
    words = {
        "sound": "noise by the root of the eigenvalue (`sound`)",
        "released": "all but the best round (`released`)",
    }
    pairs |= {said: each[protocol] for protocol, said in words.items() if protocol in each}
    rows = [
        [said, *(_alone(pair[n]) for n in (PLAIN, FULL)), minus(pair[FULL], pair[PLAIN])]
        for said, pair in pairs.items()
    ]
    a, b = usual[FULL].published, usual[PLAIN].published
    if a is not None and b is not None:
        rows.append(["published", f"{b:.2f}", f"{a:.2f}", f"{a - b:+.2f}"])
    return markdown(["`paper`, but", PLAIN, FULL, "GGEUR adds"], rows)


def _alone(number: Number) -> str:
    return figure(number._replace(published=None))


def _best(pieces: Sequence[Finished]) -> Pair:
    """The highest AVG of any round, seed by seed, under `paper`."""
    usual = [one for one in pieces if one.piece.protocol == "paper" and not one.piece.choice]
    of: dict[str, tuple[float, ...]] = {}
    for one in usual:
        for arm in one.reading.arms:
            cells = [cell for cell in one.result.cells if cell.settings.get("arm") == arm.arm]
            of.setdefault(arm.row, tuple(max(cell.rounds) for cell in cells if cell.rounds))
    return {name: Number(of[name]) for name in (PLAIN, FULL)}


def slips() -> str:
    """What the paper prints that its own rows do not give."""
    rows = [
        [
            table,
            slip.row,
            slip.column,
            f"{slip.printed:.2f}",
            "?" if slip.computed is None else f"{slip.computed:.2f}",
            slip.why,
        ]
        for table, printed in published_tables().items()
        for slip in printed.slips
    ]
    rows += [
        [
            g.table,
            f"{g.row} over {g.base}",
            g.column,
            f"{g.printed:+.2f}",
            f"{g.computed:+.2f}",
            "The difference of the two rows.",
        ]
        for g in published_gains()
        if g.computed is not None
    ]
    return markdown(["table", "row", "column", "printed", "from its row", ""], rows)
