"""`ggeur fit`: one model from several sites, without an experiment file."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ggeur.cli.following import Follow, following
from ggeur.cli.options import JsonLines, PictureEncoder, Quiet
from ggeur.cli.screen import notes, progress_of_heads, say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ggeur.experiment.estimator import OneShotClassifier
    from ggeur.experiment.sites import OnPictures


def fit(
    out: Annotated[Path, typer.Option("--out", help="Model folder to write; it must not exist or be empty.")],
    sites: Annotated[
        list[Path] | None,
        typer.Argument(help="Sites: tables (.npz) or folders of pictures, <class>/* or <domain>/<class>/*."),
    ] = None,
    encoder: PictureEncoder = None,
    method: Annotated[
        str, typer.Option(help="A one-shot classifier (`ggeur methods`), or auto, which chooses one.")
    ] = "auto",
    covariance: Annotated[
        str, typer.Option(help="Second moments that sites send: per-class, or pooled, one matrix for all classes.")
    ] = "per-class",
    min_count: Annotated[
        int, typer.Option(min=0, help="Samples of a class that a site must have to share them; 10 is recommended.")
    ] = 0,
    no_calibrate: Annotated[
        bool,
        typer.Option("--no-calibrate", help="Do not fit a temperature for the probabilities, by samples left out."),
    ] = False,
    contributions: Annotated[
        bool, typer.Option("--contributions", help="Estimate what each site adds, by a classifier without it.")
    ] = False,
    quiet: Quiet = False,
    json_lines: JsonLines = False,
) -> None:
    """Solve one head for several sites from sums that each sends once; samples marked as test are left out and scored.

    The folder gets a page to read, report.html.
    """
    from ggeur.experiment.fit import fit as fit_sites
    from ggeur.report.model_page import write_model_page

    with notes(), _following_pictures() as on_pictures, progress_of_heads("contributions") as on_head:
        found = fit_sites(
            sites or [],
            method=method,
            covariance=covariance,  # type: ignore[arg-type]  # which says what it can be
            encoder=encoder,
            min_count=min_count,
            out=out,
            contributions=contributions,
            calibrate=not no_calibrate,
            on_head=on_head,
            on_pictures=on_pictures,
        )
    with notes():
        _report(found)
        page = write_model_page(out, own=True)  # a method of the user's own has just been imported
    say(f"The model is in {out}, what it is in {out / 'card.md'}, a page about it is {page}", soft_wrap=True)


@contextmanager
def _following_pictures() -> Iterator["OnPictures"]:
    """Each folder that is embedded followed, one after the other."""
    with ExitStack() as stack:
        follow: dict[str, Follow] = {}

        def on_pictures(site: str, done: int, total: int, computed: int) -> None:
            if site not in follow:
                follow[site] = stack.enter_context(following(f"embedding {site}", "images", total))
            follow[site](done, computed=computed)
            if done == total:
                stack.close()

        yield on_pictures


def _report(found: "OneShotClassifier") -> None:
    """Who took part, what was solved and how well it does."""
    samples = ", ".join(f"{s.name} ({s.samples:,} samples)" for s in found.sums_)
    say(f"{len(found.classes_)} classes, {found.n_features_in_} dimensions; sites: {samples}")
    say(found.solution_.why or f"Solved {found.solution_.method}.")
    for name, value in found.metrics_.get("domains", {}).items():
        say(f"{value:7.2f} % right on the test samples of {name}")
    if found.calibration_:
        say(_trust(found.calibration_))
    if not found.metrics_:
        say("No table marks test samples, so nothing was left out to score.")
    elif len(found.metrics_["domains"]) > 1:
        say(f"{found.metrics_['avg']:7.2f} % on average over domains")


def _trust(said: "Mapping[str, Any]") -> str:
    """How far probabilities can be trusted, in a line."""
    samples = said.get("test", said["validation"])
    where = "test samples" if "test" in said else "samples left out"
    return (
        f"Probabilities at temperature {said['temperature']:.3g}: off by {samples['error']:.1f} points on {where} "
        f"({samples['error_before']:.1f} without)"
    )
