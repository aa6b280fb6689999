"""`ggeur fit`: one model from several sites, without an experiment file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ggeur.cli.options import PictureEncoder
from ggeur.cli.screen import notes, say

if TYPE_CHECKING:
    from ggeur.experiment.estimator import OneMessageClassifier


def fit(
    out: Annotated[Path, typer.Option("--out", help="Model folder to write; it must not exist or be empty.")],
    sites: Annotated[
        list[Path] | None,
        typer.Argument(help="Sites: tables (.npz) or folders of pictures, <class>/* or <domain>/<class>/*."),
    ] = None,
    encoder: PictureEncoder = None,
    method: Annotated[str, typer.Option(help="A solved head (`ggeur methods`), or auto, which chooses one.")] = "auto",
    statistics: Annotated[
        str, typer.Option(help="Second moments that sites send: per-class, or pooled, one matrix for all classes.")
    ] = "per-class",
    sealed: Annotated[
        bool, typer.Option("--sealed", help="Keep the total of the sites' sums and hashes of them, not each site's.")
    ] = False,
) -> None:
    """Solve one head for several sites from sums that each sends once; rows marked as test are left out and scored."""
    from ggeur.experiment.fit import fit as fit_sites

    with notes():
        found = fit_sites(
            sites or [],
            method=method,
            statistics=statistics,  # type: ignore[arg-type]  # which says what it can be
            encoder=encoder,
            out=out,
            sealed=sealed,
        )
        _report(found)
    say(f"The model is in {out}, what it is in {out / 'card.md'}", soft_wrap=True)


def _report(found: "OneMessageClassifier") -> None:
    """Who took part, what was solved and how well it does."""
    rows = ", ".join(f"{s.name} ({s.rows:,} rows)" for s in found.sums_)
    say(f"{len(found.classes_)} classes, {found.n_features_in_} dimensions; sites: {rows}")
    say(found.solution_.why or f"Solved {found.solution_.method}.")
    for name, value in found.metrics_.get("domains", {}).items():
        say(f"{value:7.2f} % right on the test rows of {name}")
    if not found.metrics_:
        say("No table marks test rows, so nothing was left out to score.")
    elif len(found.metrics_["domains"]) > 1:
        say(f"{found.metrics_['avg']:7.2f} % on average over domains")
