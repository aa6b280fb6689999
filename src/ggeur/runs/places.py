"""Where a model lies: in a folder of its own, as a cell of a run, or exported; and why that one."""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ggeur.core.errors import GgeurError
from ggeur.core.validate import check_is
from ggeur.runs.result import Result

CONFIG, WEIGHTS = "config.json", "model.safetensors"  # of a model that was exported, as the hub wants them named
BASIS = "ball/basis"  # beside the head's numbers: a projection, for programs that cannot draw it as we do
FOR_OTHERS = (
    "model_type",
    "library_name",
    "id2label",
    "label2id",
    "version",
    "colours",
)  # what it says that we do not need
_INSIDE = ("head.npz", "model.json", "card.md", CONFIG, WEIGHTS)


class Place(NamedTuple):
    """The folder of a model; of a run, which of its heads it is and why."""

    folder: Path
    why: str = ""


def model_folder(path: str | os.PathLike[str], cell: int | str = "last") -> Place:
    """Where the model at `path` lies: there, or in a run folder that of its `cell` (a number, an arm, or "last")."""
    folder = Path(path)
    cell = int(cell) if isinstance(cell, np.integer) else cell
    check_is("cell", cell, int | str, "a cell's number, an arm's name, or last")
    if folder.is_file():
        inside = folder.name in _INSIDE and folder.parent
        advice = f"name the folder {inside}" if inside else "name a folder"
        raise GgeurError(f"{folder} is a file, and a model is a folder: {advice}.")
    if (folder / "result.json").exists():
        return _of_cell(folder, cell)
    if cell != "last" and folder.is_dir():
        raise GgeurError(f"{folder} is a model and not a run, so it has no cell {cell!r}: leave --cell out.")
    return Place(folder)


def _of_cell(run: Path, cell: int | str) -> Place:
    """That of a cell; the bound `local` and cells that did not finish have none."""
    cells = list(enumerate(Result.load(run).cells))
    if isinstance(cell, int):
        numbers = [number for number, _ in cells if number == cell]
    else:
        numbers = [number for number, one in cells if cell in ("last", one.settings.get("arm"))]
    there = [n for n in numbers if (run / "model" / f"cell-{n:03d}").is_dir()]
    if not there:
        arms = ", ".join(dict.fromkeys(str(one.settings["arm"]) for _, one in cells if "arm" in one.settings))
        known = f"cells 0 to {len(cells) - 1}" + (f" and the arms {arms}" if arms else "")
        raise GgeurError(f"There is no trained model of the cell {cell!r} in {run}, which has {known}.")
    number = there[-1]
    one = cells[number][1]
    arm = f", arm {one.settings['arm']}" if "arm" in one.settings else ""
    why = "as asked" if isinstance(cell, int) else "the last that has one" + ("" if cell == "last" else f" of {cell}")
    none = "" if isinstance(cell, int) else "; none is chosen by its test rows, --cell names another"
    return Place(
        run / "model" / f"cell-{number:03d}",
        f"Head of cell {number} of {len(cells)} ({one.method}, augmentation {one.augment}, seed {one.seed}{arm}): "
        f"{why}{none}.",
    )


def is_export(folder: Path) -> bool:
    """Whether a model was exported to it: for the hub, or for torch."""
    return (folder / CONFIG).is_file() and (folder / WEIGHTS).is_file()


def read_config(folder: Path) -> dict[str, Any]:
    """What an exported model says of itself, as model.json has it; ValueError where that cannot be."""
    about = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    if not isinstance(about, dict) or about.get("model_type") != "ggeur":
        raise ValueError("it does not describe a model of ggeur")
    return {key: value for key, value in about.items() if key not in FOR_OTHERS}


def read_weights(folder: Path) -> dict[str, NDArray[Any]]:
    """The numbers of an exported head, by name."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        arrays: dict[str, NDArray[Any]] = load_file(folder / WEIGHTS)
    except (OSError, ValueError, SafetensorError) as error:
        raise GgeurError(f"{folder / WEIGHTS} is damaged: {error}.") from error
    return {name: array for name, array in arrays.items() if name != BASIS}
