"""How good a classifier of these sites is: solved without the test samples that are held out, and scored on them."""

from collections.abc import Callable, Sequence

import numpy as np

from ggeur.models.evaluating import Evaluation, SiteScores, classes_of_model, evaluation, score_file
from ggeur.models.fitted import Fitted
from ggeur.models.site_of_files import SiteOfFiles
from ggeur.models.sites import AnySite, SentSite, Site, in_memory
from ggeur.stats.errors import GgeurError


def evaluation_of_held_out(
    sites: Sequence[AnySite], share: float, salt: str, solved: Callable[[Sequence[Site]], Fitted]
) -> Evaluation:
    """Return the evaluation of what is `solved` for `sites` without a `share` of their samples, on these samples."""
    if any(isinstance(site, SentSite) for site in sites):
        raise GgeurError(
            "A file of statistics has no samples to hold out: its site evaluates the model (`ggeur evaluate`).",
            code="evaluation-without-samples",
        )
    whole = [in_memory(site) if isinstance(site, SiteOfFiles) else site for site in sites]
    held = [site.holding_out(share, salt) for site in whole if isinstance(site, Site)]
    if not any(site.test.any() for site in held):
        raise GgeurError(
            f"Of the sites' samples a share of {share:g} holds out none: take a larger --test-share.",
            code="evaluation-without-samples",
        )
    model = solved(held).model
    files = []
    for site, before in zip(held, whole, strict=True):
        if site.test.any():
            y = classes_of_model(site.y[site.test], site.class_names, model.class_names, site.name)
            groups = before.keys().get("groups") if isinstance(before, Site) else None
            own = None if groups is None else tuple(np.asarray(groups, object)[site.test])
            p = model.probabilities_of(site.x[site.test])
            kind = "marked" if isinstance(before, Site) and before.marked else "held out"
            scores = SiteScores(site.name, len(site.x), kind, p, y, own)  # type: ignore[arg-type]  # a Literal
            files.append(score_file(model, scores, share, salt))
    return evaluation(files)
