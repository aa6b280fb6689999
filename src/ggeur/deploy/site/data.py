"""A site's data: the table or image folder its node was started with, split and labelled as the federation agreed."""

import hmac
import json
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ggeur.core.custom import is_custom
from ggeur.core.errors import GgeurError
from ggeur.core.types import Bool, FloatArray
from ggeur.data.caches import cache_folder
from ggeur.data.files import write_bytes
from ggeur.data.table import TRAIN_SHARE, EmbeddingTable
from ggeur.deploy.site.site_policy import SitePolicy
from ggeur.deploy.site.store import Store
from ggeur.privacy.secure_aggregation.keys import KnownSites, sign
from ggeur.settings.schema import Settings

ALONE = "all"  # the one domain of a table that names none


class SiteData:
    """What `config`, of `--node-config`, says of a site.

    It has partition-id, and table or images; perhaps encoder, domain, store, custom-methods; for secure aggregation
    roster, key; and what it holds out for: min-count, epsilon, delta.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        partition = config.get("partition-id")
        if not isinstance(partition, int) or isinstance(partition, bool) or partition < 0:
            raise GgeurError(
                "Start the node with --node-config 'partition-id=0 ...', a number of its own from 0 on.",
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
        self.secure = "roster" in config  # it then sends no sum that is not masked
        self.terms = SitePolicy.of(config)

    @property
    def key(self) -> Path:
        """Its node's private key."""
        return Path(str(self._config.get("key")))

    def known_sites(self) -> KnownSites:
        """The roster of public keys that this site was given."""
        if not self.secure or "key" not in self._config:
            raise GgeurError(
                "this site has no roster of the others' public keys, which secure aggregation need: start it with "
                "--roster",
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
        """Raise where a site that holds out for something is asked with another `value` of `name` than the first time.

        Sums of the same samples, cut or divided in many ways, would give each sample away.
        """
        if not (self.secure or self.terms.min_count):
            return
        path = self.root / "asked.json"
        try:
            asked = json.loads(path.read_bytes()) if path.exists() else {}
        except ValueError as error:
            raise GgeurError(
                f"{path.name}, by which this site answers in one way, is damaged", code="site-answers-damaged"
            ) from error
        if asked.get(name, value) != value:
            raise GgeurError(
                f"this site was first asked with {name} = {asked[name]} and answers no other question; its {path.name} "
                "has what it goes by",
                code="policy-other-question",
            )
        if name not in asked:
            self.root.mkdir(parents=True, exist_ok=True)
            write_bytes(path, json.dumps(asked | {name: value}).encode())

    def salted(self, fingerprint: str) -> str:
        """A name for these data that nobody can guess who holds them, or a sample less: a keyed hash of
        `fingerprint`.
        """
        return hmac.digest(self._key(), fingerprint.encode(), "sha256").hex()

    def _key(self) -> bytes:
        """A secret of this site's own, made once."""
        key = self.root / "key"
        if not key.exists():
            self.root.mkdir(parents=True, exist_ok=True)
            write_bytes(key, secrets.token_bytes(32))
        return key.read_bytes()

    def check_imports(self, what: str, name: str) -> None:
        """Raise unless the node was told to import what the server names: `name`, a `what`."""
        if not self._imports:
            raise GgeurError(
                f"this site does not import the {what} '{name}'; start its node with --custom-methods",
                code="policy-custom-refused",
            )

    def allowed(self, name: str, what: str) -> str:
        """The `name` of a `what`, which this site has or may import."""
        if is_custom(name):
            self.check_imports(what, name)
        return name

    @property
    def clip(self) -> str:
        """The folder of a CLIP model with which the node was started as its encoder, if it was with one."""
        named = str(self._config.get("encoder") or "")
        return named if (Path(named) / "config.json").is_file() else ""

    def text(self, point: Settings, seed: int, store: Store, prompts: str | None) -> FloatArray | None:
        """Text embeddings of this site's own class names by these `prompts`, or any, if its table has them."""
        sets = self.load(point, seed, store, fresh=False).text
        return sets.get(prompts) if prompts is not None else next(iter(sets.values()), None)

    def load(self, point: Settings, seed: int, store: Store, *, fresh: bool) -> EmbeddingTable:
        """The table with its test mask, its own or drawn by `seed`; `point` says how images are embedded.

        They are embedded when `fresh`, kept in `store`, and read from there after that.
        """
        table = self._table(point, store, fresh=fresh)
        name = self._config.get("domain")
        if name is None and point.partition.kind != "dirichlet" and table.domain_names == (ALONE,):
            name = f"node-{self.client}"  # where nodes are domains, a site whose table names none is one of its own
        if name is not None and table.n_domains < 2:
            table = replace(table, domain_names=(str(name),))
        p = point.privacy
        if table.test is None and (p.epsilon is not None or p.secure_aggregation or self.terms != SitePolicy()):
            table = replace(table, test=self._held_out(table))
        return table.split(seed)

    def _held_out(self, table: EmbeddingTable) -> Bool:
        """(n,): test samples where sums are protected and none are marked: each sample by a keyed hash of itself.

        Drawn by a seed they would move with every sample that is added, and a server that asks under many seeds would
        learn of each sample as a test sample what it may not as a training sample.
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
        from ggeur.encode.encoder import DEFAULT, is_custom_encoder, load_encoder
        from ggeur.encode.job import embed

        ours, theirs = self._config.get("encoder"), point.data.encoder or DEFAULT
        if not ours and is_custom_encoder(theirs):
            self.check_imports("encoder", theirs)
        return embed(load(str(self._config["images"])), load_encoder(str(ours or theirs))).table


def test_samples(table: EmbeddingTable) -> Bool:
    """Which samples of a table that was loaded are test samples."""
    assert table.test is not None  # it has been split
    return table.test


def relabel(table: EmbeddingTable, classes: Sequence[str], domains: Sequence[str]) -> EmbeddingTable:
    """The samples of `table`, their labels counted in the federation's `classes` and `domains`."""
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
