"""TLS certificates and node keys: an authority of the federation's own, a server it vouches for, and a key per node."""

import ipaddress
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ggeur.core.errors import GgeurError
from ggeur.data.files import cannot

AUTHORITY, SERVER, SERVER_KEY = "ca.crt", "server.crt", "server.key"
ROSTER = "roster"  # the public keys of all nodes, for secure aggregation
VALID_DAYS = 365
_MOST_DAYS = 36500
_NAME = re.compile(r"(\*\.)?([A-Za-z0-9_-]{1,63}\.)*[A-Za-z0-9_-]{1,63}")


def make_certificates(folder: Path, hosts: Sequence[str], days: int = VALID_DAYS) -> None:
    """Write ca.crt, server.crt and server.key; `hosts` are the names and addresses by which nodes reach the server.

    The authority's own key is never written: nobody can make another certificate that these nodes would trust.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives import serialization as s
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    if not hosts:
        raise GgeurError("Name at least one host: the name or address by which nodes reach the SuperLink.")
    names = [_host(text) for text in hosts]
    if not 0 < days <= _MOST_DAYS:
        raise GgeurError(f"Certificates can be valid for 1 to {_MOST_DAYS} days, not {days}.")
    now, pem = datetime.now(UTC), s.Encoding.PEM

    def named(text: str) -> Any:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    def certificate(subject: Any, key: Any, *, authority: bool) -> Any:
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(named("ggeur federation"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))  # clocks differ
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=0 if authority else None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
            )
        )
        if authority:
            usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
            builder = builder.add_extension(usage, critical=True)
        else:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(authority_key, hashes.SHA256())

    authority_key, server_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    with cannot(f"write {folder}"):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _refuse_existing(folder / AUTHORITY, folder / SERVER, folder / SERVER_KEY)
    _write(folder / AUTHORITY, certificate(named("ggeur federation"), authority_key, authority=True).public_bytes(pem))
    _write(folder / SERVER, certificate(named("ggeur server"), server_key, authority=False).public_bytes(pem))
    secret = server_key.private_bytes(pem, s.PrivateFormat.PKCS8, s.NoEncryption())
    _write(folder / SERVER_KEY, secret, private=True)


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
                "and names with other letters in their xn-- form."
            ) from None
        return x509.DNSName(text)


def _refuse_existing(*paths: Path) -> None:
    """Before the first file is written, so that none is left beside others that it does not belong to."""
    for path in paths:
        if path.exists():
            raise GgeurError(f"{path} is there already; keys are not overwritten, so name another folder.")


def _write(path: Path, content: bytes, *, private: bool = False) -> None:
    """A key is never readable by others, not even for a moment, and never overwritten."""
    with cannot(f"write {path}"):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o644)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
