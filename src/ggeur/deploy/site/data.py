"""A site's data: the table or image folder its node was started with, split and labelled as the federation agreed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ggeur.core.errors import GgeurError
from ggeur.core.names import is_own
from ggeur.data.caches import cache_folder
from ggeur.data.table import EmbeddingTable
from ggeur.deploy.site.store import Store
from ggeur.deploy.wire.packing import Arrays
from ggeur.federation.augmentation import Augmentation
from ggeur.methods import kind_of
from ggeur.methods.algorithm import Solved
from ggeur.settings.schema import Settings

Facts = dict[str, Any]
Reply = tuple[Facts, Arrays]

ALONE = "all"  # the one domain of a table that names none


class Site:
    """What `--node-config` says: partition-id, and table or images; perhaps encoder, domain, store, own-methods."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        partition = config.get("partition-id")
        if not isinstance(partition, int) or isinstance(partition, bool) or partition < 0:
            raise GgeurError("Start the node with --node-config 'partition-id=0 ...', a number of its own from 0 on.")
        self.client = partition
        if ("table" in config) == ("images" in config):
            raise GgeurError('Start the node with either table="FILE.npz" or images="FOLDER" in --node-config.')
        self._imports = config.get("own-methods") is True
        self.root = Path(str(config.get("store") or cache_folder() / "federate"))

    def check_imports(self, what: str, name: str) -> None:
        """Raise unless the node was told to import what the server names: `name`, a `what`."""
        if not self._imports:
            raise GgeurError(f"this site does not import the {what} '{name}'; start its node with --own-methods")

    def load(self, point: Settings, seed: int, store: Store, *, fresh: bool) -> EmbeddingTable:
        """The table with its test mask; images are embedded when `fresh`, and read from the store after that."""
        if "table" in self._config:
            table = EmbeddingTable.load(str(self._config["table"]))
        else:
            path = store.shared() / "table.npz"
            if fresh or not path.exists():
                self._embed(point).save(path)
            table = EmbeddingTable.load(path)
        return self._named(table, point).split(seed)

    def _embed(self, point: Settings) -> EmbeddingTable:
        from ggeur.data.datasets import load
        from ggeur.encode.encoder import DEFAULT, is_own_encoder, load_encoder
        from ggeur.encode.job import embed

        ours, theirs = self._config.get("encoder"), point.data.encoder or DEFAULT
        if not ours and is_own_encoder(theirs):
            self.check_imports("encoder", theirs)
        return embed(load(str(self._config["images"])), load_encoder(str(ours or theirs))).table

    def _named(self, table: EmbeddingTable, point: Settings) -> EmbeddingTable:
        """A site is a domain of its own where nodes are domains and its table names none."""
        name = self._config.get("domain")
        if name is None and point.partition.kind != "dirichlet" and table.domain_names == (ALONE,):
            name = f"node-{self.client}"
        if name is None or table.n_domains > 1:
            return table
        return replace(table, domain_names=(str(name),))


class Request:
    """A message's common part: which run, which cell of it, which settings."""

    def __init__(self, site: Site, facts: Facts) -> None:
        self.site, self.facts = site, facts
        self.point = Settings.model_validate(facts["point"])
        p = self.point
        for what, name in (("method", p.train.method), ("augmentation", p.augment.kind), ("head", p.train.head)):
            if is_own(name):
                site.check_imports(what, name)
        self.seed = int(facts["seed"])
        self.store = Store(site.root, str(facts["run"]), int(facts["cell"]), site.client)

    @property
    def augmentation(self) -> Augmentation:
        """What the server draws for; a head that is solved needs no training set."""
        kind = "none" if kind_of(self.point.train.method) is Solved else self.point.augment.kind
        return self.point.augment.model_copy(update={"kind": kind}).build()

    def table(self, *, fresh: bool = False) -> EmbeddingTable:
        table = self.site.load(self.point, self.seed, self.store, fresh=fresh)
        return table if fresh else relabelled(table, self.facts["classes"], self.facts["domains"])


def relabelled(table: EmbeddingTable, classes: Sequence[str], domains: Sequence[str]) -> EmbeddingTable:
    """The same rows, their labels counted in the federation's classes and domains."""
    return replace(
        table,
        y=_codes(table.class_names, classes)[table.y],
        domain=_codes(table.domain_names, domains)[table.domains],
        class_names=tuple(classes),
        domain_names=tuple(domains),
        text=None,
    )


def _codes(own: Sequence[str], agreed: Sequence[str]) -> Any:
    place = {name: i for i, name in enumerate(agreed)}
    missing = [name for name in own if name not in place]
    if missing:
        raise GgeurError(f"the federation does not know this site's '{missing[0]}'; its table has changed")
    return np.array([place[name] for name in own], np.int64)
