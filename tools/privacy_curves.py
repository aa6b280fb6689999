"""Accuracy against epsilon: docs/results/privacy.csv, and from it a figure and a table of docs/leakage.md.

    python tools/privacy_curves.py --data TABLE.npz     # measure every trial of examples/privacy.toml, then draw
    python tools/privacy_curves.py                      # draw what is measured

The numbers are those of `ggeur run examples/privacy.toml`, in a tenth of the time: noise adds up, and a client's draws
hang on seed and client alone, so that a total under any epsilon is the exact one plus a multiple of one and the same.
"""

import argparse
import csv
import itertools
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ggeur.experiments.settings import settings
from ggeur.experiments.setup import Setup
from ggeur.experiments.trial_data import TrialData, chosen_by_rule, task_of
from ggeur.federation.evaluation import mean_accuracy
from ggeur.federation.start import one_shot_head
from ggeur.federation.summary import ALL, repaired_total
from ggeur.methods.algorithm import ClosedForm, Selection
from ggeur.stats.site_statistics import FederationStatistics, SiteStatistics

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE, RESULTS = ROOT / "examples" / "privacy.toml", ROOT / "docs" / "results" / "privacy.csv"
PAGE, FIGURE = ROOT / "docs" / "leakage.md", ROOT / "docs" / "figures" / "epsilon.svg"
BEGIN, END = "<!-- from results/privacy.csv -->\n", "<!-- so far -->"
SHOWN = (
    "means: ncm",
    "pooled: ridge",
    "per class: ggeur-limit",
)  # in the table; all are drawn
WAYS = {True: "secure aggregation", False: "each client adds its own noise"}


class Point(NamedTuple):
    """A trial of the figure; an epsilon of None is no noise."""

    clients: int
    secure: bool
    arm: str
    epsilon: float | None
    seed: int


class Measured:
    """The trials of an experiment, of which exact totals and noise are made once."""

    def __init__(self, tree: Mapping[str, Any]) -> None:
        self._tree, self._dealer = tree, TrialData()
        self._arms = {arm["name"]: {k: v for k, v in arm.items() if k != "name"} for arm in tree["arm"]}
        self._made: dict[Any, tuple[FederationStatistics, SiteStatistics]] = {}

    def points(self) -> Iterator[Point]:
        """All of them; without noise it does not matter who adds it, and `auto` has nothing to go by."""
        t = self._tree
        for clients, seed in itertools.product(t["partition"]["clients"], t["run"]["seeds"]):
            self._made.clear()
            for arm in self._arms:
                if arm != "auto":
                    yield Point(clients, True, arm, None, seed)
                for secure, epsilon in itertools.product(t["privacy"]["secure_aggregation"], t["privacy"]["epsilon"]):
                    yield Point(clients, secure, arm, epsilon, seed)

    def _setup(self, at: Point) -> Setup:
        privacy = self._tree["privacy"] | {"epsilon": at.epsilon, "secure_aggregation": at.secure}
        if at.epsilon is None:
            privacy = {"radius": privacy["radius"]}
        tree = {k: v for k, v in self._tree.items() if k != "arm"} | {"privacy": privacy}
        tree["partition"] = tree["partition"] | {"clients": at.clients}
        for section, own in self._arms[at.arm].items():
            tree[section] = tree.get(section, {}) | own
        return Setup.of(settings(tree))

    def accuracy(self, at: Point) -> float:
        """Percent right."""
        setup, trial_data = self._setup(at), self._dealer
        (table, _), name, solved = trial_data.samples(setup, at.seed), setup.settings.train.method, setup.algorithm
        if isinstance(solved, Selection):
            taken = solved.candidates[chosen_by_rule(setup, table.n_classes, at.clients).taken]
            name, solved = taken.name, taken.solved
        assert isinstance(solved, ClosedForm)
        params = one_shot_head(solved, name, self._total(setup, solved, at), task_of(table), at.seed)
        return float(mean_accuracy(trial_data.test_set(setup, at.seed).accuracy(params)) or 0.0)

    def _total(self, setup: Setup, solved: ClosedForm, at: Point) -> FederationStatistics:
        domain = ALL if solved.apart is None else 0  # the table has one
        key = setup.settings.privacy.ball, solved.needs, domain
        release = setup.release
        if key not in self._made:
            self._made[key] = self._exact_and_unit(setup, solved, at, domain)
        exact, unit = self._made[key]
        if release.exact:
            return exact
        size = release.noise(solved.needs, at.clients).count
        noisy = replace(
            unit,
            count=exact.count + size * unit.count,
            sum=exact.sum + size * unit.sum,
            second=exact.second + size * unit.second,
        )
        return repaired_total(release, [(domain, noisy)], {domain: at.clients}, solved.apart, solved.repair)

    def _exact_and_unit(
        self, setup: Setup, solved: ClosedForm, at: Point, domain: int
    ) -> tuple[FederationStatistics, SiteStatistics]:
        """The total without noise, and what all clients' noise comes to, for a deviation of one in a count."""
        clients = self._dealer.clients(setup, at.seed)
        exact = clients.statistics(solved.query)
        release = self._setup(at._replace(epsilon=1.0, secure=False)).release.simulated(at.seed)
        assert not exact.center.any()
        zeros = (np.zeros_like(part) for part in (exact.count, exact.sum, exact.second))
        nothing = SiteStatistics(*zeros, exact.center)
        noise = SiteStatistics.merge(release.apply(nothing, at.clients, k, domain) for k in range(at.clients))
        size = release.noise(solved.needs, at.clients).count
        return exact, replace(noise, count=noise.count / size, sum=noise.sum / size, second=noise.second / size)


def measure(table: Path) -> None:
    """Every point, written as soon as it is known; a file that is there is gone on with."""
    tree = tomllib.loads(EXAMPLE.read_text(encoding="utf-8")) | {"data": {"table": str(table)}}
    RESULTS.parent.mkdir(exist_ok=True)
    known = measured() if RESULTS.exists() else {}
    found = Measured(tree)
    with RESULTS.open("a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if not known:
            writer.writerow([*Point._fields, "accuracy"])
        for at in found.points():
            if at not in known:
                writer.writerow(["" if v is None else v for v in at] + [f"{found.accuracy(at):.3f}"])
                file.flush()


def measured() -> dict[Point, float]:
    """What the file holds."""
    with RESULTS.open(encoding="utf-8", newline="") as file:
        return {
            Point(
                int(r["clients"]),
                r["secure"] == "True",
                r["arm"],
                float(r["epsilon"]) if r["epsilon"] else None,
                int(r["seed"]),
            ): float(r["accuracy"])
            for r in csv.DictReader(file)
        }


class Curves(NamedTuple):
    """Means and deviations over seeds."""

    found: dict[tuple[int, bool, str, float | None], list[float]]

    @classmethod
    def of(cls, known: Mapping[Point, float]) -> "Curves":
        found: dict[tuple[int, bool, str, float | None], list[float]] = {}
        for at, accuracy in known.items():
            found.setdefault(at[:4], []).append(accuracy)
        return cls(found)

    def values(self, place: int) -> list[Any]:
        """What there is of one of clients, ways, arms and epsilons, in order of appearance."""
        return list(dict.fromkeys(key[place] for key in self.found if key[place] is not None))

    def shown(self, *key: Any) -> str:
        """The mean, and the deviation over seeds."""
        several = self.found.get(key)
        return "" if several is None else f"{np.mean(several):.2f} ± {np.std(several, ddof=1):.2f}"

    def table(self) -> str:
        """Markdown: a row for every way and head, a column for every epsilon."""
        budgets = self.values(3)
        lines = ["| clients | noise | statistics: head | " + " | ".join(f"{e:g}" for e in budgets) + " | none |"]
        lines.append("|---" * (len(budgets) + 4) + "|")
        for clients, secure, arm in itertools.product(self.values(0), WAYS, SHOWN):
            trials = [self.shown(clients, secure, arm, e) for e in budgets] + [self.shown(clients, True, arm, None)]
            lines.append(f"| {clients} | {WAYS[secure]} | {arm} | {' | '.join(trials)} |")
        return "\n".join(lines) + "\n"

    def draw(self, path: Path) -> None:
        """Four panels: few and many clients, secure aggregation or not."""
        import matplotlib.pyplot as plt

        budgets, many = self.values(3), self.values(0)
        plt.rcParams.update({"svg.hashsalt": "ggeur", "font.size": 9})
        figure, axes = plt.subplots(len(many), 2, figsize=(9, 7), sharex=True, sharey=True, layout="constrained")
        for (i, clients), (j, secure) in itertools.product(enumerate(many), enumerate(WAYS)):
            axis = axes[i][j]
            for number, arm in enumerate(self.values(2)):
                mean = [np.mean(self.found[clients, secure, arm, e]) for e in budgets]
                style: dict[str, Any] = {"color": f"C{number}", "marker": "o", "markersize": 3}
                if arm == "auto":
                    style = {"color": "black", "linestyle": ":", "linewidth": 2}
                else:
                    clean = np.mean(self.found[clients, True, arm, None])
                    axis.plot([budgets[-1] * 2], [clean], color=f"C{number}", marker="o", markersize=5)
                axis.plot(budgets, mean, label=arm, **style)
            axis.set(xscale="log", title=f"{clients} clients, {WAYS[secure]}", ylim=(84, 95))
            axis.set_xticks([*budgets, budgets[-1] * 2], [*(f"{e:g}" for e in budgets), "none"])
            axis.minorticks_off()
            axis.grid(alpha=0.3)
        for axis in axes[-1]:
            axis.set_xlabel("epsilon (delta 1e-5, one record more or less)")
        for row in axes:
            row[0].set_ylabel("accuracy, %")
        axes[0][1].legend(fontsize=8, loc="lower right")
        path.parent.mkdir(exist_ok=True)
        figure.savefig(path, metadata={"Date": None})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="TABLE", help="embeddings of CIFAR-10, to measure on")
    given = parser.parse_args()
    if given.data is not None:
        measure(given.data)
    curves = Curves.of(measured())
    curves.draw(FIGURE)
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(before + BEGIN + curves.table() + rest[rest.index(END) :], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
