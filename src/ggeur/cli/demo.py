"""`ggeur demo`: the whole method on the built-in data, with the controls that say what the geometry adds."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ggeur.cli.options import Out, Seeds
from ggeur.cli.run import default_folder, execute
from ggeur.cli.screen import console, say

if TYPE_CHECKING:
    from ggeur.runs.result import Result, Row

EXPERIMENT = Path(__file__).with_name("demo.toml")
_FULL = "+ GGEUR steps 1 and 2"  # the arm that is explained


def demo(
    out: Out = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of the federation.")] = 20,
    seeds: Seeds = 3,
) -> None:
    """Compare FedAvg, its controls and GGEUR and heads of one message on the built-in digits, in a minute or two."""
    from ggeur.settings.grid import Experiment

    console.print(
        "Four sites each hold one domain of the built-in mini-digits (7,197 small pictures of digits), with the "
        "classes split by Dirichlet(0.1): most sites lack most classes. The data is made on the spot and embedded by "
        "a weight-free encoder; it is a stand-in for real images and CLIP, not a benchmark.\n",
        highlight=False,
    )
    experiment = Experiment.load(EXPERIMENT, [f"train.rounds={rounds}", f"run.seeds={list(range(seeds))}"])
    folder = out or default_folder("demo")
    result = execute(experiment, folder, title="mini-digits, label and domain skew")
    console.print("\n" + explain(result), highlight=False)
    console.print("\n" + of_one_message(result), highlight=False)
    from ggeur.report.page import write_report

    page = write_report([folder], folder / "report.html")
    say(f"\nThe same with figures, to read in a browser: {page}", soft_wrap=True)


def explain(result: "Result") -> str:
    """What the table of a `result` says, from its own numbers."""
    rows = {row.settings["arm"]: row for row in result.rows()}
    avg = {name: row.avg for name, row in rows.items()}
    plain, resample, prototypes, full = (avg[name] for name in ("FedAvg", "+ resample", "+ prototypes", _FULL))
    if plain is None or resample is None or prototypes is None or full is None:
        return "Some arms did not finish, so there is nothing to compare."
    return (
        "Balancing (repeating each site's own rows, with the steps and weights that brings) moves FedAvg from "
        f"{plain:.1f} to {resample:.1f} %, and "
        f"repeating the other domains' class means as well gives {prototypes:.1f} %: neither uses any geometry. "
        f"GGEUR with both steps draws around the same points along each class's global shape and reaches {full:.1f} %, "
        f"so of {full - plain:+.1f} points {full - prototypes:+.1f} come with the geometry itself. "
        + _certainty(rows[_FULL], rows["+ prototypes"])
    )


def of_one_message(result: "Result") -> str:
    """What the heads say that are solved from the first message, beside GGEUR's rounds."""
    rows = {row.settings["arm"]: row for row in result.rows()}
    full, auto = rows[_FULL], rows["chosen by auto"]
    if full.avg is None or auto.avg is None:
        return ""
    taken = Counter(cell.taken for cell in auto.cells).most_common(1)[0][0]
    expected = [cell.expected[cell.taken] for cell in auto.cells if cell.expected]
    guess = f"; it expected {sum(expected) / len(expected):.1f} %, from rows left out" if expected else ""
    return (
        "What GGEUR's rounds draw on is all in the sites' first message. A head solved from it, without a round, "
        f"reaches {rows['limit, one message'].avg:.1f} % (limit) or {rows['gated, one message'].avg:.1f} % (gated), "
        f"against GGEUR's {full.avg:.1f} %. Choosing among such heads without looking at a test row took {taken} and "
        f"reaches {auto.avg:.1f} %{guess}."
    )


def _certainty(full: "Row", prototypes: "Row") -> str:
    """Whether the seeds show that the geometry adds something."""
    from ggeur.runs.compare import paired_difference

    if len(full.cells) < 2:
        return "One seed cannot say what of this is chance."
    d = paired_difference(full, prototypes)
    shown = "which is more than chance" if d.low > 0 else "so these seeds do not show that it adds anything"
    return f"Paired over {d.seeds} seeds its part is between {d.low:+.1f} and {d.high:+.1f} (95 %), {shown}."
