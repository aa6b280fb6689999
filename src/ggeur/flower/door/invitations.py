"""Sites that ask to join with an invitation, by a key of their own, until the administrator lets them in."""

import hashlib
import json
import os
from base64 import b64encode
from pathlib import Path

from ggeur.flower.door.visitors import Visitor
from ggeur.stats.errors import GgeurError
from ggeur.stats.storage import write_bytes

ASKED = "asked"  # folder with the public keys of sites that ask to join
_LONGEST = 1000  # characters of a public key


def fingerprint(public_key: str) -> str:
    """Return the fingerprint of a public key in OpenSSH's form, as `ssh-keygen -l` prints it."""
    from cryptography.hazmat.primitives import serialization as s

    key = s.load_ssh_public_key(public_key.encode())
    whole = key.public_bytes(s.Encoding.OpenSSH, s.PublicFormat.OpenSSH).split()[1]
    return "SHA256:" + b64encode(hashlib.sha256(_decoded(whole)).digest()).decode().rstrip("=")


def _decoded(text: bytes) -> bytes:
    from base64 import b64decode

    return b64decode(text)


class Invitations:
    """What sites with an invitation have asked, kept in the server's `folder` beside their certificates."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def ask(self, visitor: Visitor, body: bytes) -> tuple[str | None, str]:
        """Return the certificate of the site's node, or None while it waits, and the fingerprint of its key.

        Raise GgeurError where the key is none, or the site has asked with another one before.
        """
        from cryptography.hazmat.primitives import serialization as s
        from cryptography.hazmat.primitives.asymmetric import ec

        try:
            text = str(json.loads(body)["public_key"])
            key = s.load_ssh_public_key(text[:_LONGEST].encode())
            if not isinstance(key, ec.EllipticCurvePublicKey):
                raise ValueError("another kind of key")
        except Exception as error:  # whatever a stranger to the protocol may send
            raise GgeurError("An invitation comes with a node's public key.", code="join-key-invalid") from error
        public = key.public_bytes(s.Encoding.OpenSSH, s.PublicFormat.OpenSSH).decode()
        made = self._folder / "sites" / f"{visitor.name}.crt"
        if made.exists():
            from cryptography import x509

            certificate = made.read_bytes()
            if x509.load_pem_x509_certificate(certificate).public_key() != key:
                raise GgeurError(
                    f"{visitor.name} has joined already, with another node key; `ggeur federate revoke` ends that one.",
                    code="join-other-key",
                )
            return certificate.decode(), fingerprint(public)
        asked = self._folder / ASKED / f"{visitor.name}.pub"
        if not asked.exists():
            asked.parent.mkdir(mode=0o700, exist_ok=True)
            os.chmod(asked.parent, 0o700)
            write_bytes(asked, f"{public}\n".encode())
        elif asked.read_text(encoding="utf-8").split()[:2] != public.split()[:2]:
            raise GgeurError(
                f"Somebody has asked to join as {visitor.name} with another node key; if that was nobody of the "
                f"site, or its key is lost, remove {ASKED}/{visitor.name}.pub at the server.",
                code="join-asked-other-key",
            )
        return None, fingerprint(public)
