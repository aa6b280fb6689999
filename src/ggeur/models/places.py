"""Find a model: in its own folder, as a trial of a run, or exported; and say why that one."""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ggeur.stats.custom import one_line
from ggeur.stats.errors import GgeurError
from ggeur.stats.old_names import FILES, record_of_before
from ggeur.stats.storage import unsealed
from ggeur.stats.validate import check_is

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
    """The folder of a model, and for a run which of its heads it is and why."""

    folder: Path
    why: str = ""


def model_folder(path: str | os.PathLike[str], trial: int | str = "last") -> Place:
    """Return where the model at `path` is: there, or in a run folder by `trial` (a number, an arm, or "last")."""
    folder = Path(path)
    trial = int(trial) if isinstance(trial, np.integer) else trial
    check_is("trial", trial, int | str, "a trial's number, an arm's name, or last")
    if folder.is_file():
        inside = folder.name in _INSIDE and folder.parent
        advice = f"name the folder {inside}" if inside else "name a folder"
        raise GgeurError(f"{folder} is a file, and a model is a folder: {advice}.", code="folder-is-file")
    if (folder / "result.json").exists():
        return _of_trial(folder, trial)
    if trial != "last" and folder.is_dir():
        raise GgeurError(
            f"{folder} is a model and not a run, so it has no trial {trial!r}: leave --trial out.",
            code="option-trial-without-run",
        )
    return Place(folder)


def _of_trial(run: Path, trial: int | str) -> Place:
    """Return the place of a trial's model; the bound `local` and unfinished trials have none."""
    trials = list(enumerate(_trials(run)))
    if isinstance(trial, int):
        numbers = [number for number, _ in trials if number == trial]
    else:
        numbers = [number for number, one in trials if trial in ("last", one["settings"].get("arm"))]
    there = [n for n in numbers if trial_folder(run, n).is_dir()]
    if not there:
        arms = ", ".join(dict.fromkeys(str(one["settings"]["arm"]) for _, one in trials if "arm" in one["settings"]))
        known = f"trials 0 to {len(trials) - 1}" + (f" and the arms {arms}" if arms else "")
        raise GgeurError(
            f"There is no trained model of the trial {trial!r} in {run}, which has {known}.", code="model-trial-missing"
        )
    number = there[-1]
    one = trials[number][1]
    what = f"{one['method']}, augmentation {one['augment']}, seed {one['seed']}"
    what += f", arm {one['settings']['arm']}" if "arm" in one["settings"] else ""
    why = (
        "as asked" if isinstance(trial, int) else "the last that has one" + ("" if trial == "last" else f" of {trial}")
    )
    none = "" if isinstance(trial, int) else "; none is chosen by its test samples, --trial names another"
    return Place(
        trial_folder(run, number),
        f"Head of trial {number} of {len(trials)} ({what}): {why}{none}.",
    )


def _trials(run: Path) -> list[dict[str, Any]]:
    """Return the trials of a run as far as a model is found by them; they are not checked any further."""
    path = run / "result.json"
    try:
        trials = unsealed(path.read_bytes(), {"schema", "trials"})["trials"]
        return [{key: one[key] for key in ("method", "augment", "seed", "settings")} for one in trials]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise GgeurError(f"{path} is not a result of ggeur: {one_line(error)}.", code="file-not-result") from error


def trial_folder(run: Path, number: int) -> Path:
    """Return the folder of a trial's model in a run folder; before 0.3 trials were called cells."""
    before = run / "model" / f"{FILES['trial']}-{number:03d}"
    return before if before.is_dir() else run / "model" / f"trial-{number:03d}"


def is_export(folder: Path) -> bool:
    """Return whether `folder` holds a model exported for the hub or for torch."""
    return (folder / CONFIG).is_file() and (folder / WEIGHTS).is_file()


def read_config(folder: Path) -> dict[str, Any]:
    """Return an exported model's description in the form of model.json; raise ValueError where it is not valid."""
    about = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    if not isinstance(about, dict) or about.get("model_type") != "ggeur":
        raise ValueError("it does not describe a model of ggeur")
    return dict(record_of_before({key: value for key, value in about.items() if key not in FOR_OTHERS}))


def read_weights(folder: Path) -> dict[str, NDArray[Any]]:
    """Return the weights of an exported head, by name."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        arrays: dict[str, NDArray[Any]] = load_file(folder / WEIGHTS)
    except (OSError, ValueError, SafetensorError) as error:
        raise GgeurError(f"{folder / WEIGHTS} is damaged: {error}.", code="file-damaged") from error
    return {name: array for name, array in arrays.items() if name != BASIS}
