"""Ed25519 signatures on files of statistics: a site signs with its key, and a coordinator admits keys that it knows.

Keys are PEM files, as `openssl genpkey -algorithm ed25519` writes them. Needs the extra `sign`.
"""

import os
from pathlib import Path
from typing import Any

from ggeur.federation.statistics_file import StatisticsFile
from ggeur.stats.errors import GgeurError, how_to_install
from ggeur.stats.storage import cannot, write_bytes

PUBLIC = ".pub"
_NO_KEY = "is no Ed25519 key in PEM that has no password"


class SigningKey:
    """The private key of a site, in the file `path`; made there, with the public key beside it, if there is none."""

    def __init__(self, path: Path) -> None:
        ed25519, serialization = _cryptography()
        self.path, self.public, self.made = path, path.with_suffix(PUBLIC), not path.exists()
        if path.suffix == PUBLIC:
            raise GgeurError(f"{path} is a public key: name the private one.", code="signing-key-invalid")
        if self.made:
            self._key = ed25519.Ed25519PrivateKey.generate()
            form = serialization.PrivateFormat.PKCS8
            content = self._key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            with cannot(f"write {path}"), os.fdopen(os.open(path, flags, 0o600), "wb") as file:
                file.write(content)
            form = serialization.PublicFormat.SubjectPublicKeyInfo
            write_bytes(self.public, self._key.public_key().public_bytes(serialization.Encoding.PEM, form))
            return
        with cannot(f"read {path}"):
            content = path.read_bytes()
        try:
            self._key = serialization.load_pem_private_key(content, None)
        except (ValueError, TypeError) as error:
            raise GgeurError(f"{path} {_NO_KEY}.", code="signing-key-invalid") from error
        if not isinstance(self._key, ed25519.Ed25519PrivateKey):
            raise GgeurError(f"{path} {_NO_KEY}.", code="signing-key-invalid")

    def sign(self, statement: bytes) -> bytes:
        """Return the signature, 64 bytes."""
        return bytes(self._key.sign(statement))


class Trust:
    """The sites whose public keys lie in a `folder`: leeds.pub admits the site leeds, and nobody else."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise GgeurError(f"There is no folder {folder} of public keys (SITE.pub).", code="folder-missing")
        self.folder = folder

    def check(self, file: StatisticsFile) -> None:
        """Raise GgeurError unless `file` is signed by the key of its site."""
        ed25519, serialization = _cryptography()
        path = self.folder / f"{file.site}{PUBLIC}"
        if not path.is_file():
            raise GgeurError(
                f"The site '{file.site}' is not trusted: {self.folder} has no {path.name}.", code="site-untrusted"
            )
        if not file.signature:
            raise GgeurError(
                f"The statistics of '{file.site}' are not signed: it signs them with `ggeur summarize --key`.",
                code="statistics-unsigned",
            )
        with cannot(f"read {path}"):
            content = path.read_bytes()
        try:
            key = serialization.load_pem_public_key(content)
        except (ValueError, TypeError) as error:
            raise GgeurError(f"{path} is no public Ed25519 key in PEM.", code="signing-key-invalid") from error
        if not isinstance(key, ed25519.Ed25519PublicKey):
            raise GgeurError(f"{path} is no public Ed25519 key in PEM.", code="signing-key-invalid")
        from cryptography.exceptions import InvalidSignature

        try:
            key.verify(file.signature, file.statement)
        except InvalidSignature as error:
            raise GgeurError(
                f"The statistics of '{file.site}' are not signed by the key {path}, or were changed after that.",
                code="statistics-signature-wrong",
            ) from error


def _cryptography() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise GgeurError(f"Signatures need an extra: {how_to_install('sign')}.", code="extra-missing") from error
    return ed25519, serialization
