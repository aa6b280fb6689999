"""Draw the chart of the README from the tables of the page on one-shot classifiers, so that no figure is typed.

    python tools/readme_chart.py

A row is a federation: accuracy of FedAvg, of GGEUR's rounds, of training on pooled samples, and of the one-shot
classifier that `auto` selected. The bar of a marker is the standard deviation over seeds.
"""

import re
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[1]
PAGE, FIGURE = ROOT / "docs" / "one-shot-results.md", ROOT / "docs" / "figures" / "one-shot.svg"
STYLE = ROOT / "src" / "ggeur" / "report" / "figures.mplstyle"
# (table, column, name in the legend, colour, marker, size): colours that are readable on light and on dark
SERIES = (
    ("trained", "FedAvg", "FedAvg, 50 rounds", "#8a8f98", "o", 6),
    ("trained", "GGEUR", "GGEUR, 50 rounds", "#2f81c7", "s", 6),
    ("trained", "central (a bound)", "pooled data", "#8a8f98", "|", 13),
    ("solved", "auto", "one-shot (auto)", "#d9622b", "D", 7),
)
INK = "#7d858f"  # of words and lines, on either background


class Cell(NamedTuple):
    """An accuracy in percent, and its standard deviation over seeds (0 with one seed)."""

    mean: float
    deviation: float


def table(page: str, name: str) -> dict[str, dict[str, Cell]]:
    """Return the table of that name: accuracy by federation and column."""
    found = re.search(rf"<!-- table: {re.escape(name)} -->\n(.*?)<!-- end -->", page, re.S)
    if found is None:
        raise SystemExit(f"{PAGE} has no table '{name}'.")
    title, _, *lines = [[word.strip() for word in line[1:-1].split("|")] for line in found[1].splitlines()]
    return {line[0]: dict(zip(title[1:], map(_cell, line[1:]), strict=True)) for line in lines}


def _cell(text: str) -> Cell:
    mean, _, deviation = text.partition(" ± ")
    return Cell(float(mean), float(deviation or 0.0))


def draw(page: str) -> Figure:
    """Return the chart of the tables in the text of `page`."""
    tables = {name: table(page, name) for name in {series[0] for series in SERIES}}
    federations = list(tables["solved"])
    with mpl.rc_context(fname=STYLE):
        figure = Figure(figsize=(8.2, 0.34 * len(federations) + 1.0), layout="constrained")
        ax = figure.subplots()
        for which, column, name, colour, marker, size in SERIES:
            cells = [tables[which][federation][column] for federation in federations]
            ax.errorbar(
                [cell.mean for cell in cells],
                range(len(federations)),
                xerr=[cell.deviation for cell in cells],
                fmt=marker,
                color=colour,
                markersize=size,
                elinewidth=0.9 if marker != "|" else 0,
                markeredgewidth=2 if marker == "|" else 0,
                label=name,
                zorder=3 if marker == "D" else 2,
            )
        ax.set_yticks(range(len(federations)), federations)
        ax.invert_yaxis()
        ax.set_xlabel("accuracy on test samples, percent (mean over domains)")
        ax.grid(axis="x", color=INK, alpha=0.25)
        ax.grid(axis="y", color=INK, alpha=0.12)
        ax.spines[:].set_visible(False)
        ax.tick_params(colors=INK, length=0)
        ax.xaxis.label.set_color(INK)
        figure.legend(loc="outside upper center", ncols=4, labelcolor=INK, frameon=False)
    return figure


def main() -> None:
    """Write the chart."""
    with mpl.rc_context({"svg.hashsalt": "ggeur", "svg.fonttype": "path"}):
        draw(PAGE.read_text(encoding="utf-8")).savefig(FIGURE, transparent=True, metadata={"Date": None})
    print(f"{FIGURE.relative_to(ROOT)} is drawn from {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
