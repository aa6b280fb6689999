"""Client certificates: the site behind one, and the federation's list of revoked ones."""

import base64
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ggeur.stats.errors import GgeurError

INVITATION_UNIT = "invitation"  # in the subject of a certificate that can only ask to join


@dataclass(frozen=True)
class Visitor:
    """A site, as the certificate of its connection describes it."""

    name: str
    serial: str  # of the certificate, in hexadecimal letters
    expires: datetime
    node_key: bytes  # the certificate's public key, as Flower's nodes send theirs in a header
    invited: bool = False  # it has an invitation to join, and no certificate of a node yet

    @staticmethod
    def of(certificate: bytes) -> "Visitor":
        """Return the owner of a `certificate` (DER) that the TLS library has verified."""
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization as s
        from cryptography.x509.oid import NameOID

        parsed = x509.load_der_x509_certificate(certificate)
        names = parsed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        key = parsed.public_key().public_bytes(s.Encoding.PEM, s.PublicFormat.SubjectPublicKeyInfo)
        return Visitor(
            name=str(names[0].value) if names else "",
            serial=f"{parsed.serial_number:x}",
            expires=parsed.not_valid_after_utc,
            node_key=base64.b64encode(key),
            invited=any(
                one.value == INVITATION_UNIT
                for one in parsed.subject.get_attributes_for_oid(NameOID.ORGANIZATIONAL_UNIT_NAME)
            ),
        )

    @property
    def expired(self) -> bool:
        """Return whether the certificate has expired; TLS checks only when a connection begins."""
        return datetime.now(UTC) > self.expires


class RevocationList:
    """A text file with the serial number or the name of a revoked certificate at the beginning of each line.

    It is read again when it has changed. No file means that nothing is revoked; an unreadable file stops everybody,
    since it may name anybody.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        self._revoked: frozenset[str] = frozenset()

    def names(self, visitor: Visitor) -> bool:
        """Return whether the list names this visitor; raise GgeurError where it cannot be read."""
        try:
            stat = self._path.stat()
            stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if stamp != self._stamp:
                lines = self._path.read_text(encoding="utf-8").splitlines()
                words = (line.partition("#")[0].strip() for line in lines)
                self._revoked = frozenset(word.lower() for word in words if word)
                self._stamp = stamp
        except FileNotFoundError:
            self._revoked, self._stamp = frozenset(), None
        except (OSError, ValueError) as error:
            self._stamp = None
            raise GgeurError(
                f"The list of revoked certificates, {self._path}, cannot be read; repair it.",
                code="revocations-unreadable",
            ) from error
        return not self._revoked.isdisjoint({visitor.serial, visitor.name.lower()})
