"""`ggeur fit`: compute a one-shot classifier from several sites, without an experiment file."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ggeur.cli.evaluate import print_evaluation
from ggeur.cli.following import Follow, following, following_phases
from ggeur.cli.options import (
    ColumnDomain,
    ColumnGroup,
    ColumnId,
    ColumnTest,
    ColumnX,
    ColumnY,
    EncoderId,
    JsonLines,
    PictureEncoder,
    PlanFile,
    Quiet,
    TrustedKeys,
    table_columns,
)
from ggeur.cli.screen import notes, progress_of_heads, say
from ggeur.stats.long_jobs import phase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ggeur.models.fitted import Fitted
    from ggeur.models.sites import OnPictures

_SALT = "ggeur"  # of `data/holdout`, where importing it would slow `--help` down


def fit(
    out: Annotated[Path, typer.Option("--out", help="Model folder to write; new or empty.")],
    sites: Annotated[
        list[Path] | None,
        typer.Argument(help="Sites: tables, image folders with <class>/*, or .stats files."),
    ] = None,
    encoder: PictureEncoder = None,
    x: ColumnX = None,
    y: ColumnY = None,
    domain: ColumnDomain = None,
    test: ColumnTest = None,
    id: ColumnId = None,
    group: ColumnGroup = None,
    encoder_id: EncoderId = None,
    method: Annotated[str, typer.Option(help="Solver (see `ggeur methods`); auto selects one.")] = "auto",
    covariance: Annotated[
        str | None,
        typer.Option(help="Covariance: per-class or pooled.", show_default="the plan's, else per-class"),
    ] = None,
    min_count: Annotated[
        int | None, typer.Option(min=0, help="Smallest group a site shares.", show_default="the plan's, else 0")
    ] = None,
    plan: PlanFile = None,
    trust: TrustedKeys = None,
    no_calibrate: Annotated[
        bool,
        typer.Option("--no-calibrate", help="Skip the temperature calibration."),
    ] = False,
    contributions: Annotated[
        bool, typer.Option("--contributions", help="Estimate the contribution of each site.")
    ] = False,
    test_share: Annotated[
        float, typer.Option("--test-share", help="Also evaluate a classifier solved without this share.")
    ] = 0.0,
    salt: Annotated[str, typer.Option("--salt", help="Public salt of the hold-out.")] = _SALT,
    workers: Annotated[int, typer.Option(min=0, help="Threads that sum up; 0: one per processor.")] = 0,
    quiet: Quiet = False,
    json_lines: JsonLines = False,
) -> None:
    """Fit a one-shot classifier to several sites.

    Each site sends class statistics once; the classifier is scored on test samples. Writes a model folder with a
    report, report.html.
    """
    with (
        notes(),
        following_phases(),
        following_pictures() as on_pictures,
        progress_of_heads("contributions") as on_head,
    ):
        phase("start")
        from ggeur.models.fit import fit_model

        found = fit_model(
            sites or [],
            method=method,
            covariance=covariance,  # type: ignore[arg-type]  # which says what it can be
            encoder=encoder,
            columns=table_columns(x, y, domain, test, id, group, encoder_id),
            min_count=min_count,
            plan=plan,
            trust=trust,
            out=out,
            contributions=contributions,
            calibrate=not no_calibrate,
            test_share=test_share,
            salt=salt,
            workers=workers,
            on_head=on_head,
            on_pictures=on_pictures,
        )
    from ggeur.report.model_page import write_model_page

    with notes():
        _report(found.fitted, tested=found.evaluation is not None)
        if found.evaluation is not None:
            say(
                "Another classifier, solved without the test samples below, gets of them (the model itself is from all "
                "training samples):",
                soft_wrap=True,
            )
            print_evaluation(found.evaluation)
        counts = {site.name: site.counts for site in found.fitted.federation.sites}
        page = write_model_page(out, custom=True, counts=counts)  # a custom method has just been imported
    say(f"The model is in {out}, what it is in {out / 'card.md'}, a page about it is {page}", soft_wrap=True)


@contextmanager
def following_pictures() -> Iterator["OnPictures"]:
    """Show the progress of each image folder, one after the other."""
    with ExitStack() as stack:
        follow: dict[str, Follow] = {}

        def on_pictures(site: str, done: int, total: int, computed: int) -> None:
            if site not in follow:
                follow[site] = stack.enter_context(following(f"embedding {site}", "images", total))
            follow[site](done, computed=computed)
            if done == total:
                stack.close()

        yield on_pictures


def _report(found: "Fitted", *, tested: bool) -> None:
    """Print the sites, the solver and the accuracy."""
    samples = ", ".join(f"{s.name} ({s.samples:,} samples)" for s in found.federation.stored)
    say(f"{len(found.federation.class_names)} classes, {found.federation.dimension} dimensions; sites: {samples}")
    say(found.solution.why or f"Selected {found.solution.method}.")
    for name, value in found.metrics.get("domains", {}).items():
        say(f"{value:7.2f} % right on the test samples of {name}")
    if found.calibration:
        say(_trust(found.calibration))
    if not found.metrics and "plan" in found.settings:
        say("What the sites held out for testing stayed there: score it with `ggeur evaluate`.")
    elif not found.metrics and not tested:
        say("No table marks test samples, so nothing was left out to score.")
    elif len(found.metrics.get("domains", ())) > 1:
        say(f"{found.metrics['avg']:7.2f} % on average over domains")


def _trust(said: "Mapping[str, Any]") -> str:
    """Return the calibration as one sentence."""
    if "temperature" not in said:
        return f"The probabilities are uncalibrated: {said['why']}."
    words = f"Probabilities at temperature {said['temperature']:.3g}, from the {said['source']}"
    if (test := said.get("test")) is None:
        return f"{words}."
    return f"{words}: off by {test['error']:.1f} points on test samples ({test['error_before']:.1f} without)."
