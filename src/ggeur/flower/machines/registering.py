"""Let sites in: their certificates, and their nodes' registration at the SuperLink."""

from collections.abc import Sequence
from pathlib import Path

from ggeur.flower.door.invitations import ASKED, fingerprint
from ggeur.flower.machines.certificates import SITES, make_site_certificate
from ggeur.flower.machines.control import Control
from ggeur.stats.errors import GgeurError


def let_in(server: Path, names: Sequence[str], public_key: Path | None, days: int) -> list[tuple[str, str]]:
    """Let in the sites `names`, all that have asked by default; return their names and their keys' fingerprints.

    With `public_key`, a file, it is the one site of that name, which has not asked by itself.
    """
    keys = {path.stem: path for path in sorted((server / ASKED).glob("*.pub"))}
    if public_key is not None:
        if len(names) != 1:
            raise GgeurError("--public-key is of one site; name it.", code="register-name-missing")
        keys = {names[0]: public_key}
    unknown = [name for name in names if name not in keys]
    if unknown or not keys:
        who = f"{unknown[0]} has" if unknown else "No site has"
        raise GgeurError(
            f"{who} asked to join, or {'is' if unknown else 'all are'} in already; a site asks when it starts.",
            code="register-nobody-asked",
        )
    done = []
    with Control(server) as control:
        for name in names or list(keys):
            path = keys[name]
            pem = _pem(path)
            if not (server / SITES / f"{name}.crt").exists():
                make_site_certificate(server, path, name, days)
            control.register(pem)
            done.append((name, fingerprint(path.read_text(encoding="utf-8"))))
            if public_key is None:
                path.unlink()
    return done


def _pem(path: Path) -> bytes:
    """Return a public key as Flower has it."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization as s

    try:
        key = s.load_ssh_public_key(path.read_bytes())
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise GgeurError(
            f"Cannot read {path}; it is a public key of `ggeur federate key`.", code="node-key-unreadable"
        ) from error
    return key.public_bytes(s.Encoding.PEM, s.PublicFormat.SubjectPublicKeyInfo)
