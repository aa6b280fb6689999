"""Write the plan of a federation, with classes and encoder of sites that are at hand."""

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ggeur.data.readers import image_folder
from ggeur.data.table import EmbeddingTable
from ggeur.encoders.encoder import about, load_encoder
from ggeur.federation.plan import FederationPlan, PlannedEncoder
from ggeur.federation.stored_statistics import union_of_classes
from ggeur.stats.errors import GgeurError, nearest_file


def write_plan(
    path: Path,
    sites: Sequence[Path] = (),
    *,
    name: str | None = None,
    classes: Sequence[str] = (),
    encoder: str | None = None,
    salt: str | None = None,
    **values: Any,
) -> FederationPlan:
    """Write a plan to `path` and return it.

    `classes` are named, or else those of all `sites`, tables or image folders; the encoder is `encoder`, or else that
    of the tables. Other `values` are those of `FederationPlan`; without a `salt` one is drawn.
    """
    if path.suffix != ".toml":
        raise GgeurError(
            f"Cannot write {path}: a plan is TOML, so call it {path.with_suffix('.toml')}.", code="output-file-suffix"
        )
    if path.exists():
        raise GgeurError(f"{path} is there already: sites may follow it, so name another.", code="plan-exists")
    known, found = PlannedEncoder(), [tuple(classes)] if classes else []
    if encoder is not None:
        loaded = load_encoder(encoder)
        known = PlannedEncoder(**about(loaded), dimension=loaded.dimension)
    for site in sites:
        names, own = _classes_and_encoder(site)
        known.check(own.model_dump(), own.dimension or None, f"'{site}'")
        known = own if not known.dimension else known
        found += [] if classes else [names]
    tree = {
        "name": path.stem if name is None else name,
        "classes": union_of_classes(found) if found else (),
        "encoder": known,
        "salt": secrets.token_hex(8) if salt is None else salt,
        **values,
    }
    plan = FederationPlan.of(tree, str(path))
    plan.save(path)
    return plan


def _classes_and_encoder(site: Path) -> tuple[tuple[str, ...], PlannedEncoder]:
    if not site.exists():
        raise GgeurError(f"There is no folder or table '{site}'.{nearest_file(site)}", code="site-missing")
    if site.is_dir():
        return image_folder(site).class_names, PlannedEncoder()
    table = EmbeddingTable.load(site)
    own = {key: table.meta[key] for key in ("encoder", "weights", "preprocessing") if key in table.meta}
    return table.class_names, PlannedEncoder(**own, dimension=table.dimension)
