"""The server: its answers are the model's, its refusals JSON, its description true, its limits kept."""

import asyncio
import http.client
import io
import json
import socket
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from PIL import Image
from schemathesis.specs.openapi.checks import positive_data_acceptance
from starlette.testclient import TestClient

from ggeur.encoders.encoder import Encoder, about
from ggeur.models.model import Model
from ggeur.serve.app import application
from ggeur.serve.server import serve
from ggeur.serve.service import Limits, Service, example_pictures

pytestmark = pytest.mark.needs("serve")
NAMES = ("ant", "bee", "cat")
FORM = "multipart/form-data"
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


def service(reject=0.0, calibration=None, metrics=None, examples=(), **limits):
    params = {"W": np.random.default_rng(3).normal(size=(3, P)).astype(np.float32), "b": np.zeros(3, np.float32)}
    model = Model(
        params,
        "linear",
        P,
        NAMES,
        about(MeanColour()),
        metrics=metrics or {},
        calibration=calibration or {"temperature": 1.0},
    )
    return Service(model, MeanColour(), Limits(**{"samples": 8} | limits), reject, examples)


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


def test_a_form_gets_the_answer_of_the_body_it_carries():
    raw = client().post("/predict?top=1", content=png(), headers={"content-type": "image/png"})
    form = client().post("/predict?top=1", files={"file": ("photo.png", png(), "image/png")}, data={"more": "x"})
    assert form.status_code == 200 and form.json() == raw.json()


@pytest.mark.parametrize(
    "request_of, status, words",
    [
        ({"files": {"photo": ("photo.png", png())}}, 422, "file=@photo.jpg"),
        ({"files": {"more": b"x"}, "data": {"file": "photo.jpg"}}, 422, "file=@photo.jpg"),  # `curl -F file=photo.jpg`
        ({"files": {"file": ("photo.png", b"hello")}}, 422, "not an image"),
        ({"content": b"x", "headers": {"content-type": "multipart/form-data"}}, 400, "boundary"),
        ({"content": b"x", "headers": {"content-type": "multipart/form-data; boundary=b"}}, 400, "parsing"),
    ],
    ids=["another field", "no file", "no image", "no boundary", "no form"],
)
def test_a_form_without_a_picture_is_refused(request_of, status, words):
    refused(client().post("/predict", **request_of), status, words)


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
        (json.dumps({"embeddings": [[float("nan")] * P]}).encode(), "application/json", 422, "numbers each"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_cannot_be_used_is_refused_in_json(content, kind, status, words):
    refused(client().post("/predict", content=content, headers={"content-type": kind}), status, words)


@pytest.mark.parametrize("query", ["top=0", "top=x", "top=1.5", "reject=2", "reject=nan", "reject=", "top=٣"])
def test_options_are_checked(query):
    option = query.partition("=")[0]
    refused(client().post(f"/predict?{query}", content=png(), headers={"content-type": "image/png"}), 422, option)


def test_the_size_and_the_pixels_are_limited():
    small = client(megabytes=0.001)
    refused(small.post("/predict", content=b"x" * 1001, headers={"content-type": "image/png"}), 413, "0.001 MB")
    streamed = small.post("/predict", content=iter([b"x" * 600] * 2), headers={"content-type": "image/png"})
    refused(streamed, 413, "0.001 MB")
    assert streamed.headers["connection"] == "close"
    refused(small.post("/predict", files={"file": ("photo.png", b"x" * 1001)}), 413, "0.001 MB")
    few = client(pixels=100).post("/predict", content=png(), headers={"content-type": "image/png"})
    refused(few, 422, "30")


async def half_an_upload():
    yield png()[:100]
    await asyncio.sleep(30)
    yield png()[100:]


def test_the_time_of_uploads_and_their_number_are_limited():
    app = application(service(seconds=0.5, uploads=2))

    async def ask():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as one:

            async def upload(content):
                return await one.post("/predict", content=content, headers={"content-type": "image/png"})

            slow = [asyncio.create_task(upload(half_an_upload())) for _ in range(2)]
            await asyncio.sleep(0.1)
            over, alive = await upload(png()), await one.get("/healthz")
            return await asyncio.gather(*slow), over, alive, await upload(png())

    slow, over, alive, later = asyncio.run(asyncio.wait_for(ask(), 20))
    for answer in slow:
        refused(answer, 408, "too long")
        assert answer.headers["connection"] == "close"
    refused(over, 503, "waiting")
    assert alive.json() == {"status": "ok"}, "whether it lives may always be asked"
    assert later.status_code == 200, "and there is room again"


def test_other_hosts_and_other_pages_are_refused():
    refused(client().get("/", headers={"host": "evil.example"}), 421, "name")
    refused(client().post("/predict", headers={"origin": "http://evil.example"}), 403, "own page")
    assert client().get("/", headers={"origin": "http://127.0.0.1:8000"}).status_code == 200
    for name in ("LOCALHOST:80", "[::1]:8000", "[::1]"):
        assert client().get("/healthz", headers={"host": name}).status_code == 200
    for name in ("", "localhost.evil.example", "evil.example:127.0.0.1", "[", "127.0.0.1:80:x"):
        refused(client().get("/healthz", headers={"host": name}), 421, "name")
    refused(client().get("/", headers={"origin": "null"}), 403, "own page")
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
    for path in ("/nothing", "/docs", "/redoc"):  # FastAPI's pages load scripts from elsewhere
        refused(page.get(path), 404, "Not Found")
    refused(page.get("/predict"), 405, "Method Not Allowed")


def test_a_server_that_fails_says_so_in_json_and_goes_on(monkeypatch, caplog):
    one = service()
    app = TestClient(application(one), base_url="http://localhost")
    monkeypatch.setattr(one, "picture", lambda *given: 1 / 0)
    refused(app.post("/predict", content=png(), headers={"content-type": "image/png"}), 500, "failed")
    assert "ZeroDivisionError" in caplog.text and "Traceback" not in caplog.text
    monkeypatch.undo()
    assert app.post("/predict", content=png(), headers={"content-type": "image/png"}).status_code == 200


# ---------------------------------------------------------------- what the page says of the model


@pytest.mark.parametrize(
    "calibration, least",
    [
        ({"why": "pooled"}, 0.0),  # a probability says nothing, so none is asked for
        ({"temperature": 2.0}, 0.8),
        ({"temperature": 2.0, "test": {"coverage": [[0.0, 100.0, 70.0], [0.5, 80.0, 79.0], [0.55, 70.0, 81.0]]}}, 0.55),
        ({"temperature": 2.0, "test": {"coverage": [[0.0, 100.0, 90.0]]}}, 0.0),
        ({"temperature": 2.0, "test": {"coverage": [[0.0, 100.0, 99.0], [0.7, 95.0, 99.5], [0.9, 94.0, 99.9]]}}, 0.7),
        ({"temperature": 2.0, "test": {"coverage": [[0.0, 100.0, 20.0], [0.99, 1.0, 100.0]]}}, 0.95),
    ],
)
def test_the_least_probability_comes_from_how_often_answers_of_test_samples_are_right_and_refused(calibration, least):
    one = service(None, calibration)
    assert one.reject == one.about()["reject"] == least
    tree = application(one).openapi()["paths"]["/predict"]["post"]["parameters"]
    assert {p["name"]: p["schema"]["default"] for p in tree}["reject"] == least


def test_the_page_learns_how_good_the_model_is():
    metrics = {"avg": 87.654, "domains": {"north": 95.31, "south": 80.0}, "test_samples": 120}
    told = TestClient(application(service(metrics=metrics)), base_url="http://localhost").get("/model").json()
    assert told["accuracy"] == 87.7 and told["domains"] == {"north": 95.3, "south": 80.0}
    assert told["test_samples"] == 120 and told["calibrated"] and told["examples"] == 0


def test_example_pictures_are_one_of_each_folder_first_and_no_other_file_is_served(tmp_path):
    for name in ("a/1.png", "a/2.png", "b/1.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "b/big.png").write_bytes(b"x" * 2000)
    found = example_pictures(tmp_path, Limits(megabytes=0.001))
    assert found == [b"a/1.png", b"b/1.png", b"a/2.png"]
    app = TestClient(application(service(examples=found)), base_url="http://localhost")
    assert app.get("/examples/1").content == b"b/1.png" and app.get("/model").json()["examples"] == 3
    for number in ("3", "-1"):
        refused(app.get(f"/examples/{number}"), 404, "no example")
    refused(app.get("/examples/..%2Fa"), 404, "Not Found")


SCHEMA = schemathesis.openapi.from_asgi("/openapi.json", application(service(), None))
# Random bytes are a picture to the description and none to anybody who looks.
QUICK = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


def test_the_description_is_openapi_and_names_what_travels():
    SCHEMA.validate()  # by the standard's own schema
    tree = SCHEMA.raw_schema
    assert set(tree["paths"]) == {"/predict", "/model", "/healthz"}
    post, schemas = tree["paths"]["/predict"]["post"], tree["components"]["schemas"]
    assert set(schemas["AnswerList"]["properties"]) == {"answers"}
    assert set(schemas["PredictionAnswer"]["properties"]) == {"class", "probability", "top"}
    assert set(schemas["ClassProbability"]["properties"]) == {"class", "probability"}
    assert {p["name"]: p["schema"]["default"] for p in post["parameters"]} == {"top": 5, "reject": 0.0}
    bodies = post["requestBody"]["content"]
    assert set(bodies) == {"image/jpeg", "image/png", "application/octet-stream", "application/json", FORM}
    assert set(schemas[bodies[FORM]["schema"]["$ref"].rpartition("/")[2]]["properties"]) == {"file"}
    sample = bodies["application/json"]["schema"]["properties"]["embeddings"]["items"]
    assert sample["minItems"] == sample["maxItems"] == P
    assert set(post["responses"]) == {"200", "400", "403", "408", "413", "415", "421", "422", "500", "503"}


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


def test_an_address_that_is_told_can_be_asked_at_once():
    class Told(Exception):
        pass

    def ask(address):
        socket.create_connection(urlsplit(address).netloc.split(":"), timeout=5).close()
        raise Told

    with pytest.raises(Told):  # and not ConnectionRefusedError
        serve(service(), "127.0.0.1", 0, ask)
