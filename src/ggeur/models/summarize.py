"""Summarize a site: its statistics in a file, which is all that leaves it."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
from pydantic import ValidationError

from ggeur.data.tables.columns import TableColumns
from ggeur.federation.plan import FederationPlan, PlannedEncoder, first_fault
from ggeur.federation.signature import SigningKey
from ggeur.federation.statistics_file import (
    SUFFIX,
    Meta,
    StatisticsFile,
    check_can_send,
    check_fits_memory,
    is_statistics_file,
)
from ggeur.models.site_of_files import SiteOfFiles
from ggeur.models.sites import GivenSite, OnPictures, Site, encoder_of_plan, in_memory, named_sites, read_sites
from ggeur.stats.errors import GgeurError
from ggeur.stats.packed_statistics import packed_statistics
from ggeur.stats.streaming import Piece
from ggeur.stats.validate import check_path, check_whole


class Summarized(NamedTuple):
    """What a site wrote, and what it left out."""

    file: StatisticsFile
    size: int  # bytes
    held_out: int  # test samples
    withheld: int  # samples of groups that are too small to share

    @property
    def embeddings_size(self) -> int:
        """Return the bytes of the samples that it is of, in float64 as its numbers are."""
        return 8 * self.file.samples * self.file.meta.encoder.dimension


def summarize(
    site: GivenSite,
    out: str | os.PathLike[str],
    *,
    plan: FederationPlan | str | os.PathLike[str] | None = None,
    name: str | None = None,
    encoder: str | None = None,
    columns: TableColumns | None = None,
    unlabelled: bool = False,
    sequence: int = 1,
    key: str | os.PathLike[str] | None = None,
    on_pictures: OnPictures = lambda site, done, total, computed: None,
) -> Summarized:
    """Write the statistics of a `site`, a folder of images or a table, to the file `out` (.stats).

    Parameters
    ----------
    plan : what the federation agreed on, or its file; default: no classes in common, and the defaults of a plan.
    name : the name of the site; default: that of its folder or table.
    encoder : what embeds images; default: the plan's.
    columns : what the columns of a table of another program hold; default: the only candidates, which are said.
    unlabelled : write one group of all samples, whatever their classes.
    sequence : the number of this file; one that replaces another has a higher number.
    key : the file of the site's private key, with which it is signed; made, if there is none.
    """
    path = check_path("out", out)
    if path.suffix != SUFFIX:
        raise GgeurError(
            f"Cannot write {path}: statistics are written to {path.with_suffix(SUFFIX)}.", code="output-file-suffix"
        )
    if is_statistics_file(site):
        raise GgeurError(f"{site} is a file of statistics already.", code="site-data-type")
    check_whole("sequence", sequence, least=1, most=10**9)
    if plan is not None and not isinstance(plan, FederationPlan):
        plan = FederationPlan.load(plan)
    agreed = FederationPlan() if plan is None else plan
    signing = None if key is None else SigningKey(check_path("key", key))
    given = {name: site} if name is not None else named_sites([site])
    check_can_send(*given)  # before minutes are spent
    planned = agreed.model_copy(update={"classes": ()}) if unlabelled else agreed
    (whole,) = read_sites(given, encoder or encoder_of_plan(agreed, given.values()), on_pictures, columns, planned)
    whole = in_memory(whole) if isinstance(whole, SiteOfFiles) else whole
    assert isinstance(whole, Site)  # as it is no file of statistics
    shared = (whole.without_labels() if unlabelled else whole).following(planned)
    file = statistics_of(shared, agreed, sequence, labelled=not unlabelled)
    if signing is not None:
        today = datetime.now(UTC).date().isoformat()
        file = file._replace(meta=file.meta.model_copy(update={"date": today})).signed(signing.sign)
    size = file.save(path)
    return Summarized(file, size, int(shared.test.sum()), len(whole.x) - len(shared.x))


def statistics_of(site: Site, plan: FederationPlan, sequence: int = 1, *, labelled: bool = True) -> StatisticsFile:
    """Return the file of a `site` that follows the `plan`; without planned classes, of those that it shares."""
    own = ~site.test
    x, y, domain, names = site.x[own], site.y[own], site.domain[own], site.class_names
    if not plan.classes or not labelled:
        held, y = np.unique(y, return_inverse=True)
        names = tuple(names[c] for c in held.tolist())
    codes = np.unique(domain).tolist()
    domains = tuple(sorted(site.domain_names[d] for d in codes))
    check_fits_memory(len(names), x.shape[1], plan.covariance, len(domains), f"'{site.name}'")
    packed = packed_statistics([Piece(x, y, domain)], len(names), plan.covariance)
    meta = _checked_meta(
        {
            "plan": plan,
            "site": site.name,
            "sequence": sequence,
            "classes": names,
            "domains": domains,
            "encoder": PlannedEncoder.model_validate({**site.encoder, "dimension": x.shape[1]}),
            "labelled": labelled,
        },
        site.name,
    )
    by_name = {site.domain_names[d]: one for d, one in packed.items()}
    return StatisticsFile(meta, {d: by_name[d] for d in domains})


def _checked_meta(values: Mapping[str, Any], name: str) -> Meta:
    try:
        return Meta.model_validate(values)
    except ValidationError as error:
        raise GgeurError(
            f"The site '{name}' cannot be described: {first_fault(error)}.", code="site-name-invalid"
        ) from error
