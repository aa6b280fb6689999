"""The ServerApp: run an experiment's trials one after the other over the same sites, into a run folder."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ggeur.engine.local import keep_compiled_programs
from ggeur.experiments.folder import RunFolder, finished_result, run_folder
from ggeur.experiments.grid import Experiment
from ggeur.experiments.result import Result, Trial
from ggeur.experiments.setup import Setup
from ggeur.experiments.tracker import Tracker
from ggeur.flower.machines.processes import PRIVATE, end_with_parent
from ggeur.flower.server.iterative_run import IterativeRun
from ggeur.flower.server.journal import Journal, forget_events
from ggeur.flower.server.one_shot_run import OneShotRun
from ggeur.flower.server.reopening import reopen
from ggeur.flower.wire.ask import Grid
from ggeur.methods import kind_of
from ggeur.methods.algorithm import Iterative, Reference, ZeroShot
from ggeur.privacy.secure_aggregation import FEWEST
from ggeur.stats.errors import GgeurError

if TYPE_CHECKING:
    from flwr.app import Context
    from flwr.serverapp import ServerApp


def server_app(experiment: Path) -> "ServerApp":
    """Return the app that a SuperLink runs for the file `experiment`.

    Its run configuration says where the run folder is, and whether to resume it, or to reopen one that is finished.
    """
    from flwr.serverapp import ServerApp

    app = ServerApp()

    def main(grid: Grid, context: "Context") -> None:
        end_with_parent()
        os.umask(PRIVATE)  # the run folder keeps what sites have sent; this process does nothing else
        out, given = Path(str(context.run_config["out"])), context.run_config
        resume, again = bool(given.get("resume", False)), bool(given.get("reopen", False))
        run_over(grid, Experiment.load(experiment), out, resume=resume or again, again=again)

    app.main()(main)
    return app


def check_deployable(experiment: Experiment) -> None:
    """Raise where real machines cannot run `experiment`, with a sentence that says what to change."""
    first = experiment.points[0]
    if len(experiment.seeds) > 1:
        raise GgeurError(
            "Real machines run one seed; choose one with --set run.seeds=[0].", code="deployment-seeds-several"
        )
    for name in ("data", "partition", "federate"):
        if any(getattr(p, name) != getattr(first, name) for p in experiment.points):
            raise GgeurError(
                f"On real machines [{name}] cannot vary over the trials of a run; give single values.",
                code="deployment-section-varies",
            )
    for p in experiment.points:
        setup = Setup.of(p)
        if isinstance(setup.algorithm, Reference | ZeroShot):
            raise GgeurError(
                f"'{p.train.method}' is not a federation; compare with it by `ggeur run`.", code="method-not-federation"
            )
        if p.train.model is not None or setup.head.images:
            what = "train.start from a model" if p.train.model is not None else f"The network '{p.train.head}'"
            raise GgeurError(
                f"{what} is not there yet on real machines; simulate it with `ggeur run`.",
                code="deployment-not-supported",
            )
        if not p.privacy.release.exact and kind_of(p.train.method) is Iterative:
            raise GgeurError(
                f"'{p.train.method}' lays training sets out by exact counts, which sites do not send under [privacy] "
                "epsilon; use a one-shot classifier, such as ridge, or simulate it with `ggeur run`.",
                code="privacy-exact-training-sets",
            )
    if not first.privacy.release.exact and len(experiment.points) > 1:
        raise GgeurError(
            "Every trial would cost sites its epsilon again; under [privacy] epsilon run one at a time.",
            code="privacy-trials-several",
        )
    f = first.federate
    if f.sites is None:
        raise GgeurError("[federate] sites is missing: say how many sites there are.", code="federation-sites-missing")
    if len({p.privacy.secure_aggregation for p in experiment.points}) > 1:
        raise GgeurError(
            "Sites with a roster answer under secure aggregation alone: [privacy] secure_aggregation cannot vary.",
            code="deployment-secure-aggregation-varies",
        )
    if first.privacy.secure_aggregation and f.sites < FEWEST:
        raise GgeurError(
            f"[privacy] secure_aggregation needs {FEWEST} sites, not {f.sites}: of two, each knows the other's.",
            code="secure-aggregation-too-few-sites",
        )
    if f.min_sites > f.sites:
        raise GgeurError(
            f"[federate] min_sites = {f.min_sites} is more than the {f.sites} nodes there are.",
            code="federation-min-sites-excessive",
        )


def unprotected(experiment: Experiment) -> str:
    """Return a warning where sites would send small groups unprotected, else an empty string."""
    releases = [p.privacy.release for p in experiment.points]
    if all(release.least_group or release.mu is not None for release in releases):
        return ""
    return (
        "Small groups are not protected: the statistics of a class with one sample at a site are that sample. Set "
        "[privacy] min_count (10 is recommended) or epsilon; `ggeur audit` shows what your tables reveal."
    )


def run_over(grid: Grid, experiment: Experiment, out: Path, *, resume: bool, again: bool = False) -> None:
    """Run every trial of `experiment` over the nodes of Flower's `grid`, into `out`; with `resume`, continue there.

    `again` reopens a finished run, to add sites that its one-shot classifiers lack.
    """
    check_deployable(experiment)
    keep_compiled_programs()
    if again:
        reopen(out, experiment)
    if resume and finished_result(out, experiment) is not None:
        return
    if not resume:
        forget_events(out)
    journal: Journal | None = None
    try:
        with run_folder(out, experiment, resume=resume) as folder:
            journal = Journal(out)
            if note := unprotected(experiment):
                journal("note", why=note)
            folder.finish(Result([_trial(grid, folder, journal, experiment, n) for n in range(len(experiment.points))]))
            journal("finished")
    except GgeurError as error:
        if journal is not None and out.exists():
            journal("stopped", why=str(error), resumable=(out / "config.toml").exists())
        raise


def _trial(grid: Grid, folder: RunFolder, journal: Journal, experiment: Experiment, number: int) -> Trial:
    point = experiment.points[number]
    trial = Trial(point.train.method, point.augment.kind, experiment.seeds[0], experiment.varied[number])
    tracker = Tracker(number, trial, point, folder)
    if tracker.done:
        return tracker.trial
    trained = kind_of(point.train.method) is Iterative
    return (IterativeRun if trained else OneShotRun)(grid, folder, journal, tracker).run()
