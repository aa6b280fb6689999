"""A site's data: its table or image folder, split and labelled as the federation agreed."""

import hmac
import json
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ggeur.data.table import TRAIN_SHARE, EmbeddingTable
from ggeur.experiments.settings import Settings
from ggeur.flower.site.site_policy import SitePolicy
from ggeur.flower.site.store import Store
from ggeur.privacy.secure_aggregation.keys import KnownSites, sign
from ggeur.stats.custom import is_custom
from ggeur.stats.errors import GgeurError
from ggeur.stats.storage import cache_folder, write_bytes
from ggeur.stats.types import Bool, FloatArray

ALONE = "all"  # the one domain of a table that names none


class SiteData:
    """A site as its `config` (`--node-config`) describes it.

    Keys: partition-id, and table or images; optionally encoder, domain, store, custom-methods; for secure aggregation
    roster and key; for the site policy min-count, epsilon and delta.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        partition = config.get("partition-id")
        if not isinstance(partition, int) or isinstance(partition, bool) or partition < 0:
            raise GgeurError(
                "Start the node with --node-config 'partition-id=0 ...', a unique number from 0.",
                code="site-partition-id-missing",
            )
        self.client = partition
        if ("table" in config) == ("images" in config):
            raise GgeurError(
                'Start the node with either table="FILE.npz" or images="FOLDER" in --node-config.',
                code="site-data-not-named",
            )
        self._imports = config.get("custom-methods") is True
        self.root = Path(str(config.get("store") or cache_folder() / "federate"))
        self.secure = "roster" in config  # it then sends masked statistics only
        self.policy = SitePolicy.of(config)

    @property
    def key(self) -> Path:
        """Return the path of its node's private key."""
        return Path(str(self._config.get("key")))

    def known_sites(self) -> KnownSites:
        """Return the roster of public keys that this site was given."""
        if not self.secure or "key" not in self._config:
            raise GgeurError(
                "this site has no roster of public keys, which secure aggregation needs: start it with --roster",
                code="site-roster-missing",
            )
        return KnownSites(Path(str(self._config["roster"])))

    def check_roster(self) -> None:
        """Raise unless the roster can be read and has this site's own public key, under its number."""
        known, text = self.known_sites(), b"is this key mine?"
        try:
            known.check(self.client, sign(self.key, text), text)
        except GgeurError as error:
            raise GgeurError(
                f"The roster does not have this node's key as site {self.client}'s: {error}.",
                code="site-roster-key-mismatch",
            ) from error

    def always(self, name: str, value: float | None) -> None:
        """Raise where a site with a policy is asked with another `value` of `name` than the first time.

        Statistics of the same samples, clipped or grouped in many ways, would reveal each sample.
        """
        if not (self.secure or self.policy.min_count):
            return
        path = self.root / "asked.json"
        try:
            asked = json.loads(path.read_bytes()) if path.exists() else {}
        except ValueError as error:
            raise GgeurError(
                f"{path.name}, which fixes what this site answers, is damaged", code="site-answers-damaged"
            ) from error
        if asked.get(name, value) != value:
            raise GgeurError(
                f"this site was first asked with {name} = {asked[name]} and answers no other question; its {path.name} "
                "holds that value",
                code="policy-other-question",
            )
        if name not in asked:
            self.root.mkdir(parents=True, exist_ok=True)
            write_bytes(path, json.dumps(asked | {name: value}).encode())

    def salted(self, fingerprint: str) -> str:
        """Return a keyed hash of `fingerprint`, which nobody who holds the data, or all but one sample, can guess."""
        return hmac.digest(self._key(), fingerprint.encode(), "sha256").hex()

    def _key(self) -> bytes:
        """Return this site's secret, made once."""
        key = self.root / "key"
        if not key.exists():
            self.root.mkdir(parents=True, exist_ok=True)
            write_bytes(key, secrets.token_bytes(32))
        return key.read_bytes()

    def check_imports(self, what: str, name: str) -> None:
        """Raise unless the node may import `name`, a custom `what` that the server names."""
        if not self._imports:
            raise GgeurError(
                f"this site does not import the {what} '{name}'; start its node with --custom-methods",
                code="policy-custom-refused",
            )

    def allowed(self, name: str, what: str) -> str:
        """Return the `name` of a `what`, which this site has or may import."""
        if is_custom(name):
            self.check_imports(what, name)
        return name

    @property
    def clip(self) -> str:
        """Return the folder of the CLIP model that is the node's encoder, if it has one."""
        named = str(self._config.get("encoder") or "")
        return named if (Path(named) / "config.json").is_file() else ""

    def text(self, point: Settings, seed: int, store: Store, prompts: str | None) -> FloatArray | None:
        """Return text embeddings of this site's classes by these `prompts`, or any, if its table has them."""
        sets = self.load(point, seed, store, fresh=False).text
        return sets.get(prompts) if prompts is not None else next(iter(sets.values()), None)

    def load(self, point: Settings, seed: int, store: Store, *, fresh: bool) -> EmbeddingTable:
        """Return the table with its test mask, given or drawn by `seed`; `point` says how images are embedded.

        They are embedded when `fresh`, kept in `store`, and read from there after that.
        """
        table = self._table(point, store, fresh=fresh)
        name = self._config.get("domain")
        if name is None and point.partition.kind != "dirichlet" and table.domain_names == (ALONE,):
            name = (
                f"node-{self.client}"  # where nodes are domains, a site whose table names none is a domain of its own
            )
        if name is not None and table.n_domains < 2:
            table = replace(table, domain_names=(str(name),))
        p = point.privacy
        if table.test is None and (not p.release.exact or p.secure_aggregation or self.policy != SitePolicy()):
            table = replace(table, test=self._held_out(table))
        return table.split(seed)

    def _held_out(self, table: EmbeddingTable) -> Bool:
        """Return (n,): the test samples of protected statistics if none are marked, chosen by a keyed hash per sample.

        A split by a seed would change with every added sample. A server that asks with many seeds would learn about
        each sample, as a test sample, what it may not learn about training samples.
        """
        key, samples = self._key(), np.ascontiguousarray(table.x)
        drawn = [int.from_bytes(hmac.digest(key, sample.tobytes(), "sha256")[:8], "big") / 2**64 for sample in samples]
        return np.asarray(np.array(drawn) >= TRAIN_SHARE)

    def _table(self, point: Settings, store: Store, *, fresh: bool) -> EmbeddingTable:
        if "table" in self._config:
            return EmbeddingTable.load(str(self._config["table"]))
        path = store.shared() / "table.npz"
        if not fresh:
            with suppress(GgeurError):  # lost or damaged, it is made again
                return EmbeddingTable.load(path)
        self._embed(point).save(path)
        return EmbeddingTable.load(path)

    def _embed(self, point: Settings) -> EmbeddingTable:
        from ggeur.data.datasets import load
        from ggeur.encoders.encoder import DEFAULT, is_custom_encoder, load_encoder
        from ggeur.encoders.job import embed

        ours, theirs = self._config.get("encoder"), point.data.encoder or DEFAULT
        if not ours and is_custom_encoder(theirs):
            self.check_imports("encoder", theirs)
        return embed(load(str(self._config["images"])), load_encoder(str(ours or theirs))).table


def test_samples(table: EmbeddingTable) -> Bool:
    """Return which samples of a loaded table are test samples."""
    assert table.test is not None  # it has been split
    return table.test


def relabel(table: EmbeddingTable, classes: Sequence[str], domains: Sequence[str]) -> EmbeddingTable:
    """Return the samples of `table` with labels that index the federation's `classes` and `domains`."""
    return replace(
        table,
        y=_codes(table.class_names, classes)[table.y],
        domain=_codes(table.domain_names, domains)[table.domains],
        class_names=tuple(classes),
        domain_names=tuple(domains),
        text={},
    )


def _codes(own: Sequence[str], agreed: Sequence[str]) -> Any:
    place = {name: i for i, name in enumerate(agreed)}
    missing = [name for name in own if name not in place]
    if missing:
        raise GgeurError(
            f"the federation does not know this site's '{missing[0]}'; its table has changed", code="site-table-changed"
        )
    return np.array([place[name] for name in own], np.int64)
