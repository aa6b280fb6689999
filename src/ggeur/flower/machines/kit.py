"""A federation's folder: one for the server, and one to hand over to each site.

A site's folder has an invitation, a certificate that can ask to join and nothing else. The site makes its node key
itself, and the server's administrator lets that key in.
"""

import ipaddress
import stat
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from ggeur.experiments.grid import to_toml
from ggeur.flower.machines.certificates import (
    AUTHORITY,
    VALID_DAYS,
    check_certificate_name,
    make_certificates,
    make_invitation,
)
from ggeur.stats.errors import GgeurError
from ggeur.stats.storage import cannot, write_bytes

SERVER = "server"  # the server's folder, beside those of sites
FEDERATION = "federation.toml"  # in the server's folder: its address and its sites
SITE, INVITATION, NODE_KEY = "site.toml", "invitation.pem", "node"
_RUN = stat.S_IRWXU


@dataclass(frozen=True)
class Facts:
    """What the server's folder says about its federation."""

    host: str  # by which sites reach the server
    port: int
    sites: tuple[str, ...]  # in the order of their numbers

    @property
    def listen(self) -> str:
        """Return the address to listen on: loopback where sites reach the server by it, else every one."""
        try:
            return "127.0.0.1" if ipaddress.ip_address(self.host).is_loopback else "0.0.0.0"
        except ValueError:
            return "127.0.0.1" if self.host == "localhost" else "0.0.0.0"


@dataclass(frozen=True)
class SiteKit:
    """A site's folder."""

    folder: Path
    server: str  # HOST:PORT
    name: str
    number: int

    @property
    def authority(self) -> Path:
        """Return the federation's certificate."""
        return self.folder / AUTHORITY

    @property
    def invitation(self) -> Path:
        """Return the certificate that can ask to join, with its key."""
        return self.folder / INVITATION

    @property
    def key(self) -> Path:
        """Return the node key, which is made here."""
        return self.folder / NODE_KEY

    @property
    def certificate(self) -> Path:
        """Return the node's certificate, which the server sends."""
        return self.folder / f"{NODE_KEY}.crt"


def read_federation(server: Path) -> Facts | None:
    """Return what the folder `server` says; None where it was not made with a kit."""
    path = server / FEDERATION
    if not path.exists():
        return None
    found = _read(path)
    try:
        return Facts(str(found["host"]), int(found["port"]), tuple(map(str, found["sites"])))
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path) from error


def read_kit(folder: Path) -> SiteKit:
    """Return the site's folder `folder`."""
    path = folder / SITE
    if not path.exists():
        raise GgeurError(
            f"There is no {path}; --kit names a folder that `ggeur federate kit` made for this site.",
            code="kit-missing",
        )
    found = _read(path)
    try:
        return SiteKit(folder, str(found["server"]), str(found["name"]), int(found["number"]))
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path) from error


def make_kit(folder: Path, sites: Sequence[str], host: str, port: int, days: int = VALID_DAYS) -> None:
    """Make `folder` with a folder for the server, which sites reach by `host` and `port`, and one for each site."""
    for name in sites:
        check_certificate_name(name)
    if len(set(map(str.lower, sites))) < len(sites) or SERVER in sites:
        raise GgeurError(
            f"--sites are names, each once, and none is '{SERVER}', as in --sites leeds,york.", code="kit-sites-invalid"
        )
    if folder.exists() and any(folder.iterdir()):
        raise GgeurError(f"The folder {folder} is not empty; name a new one.", code="folder-not-empty")
    with cannot(f"write {folder}"):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    server = folder / SERVER
    hosts = [host] if host in ("127.0.0.1", "localhost") else [host, "localhost"]
    make_certificates(server, hosts, days)
    facts = {"host": host, "port": port, "sites": list(sites)}
    write_bytes(server / FEDERATION, to_toml(facts).encode())
    words = {"server": f"{host}:{port}", "host": host, "port": port, "folder": "/opt/ggeur", "sites": len(sites)}
    for name in ("README.md", "ggeur-link.service", "compose.yaml", "Dockerfile"):
        _write(server / name, f"server/{name}", words)
    for number, name in enumerate(sites):
        kit = folder / name
        kit.mkdir(mode=0o700)
        (kit / AUTHORITY).write_bytes((server / AUTHORITY).read_bytes())
        make_invitation(server, kit / INVITATION, name, days)
        about = {"server": f"{host}:{port}", "name": name, "number": number}
        write_bytes(kit / SITE, to_toml(about).encode())
        for file in ("README.md", "start", "ggeur-node.service"):
            _write(kit / file, f"site/{file}", {**words, "name": name, "number": number})
        (kit / "start").chmod(_RUN)


def _write(path: Path, template: str, words: dict[str, Any]) -> None:
    """Write a template of the package with `words` in the place of their @names@."""
    text = (files("ggeur.flower.machines") / "templates" / f"{template}.txt").read_text(encoding="utf-8")
    for name, value in words.items():
        text = text.replace(f"@{name}@", str(value))
    write_bytes(path, text.encode())


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _damaged(path) from error


def _damaged(path: Path) -> GgeurError:
    return GgeurError(f"{path} is damaged; `ggeur federate kit` made it.", code="kit-damaged")
