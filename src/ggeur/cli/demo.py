"""`ggeur demo`: compare FedAvg, GGEUR and a one-shot classifier on the built-in data."""

import os
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ggeur.cli.options import JsonLines, Out, Quiet, Seeds
from ggeur.cli.run import default_folder, run_with_progress
from ggeur.cli.screen import console, event, say

if TYPE_CHECKING:
    from ggeur.experiments.grid import Experiment
    from ggeur.experiments.result import Row

EXPERIMENT = Path(__file__).with_name("demo.toml")
ONE_SHOT = "one-shot, auto"
ARMS = ("FedAvg", "FedAvg + class means", "FedAvg + GGEUR", ONE_SHOT)
_WIDTH = 80  # columns
_BAR = 28  # characters of 100 %


def demo(
    out: Out = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of federated training.")] = 20,
    seeds: Seeds = 3,
    all_: Annotated[bool, typer.Option("--all", help="Run the other controls and solvers too.")] = False,
    quiet: Quiet = False,
    json_lines: JsonLines = False,
) -> None:
    """Compare three methods on built-in data.

    FedAvg, GGEUR and a one-shot classifier, over four sites, in about a minute.
    """
    say(
        "Four sites hold one domain each of the built-in mini-digits (7,197 pictures, ten\n"
        "classes); Dirichlet(0.1) leaves most sites without most classes. This data is a\n"
        "stand-in for photographs and CLIP, not a benchmark.\n"
    )
    folder = out or default_folder("demo")
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):  # BLAS threads only wait on matrices this small
        asked = experiment(rounds, seeds, everything=all_)
        result = run_with_progress(asked, folder, resume=False, go_on=": ggeur run --resume")
    rows = {row.settings["arm"]: row for row in result.rows()}
    say("\n" + "\n".join(results_table(rows)) + "\n")
    say(explain(rows))
    from ggeur.report.page import write_report

    for row in rows.values():
        event("row", settings=row.settings, domains=row.domains, avg=row.avg, spread=row.spread)
    say("\n" + "\n".join(next_steps(write_report([folder], folder / "report.html"))), soft_wrap=True)


def experiment(rounds: int, seeds: int, *, everything: bool = False) -> "Experiment":
    """Return the four arms of the demo as an experiment, or all that the file has."""
    from ggeur.experiments.grid import Experiment

    whole = Experiment.load(EXPERIMENT, [f"train.rounds={rounds}", f"run.seeds={list(range(seeds))}"])
    if everything:
        return whole
    arms: Any = whole.tree["arm"]
    return Experiment.of(whole.tree | {"arm": [arm for arm in arms if arm["name"] in ARMS]})


def results_table(rows: "dict[str, Row]") -> list[str]:
    """Return a line per arm: accuracy with its spread, a bar, and the site on which it is worst."""
    full, half = ("#", "") if console.options.ascii_only else ("█", "▌")
    plus = "+-" if console.options.ascii_only else "±"
    lines = [f"{'test accuracy, %':<{22 + 12}}{'':<{_BAR}} worst site"]
    for name, row in rows.items():
        if row.avg is None:
            lines.append(f"{name:<22}did not finish")
            continue
        length = row.avg / 100 * _BAR
        bar = full * int(length) + (half if length % 1 >= 0.5 else "")
        spread = "" if row.spread is None else f" {plus} {row.spread:.1f}"
        worst, site = min((accuracy, site) for site, accuracy in row.domains.items())
        lines.append(f"{name:<22}{f'{row.avg:.1f}{spread}':<12}{bar:<{_BAR}} {worst:.1f} {site}")
    seeds = max(len(row.trials) for row in rows.values())
    of = f", mean {plus} standard deviation over {seeds} seeds" if seeds > 1 else ", one seed"
    return [*lines, f"(mean over the sites' test sets{of})"]


def explain(rows: "dict[str, Row]") -> str:
    """Return two sentences: what the four arms show, and which of their differences may be chance."""
    four = [rows[name] for name in ARMS]
    accuracies = [row.avg for row in four if row.avg is not None]
    if len(accuracies) < len(four):
        return "Some arms did not finish, so there is nothing to compare."
    plain, means, ggeur, one_shot = accuracies
    solver = Counter(trial.taken for trial in rows[ONE_SHOT].trials).most_common(1)[0][0]
    return (
        f"Over FedAvg, GGEUR gains {ggeur - plain:+.1f} points and sharing class means alone {means - plain:+.1f}; "
        f"the classifier computed from statistics ({solver}), without rounds, gains {one_shot - plain:+.1f}. "
        + _noise(four)
    )


def _noise(rows: "list[Row]") -> str:
    """Return which steps from arm to arm have a paired 95 % interval (Bonferroni) that contains zero."""
    from ggeur.experiments.result import paired_difference

    seeds = len(rows[0].trials)
    if seeds < 2:
        return "With one seed no difference can be told from chance."
    names = ("FedAvg", "class means", "GGEUR", "one-shot")
    steps = [paired_difference(b, a, comparisons=3) for a, b in pairwise(rows)]
    named = [(f"{b} over {a} ({step.mean:+.1f})", step) for (a, b), step in zip(pairwise(names), steps, strict=True)]
    unclear = [name for name, step in named if step.low <= 0 <= step.high]
    if not unclear:
        return f"All three steps are clear of the noise of {seeds} seeds (95 %)."
    return f"Within the noise of {seeds} seeds (95 %): {', '.join(unclear)}."


def next_steps(page: Path) -> list[str]:
    """Return the next commands: activate the environment if needed, read the report, fit the user's sites."""
    activate = Path(sys.prefix) / "bin" / "activate"
    hidden = sys.prefix != sys.base_prefix and activate.exists() and not _on_path(activate.parent)
    steps = [(f"source {_relative(activate)}", "make the command ggeur available")] if hidden else []
    steps += [(_relative(page), "the same with figures, in a browser")]
    steps += [("ggeur fit SITE SITE ... --out model", "your sites: folders of images by class")]
    width = max(len(step) for step, _ in steps)
    lines = [f"  {step:<{width}}  # {about}" for step, about in steps]
    if max(map(len, lines)) > _WIDTH:  # long paths: keep commands on one line
        lines = [f"  {step}" for step, _ in steps]
    return ["Next:", *lines]


def _on_path(folder: Path) -> bool:
    parts = os.environ.get("PATH", "").split(os.pathsep)
    return any(part and Path(part).resolve() == folder.resolve() for part in parts)


def _relative(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
