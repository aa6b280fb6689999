"""A model as commands open it: by its folder or, of a run, by its trial, and saying which it is."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ggeur.cli.screen import mark

if TYPE_CHECKING:
    from ggeur.runs.model import Model


class OpenedModel(NamedTuple):
    """A model, and the folder that it lies in."""

    model: "Model"
    folder: Path


def open_model(path: Path, trial: str, own: bool) -> OpenedModel:
    """The model at `path`, that of the `trial` where it is a run's; `own` allows a head that is a user's own."""
    from ggeur.runs.model import Model
    from ggeur.runs.places import model_folder

    place = model_folder(path, int(trial) if trial.isdecimal() else trial)
    model = Model.load(place.folder, own=own)
    if place.why:
        mark("note", place.why)
    return OpenedModel(model, place.folder)
