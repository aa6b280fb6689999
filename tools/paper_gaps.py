"""Tables about gaps: what each choice of the authors' scripts does to FedAvg and to GGEUR; what the paper misprints."""

from collections.abc import Mapping, Sequence

import numpy as np
from paper_cells import NOT_RUN, figure, markdown, minus
from paper_gains import FULL, PLAIN
from paper_results import Finished

from ggeur.paper.paper_tables import published_gains, published_tables
from ggeur.report.tables import Number

Pair = Mapping[str, Number]


def choices(each: Mapping[str, Pair], alone: Mapping[str, Pair], usual: Sequence[Finished]) -> str:
    """AVG without and with GGEUR as the paper is written, with one choice of its scripts each, and with all of them.

    `each` is by protocol, `alone` by choice; the `usual` pieces are those under `paper`.
    """
    paper = each.get("paper", {})
    if not {PLAIN, FULL} <= paper.keys():
        return NOT_RUN
    pairs: dict[str, Pair] = {"as `paper` has it": paper}
    pairs |= {said: {**paper, **pair} for said, pair in alone.items()}
    pairs["the best of all rounds is told"] = _best(usual)
    words = {
        "sound": "noise by the root of the eigenvalue (`sound`)",
        "released": "all but the best round (`released`)",
    }
    pairs |= {said: each[protocol] for protocol, said in words.items() if protocol in each}
    rows = [
        [said, *(figure(pair[n]._replace(published=None)) for n in (PLAIN, FULL)), minus(pair[FULL], pair[PLAIN])]
        for said, pair in pairs.items()
    ]
    a, b = paper[FULL].published, paper[PLAIN].published
    if a is not None and b is not None:
        rows.append(["published", f"{b:.2f}", f"{a:.2f}", f"{a - b:+.2f}"])
    return markdown(["`paper`, but", PLAIN, FULL, "GGEUR adds"], rows)


def _best(usual: Sequence[Finished]) -> Pair:
    """The highest AVG of any round, seed by seed, on average over columns that are settings."""
    of: dict[str, dict[int, list[float]]] = {PLAIN: {}, FULL: {}}
    for one in usual:
        rows = {arm.arm: arm.row for arm in one.reading.arms if arm.row in of}
        for trial in one.result.trials:
            if trial.settings.get("arm") in rows:
                of[rows[trial.settings["arm"]]].setdefault(trial.seed, []).append(max(trial.rounds))
    return {name: Number(tuple(float(np.mean(best)) for best in seeds.values())) for name, seeds in of.items()}


def slips() -> str:
    """What the paper prints that its own rows do not give."""
    rows = []
    for table, printed in published_tables().items():
        for slip in printed.slips:
            computed = "?" if slip.computed is None else f"{slip.computed:.2f}"
            rows.append([table, slip.row, slip.column, f"{slip.printed:.2f}", computed, slip.why])
    for gain in published_gains():
        if gain.computed is not None:
            figures = f"{gain.printed:+.2f}", f"{gain.computed:+.2f}"
            over = f"{gain.row} over {gain.base}"
            rows.append([gain.table, over, gain.column, *figures, "The difference of the two rows."])
    return markdown(["table", "row", "column", "printed", "from its row", ""], rows)
