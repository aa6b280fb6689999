"""Certificates that TLS accepts and keys that Flower accepts, readable by their owner alone."""

import os
import socket
import ssl
import stat
import threading

import pytest

from ggeur.flower.machines.certificates import (
    make_certificates,
    make_node_key,
    make_site_certificate,
    revoke_site,
)
from ggeur.flower.machines.loopback import Loopback
from ggeur.stats.errors import GgeurError

pytestmark = pytest.mark.needs("flower")


def shaken_hands(folder, host):
    """Whether a client that trusts ca.crt accepts the server under the name `host`."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "server.crt", folder / "server.key")
    client = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    ours, theirs = socket.socketpair()

    def serve():
        try:
            server.wrap_socket(theirs, server_side=True).close()
        except (ssl.SSLError, OSError):
            theirs.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        client.wrap_socket(ours, server_hostname=host).close()
        return True
    except ssl.SSLCertVerificationError:
        return False
    finally:
        ours.close()
        thread.join()


def test_the_server_is_trusted_under_its_names_only(tmp_path):
    make_certificates(tmp_path / "c", ["127.0.0.1", "fl.example.org"])
    assert shaken_hands(tmp_path / "c", "127.0.0.1") and shaken_hands(tmp_path / "c", "fl.example.org")
    assert not shaken_hands(tmp_path / "c", "other.example.org")


def test_secrets_are_the_owners_alone_and_never_overwritten(tmp_path):
    make_certificates(tmp_path / "c", ["localhost"])
    make_node_key(tmp_path / "c" / "node")
    for name in ("ca.key", "server.key", "node"):
        assert stat.S_IMODE((tmp_path / "c" / name).stat().st_mode) == 0o600
    with pytest.raises(GgeurError, match="not overwritten"):
        make_node_key(tmp_path / "c" / "node")
    with pytest.raises(GgeurError, match="at least one host"):
        make_certificates(tmp_path / "d", [])


def test_a_key_is_made_private_whatever_the_umask_and_without_touching_it(tmp_path, monkeypatch):
    before = os.umask(0)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "umask", lambda mask: pytest.fail("it is the whole process's"))
            make_node_key(tmp_path / "c" / "node")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "c" / "node").stat().st_mode) == 0o600


@pytest.mark.parametrize("host", ["", "fl.example.org:8000", "https://fl.example.org", "müller.example", "a..b", "a b"])
def test_what_is_no_host_is_refused_before_anything_is_written(tmp_path, host):
    with pytest.raises(GgeurError, match="is no host"):
        make_certificates(tmp_path / "c", ["localhost", host])
    with pytest.raises(GgeurError, match="days"):
        make_certificates(tmp_path / "c", ["localhost"], days=10**8)
    assert not (tmp_path / "c").exists()


def test_a_long_name_is_a_host_and_no_file_is_left_beside_others_it_does_not_fit(tmp_path):
    name = f"{'a' * 60}.{'b' * 60}.example.org"
    make_certificates(tmp_path / "c", [name])
    assert shaken_hands(tmp_path / "c", name)
    (tmp_path / "c" / "ca.crt").unlink()
    with pytest.raises(GgeurError, match="not overwritten"):
        make_certificates(tmp_path / "c", [name])
    assert not (tmp_path / "c" / "ca.crt").exists()


def test_flower_takes_a_nodes_public_key(tmp_path):
    from flwr.cli.supernode.register import try_load_public_key

    make_node_key(tmp_path / "node")
    assert try_load_public_key(tmp_path / "node.pub")


def test_a_sites_certificate_is_for_its_node_key_and_for_clients_alone(tmp_path):
    """Read by the library, and verified with OpenSSL's rules for clients and for servers."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key

    make_certificates(tmp_path / "c", ["localhost"])
    make_node_key(tmp_path / "node")
    path = make_site_certificate(tmp_path / "c", tmp_path / "node.pub", "leeds", days=3)
    made = x509.load_pem_x509_certificate(path.read_bytes())
    authority = x509.load_pem_x509_certificate((tmp_path / "c" / "ca.crt").read_bytes())
    made.verify_directly_issued_by(authority)
    assert made.public_key() == load_ssh_public_key((tmp_path / "node.pub").read_bytes())
    usage = made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert [purpose.dotted_string for purpose in usage] == ["1.3.6.1.5.5.7.3.2"]
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert 2 <= (made.not_valid_after_utc - made.not_valid_before_utc).days <= 3
    assert stat.S_IMODE((tmp_path / "c" / "sites").stat().st_mode) == 0o700


def test_a_revoked_site_is_listed_and_can_be_admitted_again(tmp_path):
    make_certificates(tmp_path / "c", ["localhost"])
    make_node_key(tmp_path / "node")
    serials = []
    for _ in range(2):
        path = make_site_certificate(tmp_path / "c", tmp_path / "node.pub", "leeds")
        with pytest.raises(GgeurError, match="revoke it first"):
            make_site_certificate(tmp_path / "c", tmp_path / "node.pub", "leeds")
        serials.append(revoke_site(tmp_path / "c", "leeds"))
        assert not path.exists()
    lines = (tmp_path / "c" / "revoked").read_text().splitlines()
    assert [line.split()[0] for line in lines] == serials and len(set(serials)) == 2
    with pytest.raises(GgeurError, match="There is no"):
        revoke_site(tmp_path / "c", "leeds")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../a", "a b", "-a", "a" * 64, "müller", "a\n"])
def test_what_is_no_name_for_a_site_is_refused(tmp_path, name):
    make_certificates(tmp_path / "c", ["localhost"])
    make_node_key(tmp_path / "node")
    for call in (
        lambda: make_site_certificate(tmp_path / "c", tmp_path / "node.pub", name),
        lambda: revoke_site(tmp_path / "c", name),
    ):
        with pytest.raises(GgeurError, match="no name for a site"):
            call()
    assert not (tmp_path / "c" / "sites").exists()


def test_only_the_authority_admits_and_only_node_keys(tmp_path):
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    make_certificates(tmp_path / "c", ["localhost"])
    make_node_key(tmp_path / "node")
    for key, why in ((tmp_path / "node", "Cannot read"), (tmp_path / "none", "Cannot read")):
        with pytest.raises(GgeurError, match=why):
            make_site_certificate(tmp_path / "c", key, "leeds")
    ed25519 = Ed25519PrivateKey.generate().public_key()
    (tmp_path / "other.pub").write_bytes(ed25519.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))
    with pytest.raises(GgeurError, match="not a node's public key"):
        make_site_certificate(tmp_path / "c", tmp_path / "other.pub", "leeds")
    (tmp_path / "c" / "ca.key").unlink()
    with pytest.raises(GgeurError, match="There is no .*ca.key"):
        make_site_certificate(tmp_path / "c", tmp_path / "node.pub", "leeds")


def test_what_processes_share_on_loopback_is_new_at_every_start_and_its_users_alone(tmp_path):
    first = Loopback.make(tmp_path / "loopback").secret.read_bytes()
    second = Loopback.make(tmp_path / "loopback")
    assert len(first) == 32 and first != second.secret.read_bytes()
    assert not (second.folder / "ca.key").exists(), "nobody can make another certificate that is trusted here"
    assert stat.S_IMODE(second.folder.stat().st_mode) == 0o700
    for path in (second.secret, second.key):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert shaken_hands(second.folder, "127.0.0.1")
