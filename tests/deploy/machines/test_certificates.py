"""Certificates that TLS accepts and keys that Flower accepts, readable by their owner alone."""

import os
import socket
import ssl
import stat
import threading

import pytest

from ggeur.core.errors import GgeurError
from ggeur.deploy.machines.certificates import make_certificates, make_node_key

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
    for name in ("server.key", "node"):
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
