"""From sites to a model in one call: statistics, choice, head, scores, and a folder from which sites join and leave."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ggeur.data.holdout import SALT, check_salt, check_test_share
from ggeur.data.tables.columns import TableColumns
from ggeur.federation.ledger import Entry, Ledger
from ggeur.federation.plan import FederationPlan
from ggeur.federation.statistics_file import StatisticsFile
from ggeur.methods.algorithm import Task
from ggeur.models.fitted import Fitted, calibrated, check_new_model, claim, keep, scores
from ggeur.models.site_files import check_site_name
from ggeur.models.sites import AnySite, GivenSite, OnPictures, Site, encoder_of_plan, named_sites, read_sites, shared_by
from ggeur.models.solution import Solution, SolvedSites, covariance_to_send, solve_sites, together
from ggeur.models.transaction import Command
from ggeur.stats.custom import blaming
from ggeur.stats.errors import GgeurError, GgeurWarning
from ggeur.stats.site_statistics import COVARIANCES as STATISTICS
from ggeur.stats.site_statistics import Covariance
from ggeur.stats.storage import CannotWrite, cannot
from ggeur.stats.validate import check_choice, check_is, check_path, check_whole

if TYPE_CHECKING:
    from ggeur.federation.contributions import Contributions, OnHead
    from ggeur.models.estimator import OneShotClassifier
    from ggeur.models.evaluating import Evaluation


_Value = TypeVar("_Value")


class FittedSites(NamedTuple):
    """The model of several sites, what it was solved from, and what each site adds to it, where that was asked for."""

    fitted: Fitted
    solved: SolvedSites
    contributions: Contributions | None
    evaluation: Evaluation | None = None  # of a classifier that was solved without the samples held out for it


def fit(
    sites: Sequence[GivenSite] | Mapping[str, GivenSite],
    *,
    method: str = "auto",
    parameters: Mapping[str, Any] | None = None,
    covariance: Covariance | None = None,
    encoder: str | None = None,
    columns: TableColumns | None = None,
    min_count: int | None = None,
    plan: FederationPlan | str | os.PathLike[str] | None = None,
    trust: str | os.PathLike[str] | None = None,
    seed: int = 0,
    out: str | os.PathLike[str] | None = None,
    contributions: bool = False,
    calibrate: bool = True,
    workers: int = 0,
    on_head: OnHead = lambda done, total: None,
    on_pictures: OnPictures = lambda site, done, total, computed: None,
) -> OneShotClassifier:
    """Solve one head for several sites from the statistics of each, and score it on their test samples, if any.

    Parameters
    ----------
    sites : pairs (x, y), embedding tables, or paths to tables (`.npz`, `.parquet`, `.csv`, `.npy` and others, also
        patterns), folders of pictures and files of statistics (`.stats`); or a mapping of names to them.
    method : a one-shot classifier, or "auto", which selects one by the statistics alone.
    parameters : those of the method; default: its own defaults.
    covariance : "per-class" second moments, or "pooled" ones; default: the plan's, else "per-class".
    encoder : what embeds folders of pictures: builtin, onnx:PATH, or a Hugging Face model's name or folder.
    columns : what the columns of tables of other programs hold; default: the only candidates, which are said.
    min_count : how many samples of a class a site must have to share them; 10 is what we recommend. Default: the
        plan's, else 0.
    plan : what the federation agreed on (`ggeur plan`), or its file; default: that of the files of statistics.
    trust : a folder of public keys; then only files of statistics are taken, signed by the key SITE.pub.
    seed : of the synthetic samples of "auto", and of heads that draw.
    out : a model folder to write, with what `ggeur add` and `ggeur forget` need beside the model.
    contributions : estimate what each site adds, by heads without it; kept in the model folder as contributions.json.
    on_head : called for each of these heads, with how many are solved and how many there will be.
    on_pictures : called while folders are embedded, with the site, pictures done, of how many, and how many of those
        were not in the cache.
    workers : how many threads sum up samples, 0 for one on each processor; it does not matter to a bit.
    calibrate : fit a temperature for the probabilities, from the statistics; sites then send all of `covariance`.

    The classifier's `solution_` says what was chosen and why, `metrics_` the accuracy on samples that tables mark as
    test, `contributions_` what each site adds, where that was asked for and there are samples to tell by, and
    `calibration_` the temperature of its probabilities, or why there is none.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> sites = [(rng.normal(size=(40, 3)) + 4 * np.eye(3)[np.arange(40) % 3], np.arange(40) % 3) for _ in range(2)]
    >>> classifier = fit(sites, method="lda")
    >>> classifier.predict([[4.0, 0.0, 0.0], [0.0, 0.0, 4.0]])
    array([0, 2])
    """
    from ggeur.models.estimator import OneShotClassifier

    fitted, solved, estimated, _ = fit_model(
        sites,
        method=method,
        parameters=parameters,
        covariance=covariance,
        encoder=encoder,
        columns=columns,
        min_count=min_count,
        plan=plan,
        trust=trust,
        seed=seed,
        out=out,
        contributions=contributions,
        calibrate=calibrate,
        workers=workers,
        on_head=on_head,
        on_pictures=on_pictures,
    )
    found = OneShotClassifier(method, parameters=parameters, covariance=solved.solution.covariance, seed=seed)._taking(
        solved
    )
    found.metrics_, found.calibration_, found.contributions_ = fitted.metrics, fitted.calibration, estimated
    return found


def fit_model(
    sites: Sequence[GivenSite] | Mapping[str, GivenSite],
    *,
    method: str = "auto",
    parameters: Mapping[str, Any] | None = None,
    covariance: Covariance | None = None,
    encoder: str | None = None,
    columns: TableColumns | None = None,
    min_count: int | None = None,
    plan: FederationPlan | str | os.PathLike[str] | None = None,
    trust: str | os.PathLike[str] | None = None,
    seed: int = 0,
    out: str | os.PathLike[str] | None = None,
    contributions: bool = False,
    calibrate: bool = True,
    test_share: float = 0.0,
    salt: str = SALT,
    workers: int = 0,
    on_head: OnHead = lambda done, total: None,
    on_pictures: OnPictures = lambda site, done, total, computed: None,
) -> FittedSites:
    """Do what `fit` does, without scikit-learn, whose import takes longer than many a fit.

    With a `test_share`, another classifier is solved before, without that share of the samples, and evaluated on them.
    """
    check_test_share(test_share)
    check_salt(salt)
    folder = None if out is None else check_path("out", out)
    check_is("method", method, str, "a method's name")
    named = named_sites(sites)
    agreed = _agreed(named, plan)
    if agreed is not None and test_share:
        raise GgeurError(
            "Sites that follow a plan hold out its test samples: leave --test-share out, and evaluate the model at the "
            "sites (`ggeur evaluate`).",
            code="plan-option-conflict",
        )
    planned = FederationPlan(min_count=0) if agreed is None else agreed
    sent: Covariance = _option("covariance", covariance, planned.covariance, agreed)
    min_count = _option("min_count", min_count, planned.min_count, agreed)
    check_choice("covariance", sent, STATISTICS)
    check_whole("seed", seed, least=0)
    check_whole("min_count", min_count, least=0)
    check_whole("workers", workers, least=0, most=1024)
    if not callable(on_head) or not callable(on_pictures):
        raise GgeurError(
            "on_head and on_pictures must be functions, which are told how far it is.", code="argument-not-function"
        )
    if parameters is not None:
        check_is("parameters", parameters, Mapping, "a mapping of names to values")
    covariance_to_send(method, parameters or {}, sent)  # says what is wrong with them, before anything is read
    if contributions and any(isinstance(one, StatisticsFile) for one in named.values()):
        raise GgeurError(
            "Contributions are estimated from samples, and files of statistics hold none: leave --contributions out, "
            "or give the tables or images of all sites.",
            code="contributions-without-samples",
        )
    if folder is not None:
        check_new_model(folder)
        for name in named:
            check_site_name(name)
    if len(named) == 1:
        warnings.warn("Only one site: this is ordinary training.", GgeurWarning, stacklevel=3)
    chosen = encoder_of_plan(agreed, named.values()) if encoder is None else encoder
    read = read_sites(named, chosen, on_pictures, columns, agreed, trust)
    tested = None
    if test_share:
        from ggeur.models.held_out_fit import evaluation_of_held_out

        def without(held: Sequence[Site]) -> Fitted:
            some = [site.shared(min_count) for site in held]
            found = solve_sites(some, method, parameters or {}, sent, seed, calibrate=calibrate)
            said = calibrated(found.federation, found.solution, found.params, []) if calibrate else {}
            return Fitted(found.solution, found.params, found.federation, {}, {}, {}, said)

        tested = evaluation_of_held_out(read, test_share, salt, without)
    read = [shared_by(site, agreed, min_count) for site in read]
    solved = solve_sites(read, method, parameters or {}, sent, seed, calibrate=calibrate, workers=workers)
    solution, params, federation, _ = solved
    encoders = {site.name: site.encoder for site in read}
    ledger = Ledger.of(Entry.of(statistics, encoders[statistics.name]) for statistics in federation.stored)
    settings: dict[str, Any] = {"method": method, "covariance": sent, "seed": seed, "min_count": min_count}
    settings |= {} if agreed is None else {"plan": agreed.to_tree()}
    fitted = Fitted(
        solution,
        params,
        federation,
        ledger.encoder({}),
        settings if calibrate else settings | {"calibrate": False},
        scores(read, federation.class_names, solution, params),
        calibrated(federation, solution, params, read) if calibrate else {},
    )
    with ExitStack() as held:
        if folder is not None:
            claim(folder, held)
            keep(folder, fitted, federation.stored, ledger, Command("fit"))
        estimated = _contributions(read, solution, on_head) if contributions else None
        if folder is not None and estimated is not None:
            from ggeur.federation.contributions import save_contributions

            with cannot(f"write {folder}", CannotWrite):
                save_contributions(estimated, folder)
    return FittedSites(fitted, solved, estimated, tested)


def _agreed(
    named: Mapping[str, GivenSite], plan: FederationPlan | str | os.PathLike[str] | None
) -> FederationPlan | None:
    """Return the `plan`, or the one by which the files among the sites were made, if there are any."""
    if plan is not None:
        return plan if isinstance(plan, FederationPlan) else FederationPlan.load(plan)
    return next((one.plan for one in named.values() if isinstance(one, StatisticsFile)), None)


def _option(name: str, value: Any, default: _Value, plan: FederationPlan | None) -> _Value:
    """Return the `value`, or where none was given the `default`; they must agree where there is a `plan`."""
    if plan is not None and value not in (None, default):
        raise GgeurError(
            f"{name} is {value!r} here and {default!r} in the plan that the sites follow: leave it out.",
            code="plan-option-conflict",
        )
    chosen: _Value = default if value is None else value
    return chosen


def _contributions(sites: Sequence[AnySite], solution: Solution, on_head: OnHead) -> Contributions | None:
    """None where sites have too few samples to tell by, which is no reason to be without a model."""
    from ggeur.federation.contributions import contributions, sites_of

    clients, names, _ = together(sites)
    task = Task(clients.x.shape[1], names, draws=(solution.seed,))
    each = sites_of(clients, [site.name for site in sites], solution.solved, task, solution.seed)
    try:
        with blaming(solution.method, "method"):
            return contributions(each, solution.solved, task, solution.called, on_head)
    except GgeurError as error:
        warnings.warn(str(error), GgeurWarning, stacklevel=3)
        return None
