"""TLS certificates and node keys: the federation's authority certifies its server and sites."""

import ipaddress
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ggeur.flower.door.visitors import INVITATION_UNIT
from ggeur.stats.errors import GgeurError
from ggeur.stats.storage import cannot, write_bytes

AUTHORITY, AUTHORITY_KEY, SERVER, SERVER_KEY = "ca.crt", "ca.key", "server.crt", "server.key"
SITES = "sites"  # folder with the certificates of sites, each under its name
REVOKED = "revoked"  # which of them are revoked, by serial number or name, one a line
ROSTER = "roster"  # the public keys of all nodes, for secure aggregation
VALID_DAYS = 365
_MOST_DAYS = 36500
_AUTHORITY_NAME = "ggeur federation"
_SITE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,62}")
_NAME = re.compile(r"(\*\.)?([A-Za-z0-9_-]{1,63}\.)*[A-Za-z0-9_-]{1,63}")


def make_certificates(folder: Path, hosts: Sequence[str], days: int = VALID_DAYS, *, closed: bool = False) -> None:
    """Write ca.crt, ca.key, server.crt and server.key; `hosts` are names and addresses by which sites reach the server.

    With `closed` the authority's own key is not written: nobody can make another certificate that it vouches for.
    """
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509 import SubjectAlternativeName
    from cryptography.x509.oid import ExtendedKeyUsageOID

    if not hosts:
        raise GgeurError(
            "Name at least one host: the name or address by which nodes reach the SuperLink.",
            code="certificate-host-missing",
        )
    names = [_host(text) for text in hosts]
    _check_days(days)
    with cannot(f"write {folder}"):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _refuse_existing(*(folder / name for name in (AUTHORITY, AUTHORITY_KEY, SERVER, SERVER_KEY)))
    authority_key, server_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = _certificate(_AUTHORITY_NAME, authority_key.public_key(), authority_key, days)
    purpose, alternatives = ExtendedKeyUsageOID.SERVER_AUTH, SubjectAlternativeName(names)
    server = _certificate("ggeur server", server_key.public_key(), authority_key, days, purpose, alternatives)
    _write(folder / AUTHORITY, authority)
    _write(folder / SERVER, server)
    _write(folder / SERVER_KEY, _pem(server_key), private=True)
    if not closed:
        _write(folder / AUTHORITY_KEY, _pem(authority_key), private=True)


def make_site_certificate(folder: Path, public_key: Path, name: str, days: int = VALID_DAYS) -> Path:
    """Write sites/`name`.crt, which a site with this node key shows to the door of the federation in `folder`.

    It is made for the key itself, `public_key` as `make_node_key` wrote it, so no other node can use it.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization as s
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    check_certificate_name(name)
    _check_days(days)
    authority_key = folder / AUTHORITY_KEY
    if not authority_key.exists():
        raise GgeurError(
            f"There is no {authority_key}, which makes certificates of sites; `ggeur federate certificates` writes it "
            "beside new certificates.",
            code="authority-key-missing",
        )
    try:
        signer = s.load_pem_private_key(authority_key.read_bytes(), None)
        key = s.load_ssh_public_key(public_key.read_bytes())
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise GgeurError(
            f"Cannot read {public_key} or {authority_key}; the first is a public key of `ggeur federate key`.",
            code="node-key-unreadable",
        ) from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise GgeurError(
            f"{public_key} is not a node's public key; make one with `ggeur federate key`.", code="node-key-invalid"
        )
    path = folder / SITES / f"{name}.crt"
    with cannot(f"write {path.parent}"):
        path.parent.mkdir(exist_ok=True, mode=0o700)
    if path.exists():
        raise GgeurError(
            f"{path} is there already; revoke it first with `ggeur federate revoke {folder} {name}`.",
            code="certificate-exists",
        )
    _write(path, _certificate(name, key, signer, days, ExtendedKeyUsageOID.CLIENT_AUTH))
    return path


def make_invitation(folder: Path, path: Path, name: str, days: int = VALID_DAYS) -> None:
    """Write to `path` a certificate and its key, by which the site `name` may ask the federation in `folder` to join.

    It is good for nothing else: the site's node gets another one, for a key that the site makes itself.
    """
    from cryptography.hazmat.primitives import serialization as s
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    check_certificate_name(name)
    signer = s.load_pem_private_key((folder / AUTHORITY_KEY).read_bytes(), None)
    key = ec.generate_private_key(ec.SECP256R1())
    purpose = ExtendedKeyUsageOID.CLIENT_AUTH
    certificate = _certificate(name, key.public_key(), signer, days, purpose, unit=INVITATION_UNIT)
    _write(path, certificate + _pem(key), private=True)


def revoke_site(folder: Path, name: str) -> str:
    """Add the certificate of the site `name` to the revocation list, and return its serial number."""
    from cryptography import x509

    check_certificate_name(name)
    path, revoked = folder / SITES / f"{name}.crt", folder / REVOKED
    if not path.exists():
        raise GgeurError(
            f"There is no {path}; the certificates of sites lie in {path.parent}.", code="certificate-unknown"
        )
    try:
        serial = f"{x509.load_pem_x509_certificate(path.read_bytes()).serial_number:x}"
    except ValueError as error:
        raise GgeurError(
            f"{path} is not a certificate; write the site's name into {revoked} by hand.", code="certificate-invalid"
        ) from error
    lines = revoked.read_text(encoding="utf-8") if revoked.exists() else ""
    if lines and not lines.endswith("\n"):
        lines += "\n"
    write_bytes(revoked, f"{lines}{serial}  # {name}, {datetime.now(UTC):%Y-%m-%d}\n".encode())
    path.unlink()
    return serial


def check_certificate_name(name: str) -> None:
    """Raise unless `name` is valid for a file and a certificate."""
    if not _SITE.fullmatch(name):
        raise GgeurError(
            f"{name!r} is no name for a site: use up to 63 letters, digits, dots, dashes and underscores.",
            code="site-name-invalid",
        )


def _certificate(
    name: str,
    key: Any,
    authority_key: Any,
    days: int,
    purpose: Any = None,
    alternatives: Any = None,
    unit: str | None = None,
) -> bytes:
    """Return a certificate for `key`, of the authority itself if it has no `purpose`."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives import serialization as s
    from cryptography.x509.oid import NameOID

    now, authority = datetime.now(UTC), purpose is None
    subject = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    subject += [] if unit is None else [x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit)]
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(subject))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _AUTHORITY_NAME)]))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # clocks differ
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=0 if authority else None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
    )
    if authority:
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        builder = builder.add_extension(usage, critical=True)
    else:  # a site's certificate is none for a server, nor the other way round
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    if alternatives is not None:
        builder = builder.add_extension(alternatives, critical=False)
    return builder.sign(authority_key, hashes.SHA256()).public_bytes(s.Encoding.PEM)


def _pem(key: Any) -> bytes:
    from cryptography.hazmat.primitives import serialization as s

    return bytes(key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption()))


def _check_days(days: int) -> None:
    if not 0 < days <= _MOST_DAYS:
        raise GgeurError(
            f"Certificates can be valid for 1 to {_MOST_DAYS} days, not {days}.", code="certificate-days-range"
        )


def make_node_key(path: Path) -> None:
    """Write a node's private key to `path` and its public key, to be registered, to `path`.pub."""
    from cryptography.hazmat.primitives import serialization as s
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP384R1())
    with cannot(f"write {path.parent}"):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    _refuse_existing(path, path.with_name(path.name + ".pub"))
    secret = key.private_bytes(s.Encoding.PEM, s.PrivateFormat.OpenSSH, s.NoEncryption())
    _write(path, secret, private=True)
    public = key.public_key().public_bytes(s.Encoding.OpenSSH, s.PublicFormat.OpenSSH)
    _write(path.with_name(path.name + ".pub"), public + b"\n")


def _host(text: str) -> Any:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        if not _NAME.fullmatch(text):
            raise GgeurError(
                f"{text!r} is no host: give a name such as fl.example.org or an address, without port or https://, "
                "and names with other letters in their xn-- form.",
                code="certificate-host-invalid",
            ) from None
        return x509.DNSName(text)


def _refuse_existing(*paths: Path) -> None:
    """Refuse existing `paths` before the first file is written, so that files of two runs do not mix."""
    for path in paths:
        if path.exists():
            raise GgeurError(
                f"{path} is there already; keys are not overwritten, so name another folder.",
                code="certificate-key-exists",
            )


def write_private(path: Path, content: bytes) -> None:
    """Write a secret that only its user can ever read, and overwrite nothing."""
    _write(path, content, private=True)


def _write(path: Path, content: bytes, *, private: bool = False) -> None:
    with cannot(f"write {path}"):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o644)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
