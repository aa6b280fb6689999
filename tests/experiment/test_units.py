"""Accuracy does not depend on the embedding's units, nor on how far from zero its rows lie."""

import numpy as np
import pytest

import ggeur
from ggeur.data.table import EmbeddingTable
from ggeur.methods import names
from ggeur.methods.algorithm import Solved
from ggeur.runs.model import Model

FAR = 1e4  # spreads
MOVES = {
    "small": lambda x, spread: 1e-6 * x,
    "large": lambda x, spread: 1e6 * x,
    "far": lambda x, spread: x + FAR * spread,
}


@pytest.fixture(scope="session")
def digits(shared):
    """Every fifth row of the four domains of digits."""
    with np.load(shared / "data/embeddings/digits.tinyvit.npz") as file:
        few = {name: file[name][::5] for name in ("x", "y", "domain", "test")}
    return EmbeddingTable(**{**few, "x": few["x"].astype(np.float32), "domain": few["domain"].astype(int)})


def moved(table, how):
    """The table's rows, moved and rounded to float32, and the same rounded rows as they would lie near zero."""
    x = table.x.astype(np.float64)
    spread = np.sqrt(x.var(axis=0).mean())
    rows = MOVES[how](x, spread).astype(np.float32).astype(np.float64)
    back = rows - rows.mean(axis=0)
    kept = {name: getattr(table, name) for name in ("y", "domain", "test", "class_names", "domain_names")}
    return [EmbeddingTable(x=z.astype(np.float32), **kept) for z in (rows, back * spread / np.sqrt((back**2).mean()))]


def accuracy(table, folder, train, **sections):
    """AVG of every cell of a run, and of its model on the raw test rows."""
    folder.mkdir()
    table.save(folder / "t.npz")
    tree = {"partition": {"kind": "domain"}, "augment": {"kind": "none"}, "train": train} | sections
    tree["data"] = {"table": str(folder / "t.npz")} | tree.get("data", {})
    cells = ggeur.run(ggeur.Experiment.of(tree), out=folder / "run").cells
    split = table.split(0)
    tested = split.subset(split.test)
    of_models = []
    for i in range(len(cells)):
        model = Model.load(folder / "run" / "model" / f"cell-{i:03d}")
        right = model.probabilities(tested).argmax(axis=1) == tested.y
        of_models.append(np.mean([100 * right[tested.domains == d].mean() for d in range(split.n_domains)]))
    return [cell.avg for cell in cells], of_models


def keeps(table, folder, how, train, **sections):
    """Hold a run on moved rows to the same on rows near zero, to 0.05 points; the accuracies near zero."""
    far, near = (
        accuracy(t, folder / name, train, **sections)
        for name, t in zip(("far", "near"), moved(table, how), strict=True)
    )
    assert far[0] == pytest.approx(near[0], abs=0.05)
    return far, near


@pytest.mark.parametrize("how", MOVES)
def test_a_solved_head_is_as_good_wherever_the_rows_lie(table, tmp_path, how):
    few = {"method": {"ccvr": {"draws": 100}}}
    far, _ = keeps(table, tmp_path, how, {"method": list(names(Solved))}, **few)
    assert far[1] == pytest.approx(far[0], abs=1e-9), "the model on raw rows"


@pytest.mark.real
@pytest.mark.parametrize("how", MOVES)
def test_a_solved_head_keeps_its_accuracy_on_real_embeddings(digits, tmp_path, how):
    far, near = keeps(digits, tmp_path, how, {"method": list(names(Solved))})
    assert min(near[0]) > 30 and far[1] == pytest.approx(far[0], abs=1e-9)
