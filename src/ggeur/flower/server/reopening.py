"""A finished run whose one-shot classifiers lack a site: opened again, so that the site is added now that it is
back.
"""

from pathlib import Path

from ggeur.experiments.checkpoint import Checkpoints
from ggeur.experiments.folder import finished_result
from ggeur.experiments.grid import Experiment
from ggeur.experiments.result import Result
from ggeur.methods import kind_of
from ggeur.methods.algorithm import Iterative
from ggeur.stats.errors import GgeurError

_BEFORE = Path("checkpoint", "before.json")


def reopen(out: Path, experiment: Experiment) -> None:
    """Turn the finished run in `out` into one to resume, to compute again one-shot classifiers that lack a site.

    An unfinished run is left as it is. All sites are asked again, as none of their statistics are kept.
    """
    result = finished_result(out, experiment)
    if result is None:
        return
    if not experiment.points[0].privacy.release.exact:
        raise GgeurError(
            f"Reopening {out} would make all sites send their statistics again and spend [privacy] epsilon again; if "
            "they agree to that, start a new run.",
            code="run-reopen-privacy",
        )
    if experiment.points[0].privacy.secure_aggregation:
        raise GgeurError(
            f"The heads in {out} come from secure aggregation, and a second total with one more site would reveal its "
            "statistics; start a new run, with at least three more sites.",
            code="run-reopen-secure-aggregation",
        )
    solved = [kind_of(point.train.method) is not Iterative for point in experiment.points]
    again = [n for n, trial in enumerate(result.trials) if solved[n] and trial.missing]
    if not again:
        more = "" if all(solved) else " (rounds that a site has missed cannot be made up for)"
        raise GgeurError(
            f"No one-shot classifier in {out} was made without a site, so there is none to add{more}.",
            code="run-reopen-needless",
        )
    (out / "checkpoint").mkdir(exist_ok=True)
    kept = Checkpoints(out / "checkpoint")
    for n, trial in enumerate(result.trials):
        if n not in again:
            kept.finish_trial(n, trial)
    (out / "result.json").rename(out / _BEFORE)  # last: before it the run is finished, after it interrupted


def check_all_are_back(out: Path, number: int, missing: list[int]) -> None:
    """Raise GgeurError where a reopened run would lose a site that was in the head of trial `number` before."""
    if not (out / _BEFORE).exists():
        return
    lost = sorted(set(missing) - Result.load(out / _BEFORE).trials[number].missing.keys())
    if lost:
        raise GgeurError(
            f"Client {lost[0]} was in the head that is computed again and has not answered now; start its SuperNode, "
            "then resume the run.",
            code="run-reopened-site-missing",
        )
