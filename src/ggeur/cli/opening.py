"""Open a model for a command, by its folder or by a trial of a run, and print which it is."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ggeur.cli.screen import mark

if TYPE_CHECKING:
    from ggeur.runs.model import Model


class OpenedModel(NamedTuple):
    """A model and its folder."""

    model: "Model"
    folder: Path


def open_model(path: Path, trial: str, own: bool) -> OpenedModel:
    """Open the model at `path`, or that of the `trial` of a run; `own` allows a custom head."""
    from ggeur.runs.model import Model
    from ggeur.runs.places import model_folder

    place = model_folder(path, int(trial) if trial.isdecimal() else trial)
    model = Model.load(place.folder, own=own)
    if place.why:
        mark("note", place.why)
    return OpenedModel(model, place.folder)
