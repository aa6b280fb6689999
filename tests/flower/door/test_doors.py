"""The two doors over real TLS on loopback, before a server that writes down what reaches it."""

import base64
import socket
import ssl
import time
from contextlib import ExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from ggeur.flower.door import listening
from ggeur.flower.door.doors import back_door, front_door, site_context
from ggeur.flower.door.listening import Listening, bound, server_context
from ggeur.flower.door.node_calls import PATHS, Bounds
from ggeur.flower.machines.certificates import make_certificates, make_node_key, make_site_certificate, revoke_site
from ggeur.flower.machines.loopback import Loopback
from ggeur.stats.errors import GgeurError

pytestmark = pytest.mark.needs("flower")
CALL = "/v1/fleet/pull-messages"
BOUNDS = Bounds(body=6 * 2**20, seconds=1.0, calls=2, patience=0.0)


class Recorder:
    """An application that writes down what it is asked, and answers as it is told."""

    def __init__(self):
        self.seen, self.wait, self.cut = [], 0.0, False

    async def __call__(self, scope, receive, send):
        import asyncio

        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        self.seen.append((scope["method"], scope["raw_path"].decode(), dict(scope["headers"]), body))
        await asyncio.sleep(self.wait)
        headers = [(b"content-type", b"application/protobuf"), (b"flwr-x", b"y"), (b"set-cookie", b"a=b")]
        await send({"type": "http.response.start", "status": 200, "headers": [*headers, (b"content-length", b"6")]})
        await send({"type": "http.response.body", "body": b"ans", "more_body": True})
        if self.cut:
            scope["state"]["abort"]()
            return
        await send({"type": "http.response.body", "body": b"wer"})


class Federation:
    """Keys and certificates of a server and of sites, a server on loopback, and the door before it."""

    def __init__(self, folder, stack):
        self.keys, self.sites, self.notices, self.recorder = folder / "keys", folder / "sites", [], Recorder()
        make_certificates(self.keys, ["127.0.0.1"])
        for name in ("leeds", "york"):
            make_node_key(self.sites / name)
            self.admit(name)
        self.loopback = Loopback.make(folder / "loopback")

        @asynccontextmanager
        async def recording():
            yield self.recorder

        context = server_context(self.loopback.certificate, self.loopback.key, None)
        superlink = stack.enter_context(Listening(bound("127.0.0.1", 0), context, recording))
        self.superlink = f"127.0.0.1:{superlink.port}"
        self.port = self.front(stack, self.superlink)

    def front(self, stack, superlink, bounds=BOUNDS):
        files = [self.keys / name for name in ("server.crt", "server.key", "ca.crt", "revoked")]
        trust = self.loopback.client_context()
        door = front_door(bound("127.0.0.1", 0), *files, superlink, trust, self.notices.append, bounds)
        return stack.enter_context(door).port

    def admit(self, name):
        path = make_site_certificate(self.keys, self.sites / f"{name}.pub", name)
        (self.sites / f"{name}.crt").write_bytes(path.read_bytes())

    def context(self, name):
        return site_context(self.keys / "ca.crt", self.sites / name, self.sites / f"{name}.crt")

    def key_header(self, name):
        from cryptography.hazmat.primitives import serialization as s

        public = s.load_ssh_public_key((self.sites / f"{name}.pub").read_bytes())
        pem = public.public_bytes(s.Encoding.PEM, s.PublicFormat.SubjectPublicKeyInfo)
        return base64.b64encode(pem).decode()

    def client(self, name, port=None, context=None):
        headers = {"flwr-public-key": self.key_header(name)}
        address = f"https://127.0.0.1:{port or self.port}"
        return httpx.Client(
            base_url=address, verify=context or self.context(name), headers=headers, timeout=10, trust_env=False
        )

    def raw(self, data, name="leeds", seconds=0.3):
        """Everything that comes back for these bytes on a site's connection, until it ends or is silent."""
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=5)
        with plain, self.context(name).wrap_socket(plain, server_hostname="127.0.0.1") as connection:
            connection.settimeout(seconds)
            with suppress(OSError):  # it may hang up before all has been sent
                connection.sendall(data)
            got = b""
            with suppress(ConnectionError, ssl.SSLError, TimeoutError):
                while piece := connection.recv(65536):
                    got += piece
                return got + ENDED
            return got


ENDED = b"(ended)"


@pytest.fixture(scope="module")
def shared_federation(tmp_path_factory):
    with ExitStack() as stack:
        yield Federation(tmp_path_factory.mktemp("door"), stack)


@pytest.fixture
def federation(shared_federation):
    """A door that nothing has passed yet."""
    shared_federation.recorder.__init__()
    shared_federation.notices.clear()
    (shared_federation.keys / "revoked").unlink(missing_ok=True)
    return shared_federation


def test_a_sites_calls_pass_as_they_are_and_little_else_of_them(federation):
    body = bytes(range(256)) * 4096 * 5  # 5 MiB, as Flower cuts large messages
    paths = [path for path in PATHS.values() if not path.endswith("push-messages")]  # of which the next test is
    with federation.client("leeds") as client:
        for path in paths:
            answer = client.post(path, content=body, headers={"x-other": "1", "cookie": "c=d", "flwr-timestamp": "t"})
            assert (answer.status_code, answer.content) == (200, b"answer")
            assert answer.headers["flwr-x"] == "y" and "set-cookie" not in answer.headers
    assert [path for _, path, _, _ in federation.recorder.seen] == paths
    for method, _, headers, received in federation.recorder.seen:
        assert method == "POST" and received == body
        assert headers[b"flwr-timestamp"] == b"t" and headers[b"host"] == federation.superlink.encode()
        assert not {b"x-other", b"cookie"} & set(headers)


def test_a_site_answers_in_its_own_name_alone(federation):
    """Flower compares the caller with its key, but not with the sender that the message names."""
    from flwr.proto.fleet_pb2 import PushMessagesRequest
    from flwr.proto.message_pb2 import Message, Metadata
    from flwr.proto.node_pb2 import Node

    def pushed(*senders):
        messages = [Message(metadata=Metadata(src_node_id=sender)) for sender in senders]
        return PushMessagesRequest(node=Node(node_id=2**63 + 5), messages_list=messages).SerializeToString()

    ours, theirs, path = 2**63 + 5, 7, "/v1/fleet/push-messages"
    with federation.client("leeds") as client:
        assert client.post(path, content=pushed(ours)).status_code == 200
        for body in (pushed(theirs), pushed(ours, theirs), b"\xff\xff", pushed(ours) + pushed(theirs)):
            assert client.post(path, content=body).status_code == 403
    assert [body for _, _, _, body in federation.recorder.seen] == [pushed(ours)]


def test_everything_else_of_flowers_api_is_refused(federation):
    from flwr.supercore.protobuf.translation import PROTOBUF_REQUEST_TYPES

    others = {path for _, path in PROTOBUF_REQUEST_TYPES} - {*PATHS.values()}
    others |= {"/health", "/docs", "/openapi.json", "/", "/v1/runtime/responses", "/v1/fleet", "/v1/fleet/"}
    assert {*PATHS.values()} < {path for _, path in PROTOBUF_REQUEST_TYPES} and len(others) > 60
    with federation.client("leeds") as client:
        assert {client.post(path).status_code for path in others} == {403}
        assert {client.request(m, CALL).status_code for m in ("GET", "PUT", "HEAD", "OPTIONS", "DELETE")} == {403}
    assert federation.recorder.seen == []


def certificate_of(key, issuer_key, issuer, name="leeds", seconds=60.0, usage=None):
    """A certificate as somebody else would make one, for `seconds` from now."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import NameOID

    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=2))
        .not_valid_after(now + timedelta(seconds=seconds))
    )
    return builder.sign(issuer_key, hashes.SHA256())


def client_context(folder, certificate, key):
    from cryptography.hazmat.primitives import serialization as s

    path = folder / "both.pem"
    path.write_bytes(
        certificate.public_bytes(s.Encoding.PEM)
        + key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption())
    )
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    context.load_cert_chain(path)
    return context


def credentials(federation, tmp_path, seconds, ours=True):
    """A TLS context for leeds' own key, certified for `seconds` by our authority or by another of the same name."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization as s
    from cryptography.hazmat.primitives.asymmetric import ec

    authority = x509.load_pem_x509_certificate((federation.keys / "ca.crt").read_bytes())
    signer = s.load_pem_private_key((federation.keys / "ca.key").read_bytes(), None)
    key = s.load_ssh_private_key((federation.sites / "leeds").read_bytes(), None)
    signer = signer if ours else ec.generate_private_key(ec.SECP256R1())
    (tmp_path / "ca.crt").write_bytes((federation.keys / "ca.crt").read_bytes())
    return client_context(tmp_path, certificate_of(key, signer, authority.subject, seconds=seconds), key)


def test_without_a_certificate_of_the_federation_no_handshake_ends_well(federation, tmp_path):
    none = ssl.create_default_context(cafile=str(federation.keys / "ca.crt"))
    server = ssl.create_default_context(cafile=str(federation.keys / "ca.crt"))
    server.load_cert_chain(federation.keys / "server.crt", federation.keys / "server.key")
    strangers = {
        "none": none,
        "the server's own": server,
        "expired": credentials(federation, tmp_path, -3600),
        "another authority's": credentials(federation, tmp_path, 60, ours=False),
    }
    for what, context in strangers.items():
        with federation.client("leeds", context=context) as client, pytest.raises(httpx.TransportError):
            pytest.fail(f"{what}: {client.post(CALL)}")
    assert federation.recorder.seen == []
    with federation.client("leeds", context=credentials(federation, tmp_path, 60)) as client:
        assert client.post(CALL).status_code == 200, "the same way with a good one"


def test_a_certificate_that_expires_on_an_open_connection_is_refused_from_then_on(federation, tmp_path):
    with federation.client("leeds", context=credentials(federation, tmp_path, 2)) as client:
        assert client.post(CALL).status_code == 200
        time.sleep(2.1)
        refused = client.post(CALL)
    assert refused.status_code == 403 and "has expired" in refused.text


def test_a_certificate_speaks_for_its_own_node_key_alone(federation):
    with federation.client("leeds") as client:
        for header in (federation.key_header("york"), "", federation.key_header("leeds")[:-1]):
            refused = client.post(CALL, headers={"flwr-public-key": header})
            assert refused.status_code == 403 and "another node key" in refused.text
    with httpx.Client(verify=federation.context("leeds"), trust_env=False) as bare:
        assert bare.post(f"https://127.0.0.1:{federation.port}{CALL}").status_code == 403


def test_a_revoked_certificate_is_refused_on_an_open_connection_and_a_new_one_is_not(federation):
    make_node_key(federation.sites / "hull")
    federation.admit("hull")
    with federation.client("hull") as client, federation.client("leeds") as other:
        assert client.post(CALL).status_code == 200
        serial = revoke_site(federation.keys, "hull")
        refused = client.post(CALL)
        assert refused.status_code == 403 and "hull is revoked" in refused.text
        assert client.post(CALL).status_code == 403 and other.post(CALL).status_code == 200
    assert (federation.keys / "revoked").read_text().startswith(serial)
    federation.admit("hull")
    with federation.client("hull") as client:
        assert client.post(CALL).status_code == 200
        (federation.keys / "revoked").write_text("# by name\nHULL\n")
        assert client.post(CALL).status_code == 403


def test_a_list_that_cannot_be_read_stops_everybody(federation):
    (federation.keys / "revoked").write_bytes(b"\xff\xfe\xfd")
    with federation.client("leeds") as client:
        refused = client.post(CALL)
        assert refused.status_code == 502 and "cannot be read" in refused.text
        assert "cannot be read" in federation.notices[-1] and federation.recorder.seen == []
        (federation.keys / "revoked").write_text("")
        assert client.post(CALL).status_code == 200


def request(path=CALL, method="POST", headers=(), body=b"", end="\r\n", key=None, length=True):
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *headers]
    lines += [f"flwr-public-key: {key}"] if key else []
    lines += [f"Content-Length: {len(body)}"] if length else []
    return (end.join(lines) + end * 2).encode() + body


SPELLINGS = {
    "up": "/v1/fleet/../control/list-nodes",
    "up and back": "/v1/control/../fleet/pull-messages",
    "two slashes": "//v1/fleet/pull-messages",
    "two slashes within": "/v1/fleet//pull-messages",
    "a slash after": "/v1/fleet/pull-messages/",
    "a slash in code": "/v1/fleet%2Fpull-messages",
    "a dash in code": "/v1/fleet/pull%2Dmessages",
    "up in code": "/v1/fleet/%2e%2e/control/list-nodes",
    "a null": "/v1/fleet/pull-messages%00",
    "a backslash": "/v1/fleet/..\\control\\list-nodes",
    "capitals": "/V1/fleet/pull-messages",
    "a question": "/v1/fleet/pull-messages?a=b",
    "another's address": "http://127.0.0.1/v1/control/list-nodes",
    "the whole address": "https://127.0.0.1/v1/fleet/pull-messages",
    "a semicolon": "/v1/fleet/pull-messages;a=b",
    "an anchor": "/v1/fleet/pull-messages#a",
    "a star": "*",
}


@pytest.mark.parametrize("path", SPELLINGS.values(), ids=SPELLINGS.keys())
def test_another_spelling_of_a_path_does_not_pass(federation, path):
    answer = federation.raw(request(path, key=federation.key_header("leeds"), headers=["Connection: close"]))
    assert answer.startswith(b"HTTP/1.1 403") or answer in (b"", ENDED), answer
    assert federation.recorder.seen == []


def smuggled(key):
    """Bytes in which a careless reader finds a second request, or a header that is not there."""
    inner = request("/v1/control/list-nodes", key=key)
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(inner), inner)
    te = "Transfer-Encoding: chunked"
    return {
        "length and chunks": request(headers=[te, "Content-Length: 4"], key=key, length=False) + chunked,
        "chunks and length": request(headers=["Content-Length: 4", te], key=key, length=False) + chunked,
        "two lengths": request(headers=["Content-Length: 0"], body=inner, key=key),
        "a length of signs": request(headers=["Content-Length: +5"], key=key, length=False) + b"12345",
        "chunked twice": request(headers=[te, te], key=key, length=False) + chunked,
        "chunked by another name": request(headers=["Transfer-Encoding: xchunked"], key=key, length=False) + chunked,
        "a blank before the colon": request(headers=["Content-Length : 5"], key=key, length=False) + inner,
        "a folded header": request(headers=["x-a: b", " Content-Length: 9"], body=inner, key=key),
        "a header of two lines": request(headers=["x-a: b\rflwr-public-key: c"], key=key),
        "a null": request(headers=["x-a: \0b"], key=key),
        "line feeds alone": request(end="\n", key=key),
        "a bad size of a chunk": request(headers=[te], key=key, length=False) + b"-1\r\n" + inner,
        "an extension of a chunk": request(headers=[te], key=key, length=False) + b"0;a=\n" + inner,
        "two keys": request(headers=[f"flwr-public-key: {key}"], key=key),
        "two signatures": request(headers=["flwr-signature: a", "Flwr-Signature: b"], key=key),
        "an upgrade": request(headers=["Connection: Upgrade", "Upgrade: websocket"], key=key),
        "an upgrade to HTTP/2": request(headers=["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c"], key=key),
        "HTTP/2 itself": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "a tunnel": request("127.0.0.1:22", method="CONNECT", key=key),
        "an older request": b"GET /v1/control/list-nodes\r\n\r\n",
        "an answer": b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        "another host": request(headers=["Host: elsewhere"], key=key),
        "a forwarded host": request(headers=["X-Forwarded-Host: a", "X-Original-URL: /v1/control/list-nodes"], key=key),
        "two in a sample": request(key=key) + inner,
        "three in a sample": request(key=key) + request("/docs", method="GET", key=key) + request(key=key),
    }


@pytest.mark.parametrize("what", smuggled(""))
def test_no_second_request_is_found_in_a_first(federation, what):
    """Whatever the door makes of these bytes, Flower is sent a node's call, whole, or nothing."""
    federation.raw(smuggled(federation.key_header("leeds"))[what])
    for method, path, headers, body in federation.recorder.seen:
        assert (method, path) == ("POST", CALL)
        assert headers[b"content-length"] == b"%d" % len(body) and b"transfer-encoding" not in headers
        assert headers[b"host"] == federation.superlink.encode()
        assert not {b"upgrade", b"x-original-url", b"x-forwarded-host"} & set(headers)
    assert len(federation.recorder.seen) <= 1


def test_a_body_may_be_so_large_and_no_larger(federation):
    with federation.client("leeds") as client:
        assert client.post(CALL, content=b"a" * BOUNDS.body).status_code == 200
    key = federation.key_header("leeds")
    answer = federation.raw(request(headers=["Content-Length: 99999999999"], key=key, length=False))
    assert answer.startswith(b"HTTP/1.1 413")
    piece = b"100000\r\n" + b"a" * 2**20 + b"\r\n"
    head = request(headers=["Transfer-Encoding: chunked"], key=key, length=False)
    answer = federation.raw(head + piece * 7)
    assert answer.startswith(b"HTTP/1.1 413") or answer in (b"", ENDED)  # it hangs up before all has been sent
    assert len(federation.recorder.seen) == 1


def test_who_dawdles_is_hung_up_on(federation, monkeypatch):
    """The test itself waits longer than the door, so a connection that is left open is a failure."""
    monkeypatch.setattr(listening, "_HEADERS", 0.4)
    key = federation.key_header("leeds")

    def ended(data, *more):
        plain, began = socket.create_connection(("127.0.0.1", federation.port), timeout=5), time.monotonic()
        with plain, federation.context("leeds").wrap_socket(plain, server_hostname="127.0.0.1") as connection:
            connection.sendall(data)
            got = b""
            with suppress(ConnectionError, ssl.SSLError):
                for piece in more:
                    time.sleep(0.1)
                    connection.sendall(piece)
                while piece := connection.recv(65536):
                    got += piece
        assert time.monotonic() - began < 3
        return got

    whole = request(key=key)
    assert ended(b"") == b"", "who says nothing"
    assert ended(whole[:-2]) == b"", "who does not end the headers"
    assert ended(whole[:1], *(whole[i : i + 1] for i in range(1, 9))) == b"", "who sends them letter by letter"
    assert ended(request(headers=["Content-Length: 9"], key=key, length=False) + b"1") == b"", "nor the body"
    assert ended(whole, b"POST ").startswith(b"HTTP/1.1 200"), "who begins a second request and leaves it"
    assert len(federation.recorder.seen) == 1


def test_an_answer_that_takes_too_long_ends_the_connection(federation):
    federation.recorder.wait, began = 3.0, time.monotonic()
    with federation.client("leeds") as client, pytest.raises(httpx.RemoteProtocolError):
        client.post(CALL)
    assert time.monotonic() - began < 2.5


def test_an_answer_that_is_cut_short_does_not_look_whole(federation):
    federation.recorder.cut = True
    with federation.client("leeds") as client, pytest.raises(httpx.RemoteProtocolError):
        client.post(CALL)


def test_one_site_has_so_many_calls_and_connections_and_no_more(federation, monkeypatch):
    import threading

    federation.recorder.wait, statuses = 0.5, []

    def call():
        with federation.client("leeds") as client:
            statuses.append(client.post(CALL).status_code)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    with federation.client("york") as other:
        assert other.post(CALL).status_code == 200
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200, 200, 503, 503]
    monkeypatch.setattr(listening, "_CONNECTIONS", 1)
    federation.recorder.wait = 0.0
    with federation.client("leeds") as first, federation.client("leeds") as second:
        assert first.post(CALL).status_code == 200
        with pytest.raises(httpx.TransportError):
            second.post(CALL)
        assert first.post(CALL).status_code == 200


def test_a_server_that_is_away_is_something_to_try_again(federation):
    with ExitStack() as stack:
        nobody = bound("127.0.0.1", 0)
        stack.callback(nobody.close)
        port = federation.front(stack, f"127.0.0.1:{nobody.getsockname()[1]}")
        with federation.client("leeds", port) as client:
            assert [client.post(CALL).status_code for _ in range(2)] == [503, 503]
    assert sum("does not answer" in notice for notice in federation.notices) == 1


def test_a_node_reaches_the_server_by_its_sites_door_alone(federation, tmp_path):
    """It shows the certificate; to a server of another authority it says nothing."""
    loopback, told = Loopback.make(tmp_path / "site"), []
    with ExitStack() as stack:

        def door(address, context):
            made = back_door(loopback.certificate, loopback.key, address, context, told.append, bounds=BOUNDS)
            return stack.enter_context(made).port

        port = door(f"127.0.0.1:{federation.port}", federation.context("leeds"))
        with federation.client("leeds", port, loopback.client_context()) as node:
            answer = node.post(CALL, content=b"a" * 5 * 2**20)
            assert (answer.status_code, answer.content) == (200, b"answer")
            assert node.post("/v1/control/list-nodes").status_code == 403
            assert not [notice for notice in told if "refuses this site" in notice]
            (federation.keys / "revoked").write_text("leeds")
            assert [node.post(CALL).status_code for _ in range(3)] == [401] * 3, "by which Flower's node ends itself"
            assert node.post("/v1/fleet/activate-node").status_code == 400, "or does not begin"
        assert sum("refuses this site: The certificate of leeds is revoked." in notice for notice in told) == 1
        (federation.keys / "revoked").unlink()
        with federation.client("york", port, loopback.client_context()) as local_user:
            assert local_user.post(CALL).status_code == 401, "leeds' certificate does not speak for york's key"
        make_certificates(tmp_path / "others", ["127.0.0.1"])
        elsewhere = ssl.create_default_context(cafile=str(tmp_path / "others" / "ca.crt"))
        port = door(f"127.0.0.1:{federation.port}", elsewhere)
        with federation.client("leeds", port, loopback.client_context()) as node:
            assert node.post(CALL).status_code == 503
    assert len(federation.recorder.seen) == 1


@pytest.mark.parametrize(
    ("key", "certificate", "why"),
    [
        ("leeds", "york.crt", "made for another node key"),
        ("leeds", "ca.crt", "made for another node key"),
        ("leeds.pub", "leeds.crt", "Cannot read"),
        ("leeds", "leeds.pub", "Cannot read"),
        ("leeds", "missing", "Cannot read"),
        ("leeds", "strange.crt", "not of the authority"),
        ("leeds", "old.crt", "expired on"),
    ],
)
def test_files_of_a_site_that_do_not_fit_are_told_at_the_start(federation, tmp_path, key, certificate, why):
    credentials(federation, tmp_path, 60, ours=False)
    (federation.sites / "strange.crt").write_bytes((tmp_path / "both.pem").read_bytes())
    credentials(federation, tmp_path, -60)
    (federation.sites / "old.crt").write_bytes((tmp_path / "both.pem").read_bytes())
    (federation.sites / "ca.crt").write_bytes((federation.keys / "ca.crt").read_bytes())
    with pytest.raises(GgeurError, match=why):
        site_context(federation.keys / "ca.crt", federation.sites / key, federation.sites / certificate)


def test_a_port_that_is_taken_is_told():
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(GgeurError, match="name another"):
        bound("127.0.0.1", taken.getsockname()[1]).listen()
