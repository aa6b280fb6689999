"""The server: its answers are the model's, its refusals JSON, its description true, its limits kept."""

import http.client
import io
import json
import socket
import threading
import time
from urllib.parse import urlsplit

import numpy as np
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from PIL import Image
from schemathesis.specs.openapi.checks import positive_data_acceptance
from starlette.testclient import TestClient

from ggeur.encode.encoder import Encoder, about
from ggeur.runs.model import Model
from ggeur.serve.app import LOOPBACK, application
from ggeur.serve.limits import Limits
from ggeur.serve.server import serve, server_of
from ggeur.serve.service import Service

pytestmark = pytest.mark.needs("serve")
NAMES = ("ant", "bee", "cat")
P = 3
RNG = np.random.default_rng(0)
PHOTO = RNG.integers(0, 256, (30, 40, 3), np.uint8)


class MeanColour(Encoder):
    """The smallest encoder that looks at a picture."""

    name, dimension, preprocessing, weights_hash = "mean colour", P, "none", "mean colour 1"

    def prepare(self, image):
        return image.mean(axis=(0, 1)).astype(np.float32) / 255

    def forward(self, prepared):
        return prepared


def service(**limits):
    params = {"W": np.random.default_rng(3).normal(size=(3, P)).astype(np.float32), "b": np.zeros(3, np.float32)}
    model = Model(params, "linear", P, NAMES, about(MeanColour()))
    return Service(model, MeanColour(), Limits(**{"rate": 1e6, "rows": 8} | limits))


def client(**limits):
    return TestClient(application(service(**limits)), base_url="http://127.0.0.1:8000")


def png(pixels=PHOTO, kind="PNG"):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def refused(response, status, words):
    assert response.status_code == status and response.headers["content-type"] == "application/json"
    assert set(response.json()) == {"error"} and words in response.json()["error"]


@pytest.mark.parametrize("kind", ["image/png", "application/octet-stream", "image/PNG; x=y"])
def test_a_photograph_gets_the_models_answer(kind):
    found = client().post("/predict?top=2", content=png(), headers={"content-type": kind})
    assert found.status_code == 200
    (answer,) = found.json()["answers"]
    wanted = service().model.predict(PHOTO, encoder=MeanColour())
    assert answer["class"] == wanted.labels[0] and len(answer["top"]) == 2
    assert answer["probability"] == pytest.approx(wanted.confidence[0], abs=1e-5)


def test_embeddings_get_answers_too_and_unsure_ones_none():
    x = RNG.normal(size=(5, P))
    wanted = service().model.predict(x, reject=0.99)
    found = client().post("/predict?reject=0.99", json={"embeddings": x.tolist()}).json()["answers"]
    assert [a["class"] for a in found] == wanted.labels
    np.testing.assert_allclose([a["probability"] for a in found], wanted.confidence, atol=1e-5)


@pytest.mark.parametrize(
    "content, kind, status, words",
    [
        (b"", "image/png", 422, "empty"),
        (b"hello", "image/png", 422, "not an image"),
        (png()[:200], "image/png", 422, "cannot be read"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "image/x-eps", 422, "not an image"),
        (b"x", "text/plain", 415, "Send a picture"),
        (b"{", "application/json", 400, "not valid JSON"),
        (b"[" * 100_000, "application/json", 400, "not valid JSON"),
        (b"[]", "application/json", 422, f"lists of {P} numbers"),
        (json.dumps({"embeddings": [[1.0] * (P - 1)]}).encode(), "application/json", 422, "numbers each"),
        (json.dumps({"embeddings": [[True] * P]}).encode(), "application/json", 422, "numbers each"),
        (json.dumps({"embeddings": [[10**400] * P]}).encode(), "application/json", 422, "numbers each"),
        (json.dumps({"embeddings": [[1e308] * P]}).encode(), "application/json", 422, "too large"),
        (json.dumps({"embeddings": [[float("nan")] * P]}).encode(), "application/json", 422, "too large"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_cannot_be_used_is_refused_in_json(content, kind, status, words):
    refused(client().post("/predict", content=content, headers={"content-type": kind}), status, words)


@pytest.mark.parametrize("query", ["top=0", "top=x", "top=1.5", "reject=2", "reject=nan", "reject=", "top=٣"])
def test_options_are_checked(query):
    option = query.partition("=")[0]
    refused(client().post(f"/predict?{query}", content=png(), headers={"content-type": "image/png"}), 422, option)


def test_the_size_the_pixels_and_the_rate_are_limited():
    small = client(megabytes=0.001)
    refused(small.post("/predict", content=b"x" * 1001, headers={"content-type": "image/png"}), 413, "0.001 MB")
    streamed = small.post("/predict", content=iter([b"x" * 600] * 2), headers={"content-type": "image/png"})
    refused(streamed, 413, "0.001 MB")
    few = client(pixels=100).post("/predict", content=png(), headers={"content-type": "image/png"})
    refused(few, 422, "30")
    slow = client(rate=0.5)
    answers = [slow.post("/predict", content=png(), headers={"content-type": "image/png"}) for _ in range(3)]
    assert [a.status_code for a in answers] == [200, 429, 429]
    assert int(answers[-1].headers["retry-after"]) >= 1
    refused(answers[-1], 429, "Too many")
    assert slow.get("/healthz").json() == {"status": "ok"}, "whether it lives may always be asked"


def test_other_hosts_and_other_pages_are_refused():
    refused(client().get("/", headers={"host": "evil.example"}), 421, "name")
    refused(client().post("/predict", headers={"origin": "http://evil.example"}), 403, "own page")
    assert client().get("/", headers={"origin": "http://127.0.0.1:8000"}).status_code == 200
    everywhere = TestClient(application(service(), None), base_url="http://10.1.2.3")
    assert everywhere.get("/healthz").status_code == 200


def test_the_page_asks_for_nothing_from_elsewhere():
    page = client()
    for path, kind in (("/", "text/html"), ("/style.css", "text/css"), ("/page.js", "text/javascript")):
        found = page.get(path)
        assert found.status_code == 200 and found.headers["content-type"].startswith(kind)
        assert (
            "http://" not in found.text and "https://" not in found.text and "//" not in found.text.replace("// ", "")
        )
        assert "default-src 'none'" in found.headers["content-security-policy"]
    refused(page.get("/nothing"), 404, "Not Found")
    refused(page.get("/predict"), 405, "Method Not Allowed")


def test_a_server_that_fails_says_so_in_json_and_goes_on(monkeypatch, caplog):
    one = service()
    app = TestClient(application(one), base_url="http://localhost")
    monkeypatch.setattr(one, "picture", lambda *given: 1 / 0)
    refused(app.post("/predict", content=png(), headers={"content-type": "image/png"}), 500, "failed")
    assert "ZeroDivisionError" in caplog.text and "Traceback" not in caplog.text
    monkeypatch.undo()
    assert app.post("/predict", content=png(), headers={"content-type": "image/png"}).status_code == 200


SCHEMA = schemathesis.openapi.from_asgi("/openapi.json", application(service(), None))
# Random bytes are a picture to the description and none to anybody who looks.
QUICK = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@SCHEMA.parametrize()
@QUICK
def test_the_server_is_as_its_description_says(case):
    case.call_and_validate(excluded_checks=[positive_data_acceptance])


@pytest.mark.slow
@SCHEMA.parametrize()
@settings(QUICK, max_examples=1500)
def test_the_server_is_as_its_description_says_at_length(case):
    case.call_and_validate(excluded_checks=[positive_data_acceptance])


def malformed(rng):
    """Uploads that are broken in ways that files are: cut, flipped, mixed up, of other kinds, or nothing at all."""
    whole = [png(kind=kind) for kind in ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP")]
    while True:
        content = bytearray(whole[rng.integers(len(whole))])
        kind = rng.integers(5)
        if kind == 0:
            content = content[: rng.integers(len(content))]
        elif kind == 1:
            for place in rng.integers(0, len(content), 1 + rng.integers(40)):
                content[place] = rng.integers(256)
        elif kind == 2:
            cut = int(rng.integers(len(content)))
            content = content[:cut] + whole[rng.integers(len(whole))][cut:]
        elif kind == 3:
            content = bytearray(rng.bytes(int(rng.integers(4000))))
        else:  # a header that claims more than there is
            content[16:24] = rng.bytes(8)
        yield bytes(content), rng.choice(["image/png", "image/jpeg", "application/octet-stream", "application/json"])


def upload_malformed(app, n, seed=0):
    codes = {}
    for (content, kind), _ in zip(malformed(np.random.default_rng(seed)), range(n), strict=False):
        found = app.post("/predict", content=content, headers={"content-type": str(kind)})
        codes[found.status_code] = codes.get(found.status_code, 0) + 1
        assert found.status_code in (200, 400, 422) and set(found.json()) <= {"error", "answers"}
    return codes


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
def test_malformed_uploads_are_answered_in_json(caplog):
    codes = upload_malformed(client(), 150)
    assert codes[422] > 20 and not caplog.records


def upload(address, content, kind):
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
    connection.request("POST", "/predict", content, {"content-type": kind})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


@pytest.mark.slow
def test_2000_malformed_uploads_leave_no_traceback_and_no_growth(running):
    broken = malformed(np.random.default_rng(0))
    for content, kind in (next(broken) for _ in range(500)):  # decoders and allocators warm up
        upload(running.address, content, str(kind))
    before = running.memory()
    codes = [upload(running.address, content, str(kind)) for content, kind in (next(broken) for _ in range(2000))]
    assert set(codes) <= {200, 400, 422} and codes.count(422) > 500
    grown = running.memory() - before
    assert grown < 16 * 2**20, f"{grown / 2**20:.1f} MiB more than before"
    assert upload(running.address, png(), "image/png") == 200
    assert "Traceback" not in running.end()


@pytest.fixture
def quick():
    """A server in a thread that gives a request a third of a second, and takes four connections: its address."""
    server = server_of(service(seconds=0.3, connections=4), LOOPBACK)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        yield listening.getsockname()
        server.should_exit = True
        thread.join(timeout=20)
    assert not thread.is_alive()


def test_an_address_that_is_told_can_be_asked_at_once():
    class Told(Exception):
        pass

    def ask(address):
        socket.create_connection(urlsplit(address).netloc.split(":"), timeout=5).close()
        raise Told

    with pytest.raises(Told):  # and not ConnectionRefusedError
        serve(service(), "127.0.0.1", 0, ask)


def ended_after(connection, send=b"", seconds=5.0):
    """How long it takes until the server hangs up on who sends these bytes, one by one, and no more."""
    began = time.monotonic()
    connection.settimeout(0.05)
    for place in range(10**6):
        if time.monotonic() - began > seconds:
            return None
        try:
            if place < len(send):
                connection.sendall(send[place : place + 1])
            if connection.recv(4096) == b"":
                return time.monotonic() - began
        except TimeoutError:
            continue
        except OSError:
            return time.monotonic() - began
    return None


@pytest.mark.parametrize("send", [b"", b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n" + b"x-slow: 1\r\n" * 20])
def test_a_connection_that_brings_no_request_ends(quick, send):
    with socket.create_connection(quick) as idle:
        found = ended_after(idle, send)
    assert found is not None and 0.2 < found < 3


def test_after_an_answer_a_connection_does_not_stay_open_by_single_letters(quick):
    with socket.create_connection(quick) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        assert b"200 OK" in connection.recv(4096)
        found = ended_after(connection, b"GET /healthz HTTP/1.1\r\n" * 100)
    assert found is not None and found < 3


def test_beyond_so_many_connections_one_is_told_and_ended(quick):
    idle = [socket.create_connection(quick) for _ in range(4)]
    with socket.create_connection(quick, timeout=5) as more:
        said = more.recv(4096)
        assert b" 503 " in said and json.loads(said.partition(b"\r\n\r\n")[2])["error"].startswith("Too many")
        assert more.recv(4096) == b""
    for one in idle:
        assert ended_after(one) is not None
        one.close()
    with socket.create_connection(quick, timeout=5) as later:
        later.sendall(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        assert b"200 OK" in later.recv(4096), "and there is room again"


@pytest.mark.parametrize("first", [b"", b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"])
def test_what_is_no_http_is_told_in_json_and_logs_no_traceback(quick, first, caplog):
    broken = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\n"
    for send in (b"no request at all\r\n\r\n", broken):
        with socket.create_connection(quick, timeout=5) as connection:
            connection.sendall(first + send)
            said = b"".join(iter(lambda: connection.recv(4096), b""))
        assert said.endswith(b"}") and b"text/plain" not in said
    assert "Exception" not in caplog.text and "Traceback" not in caplog.text
