"""Accuracy against epsilon, as a figure and a table of docs/privacy.md, from runs of examples/privacy.toml.

    python tools/privacy_figure.py TABLE.npz [--runs runs/privacy]

A run with noise and one without, which finished ones are read from; begun ones are gone on with.
"""

import argparse
import sys
import tomllib
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

import ggeur
from ggeur.cli.screen import progress
from ggeur.runs.result import Row

ROOT = Path(__file__).resolve().parents[1]
PAGE, FIGURE = ROOT / "docs" / "privacy.md", ROOT / "docs" / "figures" / "epsilon.svg"
BEGIN, END = "<!-- table: epsilon -->\n", "<!-- end -->"
WAYS = {True: "secure sums", False: "noise at every client"}


def run(tree: dict[str, Any], out: Path) -> list[Row]:
    """The rows of an experiment, read from `out` if they are there."""
    experiment = ggeur.Experiment.of(tree)
    with progress(experiment, out) as on_round:
        return ggeur.run(experiment, out=out, resume=out.exists(), on_round=on_round).rows()


def without_noise(tree: dict[str, Any]) -> dict[str, Any]:
    """The same rows in the same ball, and nothing else of [privacy]; what needs epsilon is left out."""
    privacy = {"radius": tree["privacy"]["radius"]}
    arms = [arm for arm in tree["arm"] if arm["train"]["method"] != "auto"]
    return {**tree, "privacy": privacy, "arm": arms, "partition": {**tree["partition"], "clients": 10}}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path, help="embeddings of CIFAR-10")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "privacy")
    given = parser.parse_args()
    tree = tomllib.loads((ROOT / "examples" / "privacy.toml").read_text(encoding="utf-8"))
    tree["data"] = {"table": str(given.table)}
    given.runs.mkdir(parents=True, exist_ok=True)
    clean = {row.settings["arm"]: row for row in run(without_noise(tree), given.runs / "none")}
    noisy = run(tree, given.runs / "noise")
    found = {
        (
            r.settings["partition.clients"],
            r.settings["privacy.secure_sum"],
            r.settings["arm"],
            r.settings["privacy.epsilon"],
        ): r
        for r in noisy
    }
    arms, budgets = [arm["name"] for arm in tree["arm"]], tree["privacy"]["epsilon"]
    draw(found, clean, arms, budgets)
    page = PAGE.read_text(encoding="utf-8")
    head, _, rest = page.partition(BEGIN)
    tail = rest[rest.index(END) :]
    PAGE.write_text(head + BEGIN + table(found, clean, arms, budgets) + tail, encoding="utf-8")
    return 0


def table(found: dict[Any, Row], clean: dict[str, Row], arms: list[str], budgets: list[float]) -> str:
    """Markdown: a row for every way and head, a column for every epsilon."""
    lines = ["| clients | noise | statistics: head | " + " | ".join(f"{e:g}" for e in budgets) + " | none |"]
    lines.append("|---" * (len(budgets) + 4) + "|")
    for clients in sorted({key[0] for key in found}):
        for secure, way in WAYS.items():
            for arm in arms:
                cells = [shown(found.get((clients, secure, arm, e))) for e in budgets]
                lines.append(f"| {clients} | {way} | {arm} | " + " | ".join([*cells, shown(clean.get(arm))]) + " |")
    return "\n".join(lines) + "\n"


def shown(row: Row | None) -> str:
    return "" if row is None or row.avg is None else f"{row.avg:.2f} ± {row.spread or 0:.2f}"


def draw(found: dict[Any, Row], clean: dict[str, Row], arms: list[str], budgets: list[float]) -> None:
    """Four panels: few and many clients, secure sums or not."""
    clients = sorted({key[0] for key in found})
    figure, axes = plt.subplots(len(clients), 2, figsize=(9, 7), sharex=True, sharey=True, layout="constrained")
    for i, many in enumerate(clients):
        for j, (secure, way) in enumerate(WAYS.items()):
            axis = axes[i][j]
            for number, arm in enumerate(arms):
                rows = [found.get((many, secure, arm, e)) for e in budgets]
                mean = [float("nan") if r is None or r.avg is None else r.avg for r in rows]
                style: dict[str, Any] = (
                    {"color": "black", "linestyle": ":"} if arm == "auto" else {"color": f"C{number}"}
                )
                axis.plot(budgets, mean, marker="o", markersize=3, label=arm, **style)
                if arm in clean and clean[arm].avg is not None:
                    axis.axhline(clean[arm].avg or 0, color=f"C{number}", linewidth=0.5, alpha=0.5)
            axis.set(xscale="log", title=f"{many} clients, {way}", ylim=(80, 95.5))
            axis.set_xticks(budgets, [f"{e:g}" for e in budgets])
            axis.minorticks_off()
    for axis in axes[-1]:
        axis.set_xlabel("epsilon (delta 1e-5, one record)")
    for row in axes:
        row[0].set_ylabel("accuracy, %")
    axes[0][1].legend(fontsize=7, loc="lower right")
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, metadata={"Date": None})


if __name__ == "__main__":
    sys.exit(main())
