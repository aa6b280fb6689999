"""Authenticate the sites of an attempt: keys made for it alone, signed by sites whose public keys are known.

The server passes the keys on and could replace them by its own. So each is signed by the key of the site's node, and
the other sites check the signature against a roster of public keys that they did not get from the server.
"""

import hashlib
import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ggeur.stats.errors import GgeurError
from ggeur.stats.storage import cannot


class Attempt(NamedTuple):
    """One attempt at a total: its run, `what` is added, a name that is never used again, and its sites."""

    run: str
    what: str
    name: str
    sites: tuple[int, ...]

    def text(self, *more: Any) -> bytes:
        """Return the bytes to sign or hash: all of the attempt, and `more`."""
        return json.dumps(["ggeur secure aggregation 1", *self, *more]).encode()


class Secrets(NamedTuple):
    """A site's secrets during an attempt, in hexadecimal: its X25519 key, and the seed of its own mask."""

    private: str
    seed: str

    @classmethod
    def new(cls) -> "Secrets":
        return cls(secrets.token_hex(32), secrets.token_hex(32))


class Announced(NamedTuple):
    """A site's public key for an attempt, the domains that it has samples of, and its signature on both."""

    public: str
    domains: tuple[str, ...]
    signature: str


def announce(attempt: Attempt, site: int, own: Secrets, domains: tuple[str, ...], node_key: Path) -> Announced:
    """Return the announcement of `site`, signed by the key in the file `node_key`."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    public = X25519PrivateKey.from_private_bytes(bytes.fromhex(own.private)).public_key().public_bytes_raw().hex()
    return Announced(public, domains, sign(node_key, attempt.text("key", site, public, domains)))


def transcript(attempt: Attempt, announced: Mapping[int, Announced]) -> bytes:
    """Return a hash of the attempt's sites and keys, which the masks use, so that all sites must have the same."""
    each = [(site, announced[site].public, announced[site].domains) for site in attempt.sites]
    return hashlib.sha256(attempt.text("keys", each)).digest()


class KnownSites:
    """The roster: public keys of all sites of a federation by number, in a file of lines `0 ecdsa-sha2-... AAAA`."""

    def __init__(self, path: Path) -> None:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization import load_ssh_public_key

        self._keys: dict[int, Any] = {}
        self.names: dict[int, str] = {}  # of sites, by their keys, as numbers differ between federations
        with cannot(f"read the roster {path}"):
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        for line in filter(None, (line.partition("#")[0].strip() for line in lines)):
            number, *key = line.split()
            if not number.isdecimal() or int(number) in self._keys:
                raise GgeurError(
                    f"{path} must name each site once, as `0 ecdsa-sha2-nistp384 AAAA...`, not {line!r}.",
                    code="roster-line-invalid",
                )
            try:
                self._keys[int(number)] = load_ssh_public_key(" ".join(key[:2]).encode())
            except (ValueError, UnsupportedAlgorithm) as error:
                raise GgeurError(
                    f"{path} has no public key of site {number} that can be read.", code="roster-key-unreadable"
                ) from error
            name = hashlib.sha256(key[1].encode()).hexdigest()[:16]
            if name in self.names.values():
                raise GgeurError(
                    f"{path} has the same public key for two sites; give each its own.", code="roster-key-repeated"
                )
            self.names[int(number)] = name

    def __contains__(self, site: int) -> bool:
        return site in self._keys

    def __len__(self) -> int:
        return len(self._keys)

    def check(self, site: int, signature: str, text: bytes) -> None:
        """Raise unless `signature` on `text` is by `site`."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.hashes import SHA384

        try:
            self._keys[site].verify(bytes.fromhex(signature), text, ec.ECDSA(SHA384()))
        except (InvalidSignature, KeyError, ValueError, TypeError, AttributeError) as error:
            raise GgeurError(
                f"what came as site {site}'s is not signed by the key that the roster has of it",
                code="site-signature-invalid",
            ) from error

    def check_keys(self, attempt: Attempt, announced: Mapping[int, Announced]) -> None:
        """Raise unless `announced` has exactly the keys of the sites of `attempt`, each signed by its site."""
        if announced.keys() != set(attempt.sites):
            raise GgeurError("the keys are not those of the sites of this attempt", code="site-keys-mismatch")
        for site, one in announced.items():
            self.check(site, one.signature, attempt.text("key", site, one.public, one.domains))


def sign(node_key: Path, text: bytes) -> str:
    """Return the signature on `text` by the private key in the file `node_key`."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA384
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key

    with cannot(f"read this node's key {node_key}"):
        content = node_key.read_bytes()
    try:
        key = load_ssh_private_key(content, password=None)
    except (ValueError, TypeError) as error:
        raise GgeurError(
            f"{node_key} is no private key that `ggeur federate key` made.", code="roster-private-key-invalid"
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise GgeurError(
            f"{node_key} is no private key that `ggeur federate key` made.", code="roster-private-key-invalid"
        )
    return str(key.sign(text, ec.ECDSA(SHA384())).hex())
