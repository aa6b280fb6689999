"""The pictures of docs/concepts.md, drawn by ggeur's own functions on points in the plane.

python tools/concept_figures.py
"""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Ellipse
from sklearn.linear_model import LogisticRegression

import ggeur

ROOT = Path(__file__).resolve().parents[1]
FIGURES, STYLE = ROOT / "docs" / "figures", ROOT / "src" / "ggeur" / "report" / "figures.mplstyle"
SITES = ("tab:blue", "tab:orange", "tab:green")


def ellipse(axis: Axes, mean: Any, covariance: Any, **look: Any) -> None:
    """Two standard deviations."""
    values, vectors = np.linalg.eigh(covariance)
    angle = np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1]))
    width, height = 4 * np.sqrt(np.maximum(values[::-1], 0))
    axis.add_patch(Ellipse(mean, width, height, angle=angle, fill=False, **look))


def tidy(axes: Any) -> None:
    for axis in axes:
        axis.set(aspect="equal", xticks=[], yticks=[])


def a_class(rng: np.random.Generator) -> tuple[Any, list[Any]]:
    """Rows of one class, long in one direction, and who of three sites holds which: each a stretch of it."""
    x = rng.normal(size=(240, 2)) * [2.2, 0.6] @ [[0.87, 0.5], [-0.5, 0.87]]
    order = np.argsort(x[:, 0] + rng.normal(scale=0.9, size=240))
    return x, np.array_split(order, [60, 170])


def shape() -> None:
    x, parts = a_class(np.random.default_rng(3))
    sums = [ggeur.ClassStatistics.from_embeddings(x[rows], np.zeros(len(rows), int), 1) for rows in parts]
    total = sums[0] + sums[1] + sums[2]
    found = ggeur.Geometry.from_statistics(total)
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), sharex=True, sharey=True, layout="constrained")
    for k, (rows, one) in enumerate(zip(parts, sums, strict=True)):
        left.scatter(*x[rows].T, s=7, color=SITES[k], alpha=0.7)
        right.scatter(*x[rows].T, s=7, color=SITES[k], alpha=0.25)
        ellipse(left, one.mean[0], one.covariance[0], color=SITES[k], lw=1.5, label=f"site {k + 1}, n = {len(rows)}")
    ellipse(right, total.mean[0], total.covariance[0], color="black", lw=1.5)
    for m in range(2):
        step = np.sqrt(found.eigenvalues[0, m]) * found.eigenvectors[0, :, m]
        step *= np.sign(step[1])
        right.annotate("", total.mean[0] + step, total.mean[0], arrowprops={"arrowstyle": "->", "lw": 1.8})
        right.annotate(rf"$\sqrt{{\lambda_{m + 1}}}\,\xi_{m + 1}$", total.mean[0] + step + [-0.6, 0.25])
    left.set_title("what each site sees")
    left.legend(fontsize=7, loc="upper left")
    right.set_title("what their sums tell")
    tidy((left, right))
    save(figure, "shape")


def steps() -> None:
    rng = np.random.default_rng(3)
    x, _ = a_class(rng)
    zero = np.zeros(len(x), int)
    found = ggeur.Geometry.from_statistics(ggeur.ClassStatistics.from_embeddings(x, zero, 1))
    own = x[np.flatnonzero(x[:, 0] < -0.5)[[1, 8, 15, 20, 33]]]
    other = np.array([[[3.0, -2.6]]])  # (domains, classes, dimensions)
    label = np.zeros(len(own), int)
    first, _ = ggeur.augment(own, label, found, target=120, seed=0)
    both, _ = ggeur.augment(own, label, found, target=120, prototypes=other, per_prototype=120, seed=0)
    figure, axes = plt.subplots(1, 3, figsize=(9, 2.9), sharex=True, sharey=True, layout="constrained")
    axes[1].scatter(*first[len(own) :].T, s=5, color="tab:purple", alpha=0.45)
    axes[2].scatter(*first[len(own) :].T, s=5, color="tab:purple", alpha=0.2)
    axes[2].scatter(*both[len(first) :].T, s=5, color="tab:red", alpha=0.45)
    axes[2].scatter(*other[0].T, s=60, marker="*", color="black", label="mean of another domain")
    titles = ("a site's own rows", "step 1: draws around them", "step 2: and around others")
    for axis, title in zip(axes, titles, strict=True):
        axis.scatter(*own.T, s=22, color="tab:blue", edgecolor="black", lw=0.6, label="own rows")
        axis.set_title(title)
    axes[2].legend(fontsize=7, loc="upper right")
    tidy(axes)
    save(figure, "steps")


def limit() -> None:
    rng = np.random.default_rng(5)
    y = np.repeat([0, 1], 150)
    mean = np.array([[-1.2, -0.4], [1.2, 0.5]])
    factor = np.array([[[1.1, 0.0], [0.7, 0.35]], [[0.5, 0.0], [-0.3, 0.9]]])
    x = mean[y] + np.einsum("nij,nj->ni", factor[y], rng.normal(size=(300, 2)))
    statistics = ggeur.ClassStatistics.from_embeddings(x, y, 2)
    found = ggeur.Geometry.from_statistics(statistics)
    figure, axes = plt.subplots(1, 3, figsize=(9, 3), sharex=True, sharey=True, layout="constrained")
    for axis, draws in zip(axes, (20, 2000), strict=False):
        for seed in range(12):
            drawn, label = ggeur.augment(statistics.mean, [0, 1], found, target=draws, seed=seed)
            line(axis, *weights(LogisticRegression(C=100.0).fit(drawn, label)), color="tab:purple", lw=0.8, alpha=0.7)
        axis.set_title(f"12 heads, {draws:,} draws a class each")
    head = ggeur.fit([(x, y)], method="ggeur-limit")
    w, b = np.asarray(head.params_["W"]), np.asarray(head.params_["b"])
    line(axes[2], w[1] - w[0], b[1] - b[0], color="black", lw=1.8)
    axes[2].set_title("limit: no draws")
    for axis in axes:
        for c, colour in enumerate(SITES[:2]):
            axis.scatter(*x[y == c].T, s=4, color=colour, alpha=0.25)
            ellipse(axis, statistics.mean[c], statistics.covariance[c], color=colour, lw=1.5)
        axis.set(xlim=(-4.5, 4.5), ylim=(-3, 3))
    tidy(axes)
    save(figure, "ggeur-limit")


def weights(head: LogisticRegression) -> tuple[Any, float]:
    return head.coef_[0], float(head.intercept_[0])


def line(axis: Axes, w: Any, b: float, **look: Any) -> None:
    """Where two classes score alike: w'x + b = 0."""
    near = -b * w / (w @ w)
    axis.axline(near, near + np.array([-w[1], w[0]]), **look)


def save(figure: Any, name: str) -> None:
    FIGURES.mkdir(exist_ok=True)
    figure.savefig(FIGURES / f"{name}.svg", metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    with plt.style.context([str(STYLE), {"svg.fonttype": "path"}]):  # a formula's letters lie in fonts of their own
        shape()
        steps()
        limit()
