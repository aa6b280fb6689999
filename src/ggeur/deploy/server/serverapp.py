"""The ServerApp: an experiment's cells one after the other over the same sites, into an ordinary run folder."""

from pathlib import Path
from typing import TYPE_CHECKING

from ggeur.core.errors import GgeurError
from ggeur.deploy.machines.processes import end_with_parent
from ggeur.deploy.server.journal import Journal, forget
from ggeur.deploy.server.solved_run import SolvedRun
from ggeur.deploy.server.trained_run import TrainedRun
from ggeur.deploy.wire.ask import Grid
from ggeur.engine.compilation import keep_compiled_programs
from ggeur.experiment.setup import Setup
from ggeur.experiment.tracker import Tracker
from ggeur.methods import kind_of
from ggeur.methods.algorithm import Bound, Given, Trained
from ggeur.runs.folder import RunFolder, finished_result, run_folder
from ggeur.runs.result import Cell, Result
from ggeur.settings.grid import Experiment

if TYPE_CHECKING:
    from flwr.app import Context
    from flwr.serverapp import ServerApp


def server_app(experiment: Path) -> "ServerApp":
    """The app that a SuperLink runs for the file `experiment`.

    Its run configuration says where the run folder is and whether to resume it.
    """
    from flwr.serverapp import ServerApp

    app = ServerApp()

    def main(grid: Grid, context: "Context") -> None:
        end_with_parent()
        out, resume = Path(str(context.run_config["out"])), bool(context.run_config.get("resume", False))
        run_over(grid, Experiment.load(experiment), out, resume=resume)

    app.main()(main)
    return app


def check_deployable(experiment: Experiment) -> None:
    """Raise where `experiment` asks for what real machines cannot do, in a sentence that says what to change."""
    first = experiment.points[0]
    if len(experiment.seeds) > 1:
        raise GgeurError("Real machines run one seed; choose one with --set run.seeds=[0].")
    if any(p.data != first.data or p.partition != first.partition for p in experiment.points):
        raise GgeurError("On real machines data lie where they lie: [data] and [partition] cannot vary.")
    if any(p.federate != first.federate for p in experiment.points):
        raise GgeurError("[federate] is the same for all cells of a run; give single values.")
    for p in experiment.points:
        if isinstance(Setup.of(p).algorithm, Bound | Given):
            raise GgeurError(f"'{p.train.method}' is not a federation; compare with it by `ggeur run`.")
    for p in experiment.points:
        if p.train.model is not None or Setup.of(p).head.images:
            what = "train.start from a model" if p.train.model is not None else f"The network '{p.train.head}'"
            raise GgeurError(f"{what} is not there yet on real machines; simulate it with `ggeur run`.")
    for p in experiment.points:
        if p.privacy.epsilon is not None and kind_of(p.train.method) is Trained:
            raise GgeurError(
                f"'{p.train.method}' lays training sets out by exact counts, which sites do not tell under [privacy] "
                "epsilon; solve a head, such as ridge, or simulate it with `ggeur run`."
            )
    if first.privacy.epsilon is not None and len(experiment.points) > 1:
        raise GgeurError("Every cell would cost sites its epsilon again; under [privacy] epsilon run one at a time.")
    f = first.federate
    if f.nodes is None:
        raise GgeurError("[federate] nodes is missing: say how many sites there are.")
    if f.min_nodes > f.nodes:
        raise GgeurError(f"[federate] min_nodes = {f.min_nodes} is more than the {f.nodes} nodes there are.")


def run_over(grid: Grid, experiment: Experiment, out: Path, *, resume: bool) -> None:
    """Run every cell of `experiment` over the nodes of Flower's `grid`, into `out`; with `resume`, go on there."""
    check_deployable(experiment)
    keep_compiled_programs()
    if resume and finished_result(out, experiment) is not None:
        return
    if not resume:
        forget(out)
    journal: Journal | None = None
    try:
        with run_folder(out, experiment, resume=resume) as folder:
            journal = Journal(out)
            folder.finish(Result([_cell(grid, folder, journal, experiment, n) for n in range(len(experiment.points))]))
            journal("finished")
    except GgeurError as error:
        if journal is not None and out.exists():
            journal("stopped", why=str(error), resumable=(out / "config.toml").exists())
        raise


def _cell(grid: Grid, folder: RunFolder, journal: Journal, experiment: Experiment, number: int) -> Cell:
    point = experiment.points[number]
    cell = Cell(point.train.method, point.augment.kind, experiment.seeds[0], experiment.varied[number])
    tracker = Tracker(number, cell, point, folder)
    if tracker.done:
        return tracker.cell
    trained = kind_of(point.train.method) is Trained
    return (TrainedRun if trained else SolvedRun)(grid, folder, journal, tracker).run()
