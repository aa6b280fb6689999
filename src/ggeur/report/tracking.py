"""A run in MLflow, TensorBoard or Weights & Biases: its parameters, its curves and, at the end, report and models.

Every trial, one setting with one seed, is a run there, begun when its first round comes. Where that goes is the tool's
own business: MLFLOW_TRACKING_URI (default: the folder mlruns), WANDB_MODE and so on. TensorBoard's event files lie in
the run folder.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from ggeur.experiments.grid import Experiment, flat
from ggeur.experiments.tracker import OnRound
from ggeur.report.page import write_report
from ggeur.report.tables import named
from ggeur.stats.errors import GgeurError, how_to_install


class Tracked(Protocol):
    """A trial where it is tracked."""

    def __init__(self, project: str, name: str, parameters: dict[str, Any], out: Path) -> None:
        """Begin the run `name` of a `project`, with its `parameters`; `out` is the run folder."""

    def log(self, numbers: dict[str, float], step: int) -> None:
        """Keep the `numbers` of a round, `step`."""

    def finish(self, files: list[Path]) -> None:
        """The run has ended; keep these `files` and folders, if it has any to keep."""


class _MLflow:
    """Not by MLflow's fluent functions, which would speak to whatever run is active."""

    def __init__(self, project: str, name: str, parameters: dict[str, Any], out: Path) -> None:
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # needed from version 3.7 on
        from mlflow.tracking import MlflowClient

        self._client = MlflowClient(os.environ.get("MLFLOW_TRACKING_URI") or Path("mlruns").absolute().as_uri())
        found = self._client.get_experiment_by_name(project)
        place = found.experiment_id if found is not None else self._client.create_experiment(project)
        self._id = self._client.create_run(place, run_name=name, tags={"ggeur.folder": str(out)}).info.run_id
        for key, value in parameters.items():
            self._client.log_param(self._id, key, value)

    def log(self, numbers: dict[str, float], step: int) -> None:
        for key, value in numbers.items():
            self._client.log_metric(self._id, key, value, step=step)

    def finish(self, files: list[Path]) -> None:
        for path in files:
            if path.is_dir():
                self._client.log_artifacts(self._id, str(path), path.name)
            else:
                self._client.log_artifact(self._id, str(path))
        self._client.set_terminated(self._id)


class _TensorBoard:
    """Event files, which hold numbers and text but no files: those are named, and lie in the run folder."""

    def __init__(self, project: str, name: str, parameters: dict[str, Any], out: Path) -> None:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._writer = EventFileWriter(str(out / "tensorboard" / name.replace("/", "-")))
        self._text("parameters", "".join(f"    {key} = {value}\n" for key, value in parameters.items()))

    def log(self, numbers: dict[str, float], step: int) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=key, simple_value=value) for key, value in numbers.items()]
        self._add(Summary(value=values), step)

    def finish(self, files: list[Path]) -> None:
        self._text("files", "".join(f"    {path}\n" for path in files))
        self._writer.close()

    def _text(self, tag: str, text: str) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.compat.proto.tensor_pb2 import TensorProto
        from tensorboard.plugins.text.metadata import create_summary_metadata

        tensor = TensorProto(dtype="DT_STRING", string_val=[text.encode()])
        metadata = create_summary_metadata(display_name=tag, description="")
        self._add(Summary(value=[Summary.Value(tag=tag, metadata=metadata, tensor=tensor)]), 0)

    def _add(self, summary: Any, step: int) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._writer.add_event(Event(summary=summary, step=step, wall_time=time.time()))


class _Wandb:
    def __init__(self, project: str, name: str, parameters: dict[str, Any], out: Path) -> None:
        import wandb

        self._run = wandb.init(project=project, name=name, config=parameters, dir=out, reinit="create_new")

    def log(self, numbers: dict[str, float], step: int) -> None:
        self._run.log(numbers, step=step)

    def finish(self, files: list[Path]) -> None:
        import wandb

        if files:
            kept = wandb.Artifact(f"ggeur-{self._run.id}", type="model")
            for path in files:
                kept.add_dir(str(path), path.name) if path.is_dir() else kept.add_file(str(path))
            self._run.log_artifact(kept)
        self._run.finish()


_TOOLS: dict[str, type[Tracked]] = {"mlflow": _MLflow, "tensorboard": _TensorBoard, "wandb": _Wandb}


def check_tracking(experiment: Experiment) -> None:
    """Raise where what [run] track names is not installed."""
    tool = experiment.points[0].run.track
    if tool is not None and find_spec(tool) is None:
        raise GgeurError(
            f'[run] track = "{tool}" needs it to be installed: {how_to_install("track")}.', code="extra-missing"
        )


@contextmanager
def tracked(experiment: Experiment, out: Path, on_round: OnRound) -> Iterator[OnRound]:
    """`on_round`, which also logs to what [run] track names; if the block ends well, the report and models follow.

    `out` is the run folder of the `experiment`, and the folder's name that of the project.
    """
    tool = experiment.points[0].run.track
    if tool is None:
        yield on_round
        return
    trials: dict[int, Tracked] = {}

    def follow(event: dict[str, Any]) -> None:
        on_round(event)
        number = event["trial"]
        if number not in trials:
            name, parameters = _about(experiment, number)
            trials[number] = _TOOLS[tool](out.absolute().name, name, parameters, out.absolute())
        domains = {f"domain/{name}": value for name, value in event["domains"].items()}
        trials[number].log({"avg": event["avg"], "loss": event["loss"], **domains}, event["round"])

    files: list[Path] = []
    try:
        yield follow
        if (out / "result.json").exists():
            files = [write_report([out], out / "report.html"), out / "config.toml", out / "result.json"]
    finally:
        for number, trial in trials.items():
            model = out / "model" / f"trial-{number:03d}"
            trial.finish([*files, *([model] if files and model.is_dir() else [])])


def _about(experiment: Experiment, number: int) -> tuple[str, dict[str, Any]]:
    """The name of a trial, and every setting of it."""
    at, seed = divmod(number, len(experiment.seeds))
    point, varied = experiment.points[at], experiment.varied[at]
    name = named(varied, point.train.method, point.augment.kind)
    settings = {".".join(path): value for path, value in flat(point.model_dump(exclude={"run": {"seeds"}}))}
    given = {key: value for key, value in settings.items() if value not in (None, {})}
    return f"{name}, seed {experiment.seeds[seed]}", {**given, "seed": experiment.seeds[seed]}
