"""The server's request to a site, and the site's reply."""

import hashlib
import json
import shutil
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggeur.data.table import EmbeddingTable
from ggeur.experiments.settings import Settings
from ggeur.experiments.trial_data import in_ball
from ggeur.flower.site.data import SiteData, relabel, test_samples
from ggeur.flower.site.store import Store
from ggeur.flower.wire.packing import Arrays
from ggeur.privacy.release import large_groups
from ggeur.stats.errors import GgeurError
from ggeur.stats.units import Units

Facts = dict[str, Any]
Reply = tuple[Facts, Arrays]


class Request:
    """A message to `site`: its `facts` say which run, which trial of it and which settings; its `arrays` are large."""

    def __init__(self, site: SiteData, facts: Facts, arrays: Arrays | None = None) -> None:
        self.site, self.facts, self.arrays = site, facts, arrays or {}
        self.point = p = Settings.model_validate(facts["point"])
        methods = [("method", p.train.method), ("method", p.train.start)]
        named = (("augmentation", p.augment.kind), ("head", p.train.head))
        for what, name in (*methods, *named, ("privacy mechanism", p.privacy.mechanism_name)):
            site.allowed(name, what)
        self.release = p.privacy.release
        if site.secure and not p.privacy.secure_aggregation:
            raise GgeurError(
                "this site was started with a roster, and answers under [privacy] secure_aggregation alone",
                code="policy-secure-aggregation-required",
            )
        site.policy.check(p.privacy)
        if self.release.exact:
            site.always("radius", p.privacy.radius)
            site.always("projection", p.privacy.projection)
        self.seed = int(facts["seed"])
        self.store = Store(site.root, str(facts["run"]), int(facts["trial"]), site.client)
        self.masks = site.root / "masks" / self.store.identity  # what a sum under masks must remember between messages

    @property
    def settings_hash(self) -> NDArray[np.uint8]:
        """(32,): of the settings that this message brings."""
        said = json.dumps(self.facts["point"], sort_keys=True).encode()
        return np.frombuffer(hashlib.sha256(said).digest(), np.uint8)

    def forget(self) -> None:
        """The run is over: nothing of it is left here."""
        self.store.clear()
        shutil.rmtree(self.masks, ignore_errors=True)
        with suppress(OSError):  # those of other runs may still be there
            self.masks.parent.rmdir()

    def in_the_clear(self) -> None:
        """Raise where what is asked for may only be sent under a mask."""
        if self.point.privacy.secure_aggregation:
            raise GgeurError(
                "under [privacy] secure_aggregation this site sends its sums under masks alone",
                code="policy-masks-required",
            )

    def exact(self) -> None:
        """Raise where what is asked for, which has no noise in it, may not be sent."""
        self.in_the_clear()
        if not self.release.exact:
            raise GgeurError(
                "under [privacy] epsilon or mechanism this site sends noisy statistics alone, and this would be exact",
                code="policy-exact-statistics-refused",
            )

    def table(self, *, fresh: bool = False) -> EmbeddingTable:
        """The site's table in the federation's classes and domains; `fresh`, read or embedded anew, in its own.

        Its samples are in the units that the message brings, if it does.
        """
        table = self._protected(self.site.load(self.point, self.seed, self.store, fresh=fresh))
        if fresh:
            return table
        if "units" in self.arrays and not self.release.exact:
            raise GgeurError(
                "under [privacy] epsilon or mechanism samples are taken as they are in the ball, in no other units",
                code="policy-units-refused",
            )
        table, units = relabel(table, self.facts["classes"], self.facts["domains"]), self.arrays.get("units")
        return table if units is None else replace(table, x=Units.unpack(units).apply(table.x))

    def _protected(self, table: EmbeddingTable) -> EmbeddingTable:
        """The samples that take part, all of them in the ball that [privacy] names."""
        privacy, test = self.point.privacy, test_samples(table)
        if self.release.least_group:
            own = np.flatnonzero(~test)
            kept = own[large_groups(table.y[own], table.domains[own], self.release.least_group)]
            table = table.subset(np.sort(np.concatenate([kept, np.flatnonzero(test)])))
        return table if privacy.ball is None else in_ball(table, privacy.ball)
