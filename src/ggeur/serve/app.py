"""The application: a page, an endpoint, and a guard before both."""

import logging
import math
from collections.abc import Callable, Mapping
from importlib.resources import files
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import anyio
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ggeur.serve.limits import Allowance
from ggeur.serve.openapi import description
from ggeur.serve.service import Refused, Service

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_PAGE = {
    "/": ("index.html", "text/html"),
    "/style.css": ("style.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}
_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
_AT_ONCE = 2  # pictures that are decoded and embedded
log = logging.getLogger("ggeur.serve")

Answer = Callable[[bytes, Mapping[str, Any]], dict[str, Any]]


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine reaches `host`."""
    try:
        return host in LOOPBACK or ip_address(host).is_loopback
    except ValueError:  # a name
        return False


def application(service: Service, names: tuple[str, ...] | None = LOOPBACK) -> Starlette:
    """The server of a model; it answers to these host `names` alone, or to all."""
    allowance, desk = Allowance(service.limits.rate), _Desk(service)

    async def predict(request: Request) -> Response:
        wait = allowance.spend(request.client.host if request.client else "")
        if wait:
            later = {"retry-after": str(math.ceil(wait))}
            return _error(429, "Too many requests; wait a moment.", later)
        try:
            return _json(await desk.serve(request))
        except Refused as error:
            # What was not read of the upload would be taken for the next request.
            return _error(error.status, str(error), {"connection": "close"} if error.status in (408, 413) else {})
        except ClientDisconnect:
            return _error(400, "The request was not whole.")
        except Exception as error:  # the user of a page is told, and the log in one line
            log.error("a request failed: %s: %s", type(error).__name__, error)
            return _error(500, "The server failed on this request.")

    async def healthz(request: Request) -> Response:
        return _json({"status": "ok"})

    async def about(request: Request) -> Response:
        return _json(service.about())

    async def described(request: Request) -> Response:
        return _json(description(service))

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return _error(error.status_code, f"{error.detail}.", error.headers)

    routes = [
        Route("/predict", predict, methods=["POST"]),
        *(Route(path, call) for path, call in (("/healthz", healthz), ("/model", about), ("/openapi.json", described))),
        *(Route(path, _file(*file)) for path, file in _PAGE.items()),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: refused})
    app.add_middleware(_Guard, names=names)
    return app


class _Desk:
    """Where requests are read, within the limits, and answered in a thread."""

    def __init__(self, service: Service) -> None:
        self._service, self._here = service, 0
        self._threads: anyio.CapacityLimiter | None = None

    async def serve(self, request: Request) -> dict[str, Any]:
        if self._here >= self._service.limits.waiting:
            raise Refused(503, "Too many requests are waiting; try again.")
        if self._threads is None:  # which belongs to the loop that runs
            self._threads = anyio.CapacityLimiter(_AT_ONCE)
        self._here += 1
        try:
            answer = self._kind(request)
            content = await self._content(request)
            return await run_sync(answer, content, dict(request.query_params), limiter=self._threads)
        finally:
            self._here -= 1

    def _kind(self, request: Request) -> Answer:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "application/json":
            return self._service.embeddings
        if kind.startswith("image/") or kind == "application/octet-stream":
            return self._service.picture
        raise Refused(415, "Send a picture as the body (image/jpeg, image/png, application/octet-stream), or JSON.")

    async def _content(self, request: Request) -> bytes:
        limits = self._service.limits
        too_large = Refused(413, f"The upload is larger than {limits.megabytes:g} MB.")
        claimed = request.headers.get("content-length", "0")
        if claimed.isdecimal() and int(claimed) > limits.bytes:
            raise too_large
        content = bytearray()
        try:
            with anyio.fail_after(limits.seconds):
                async for chunk in request.stream():
                    content += chunk
                    if len(content) > limits.bytes:
                        raise too_large
        except TimeoutError as error:
            raise Refused(408, "The request took too long to arrive.") from error
        return bytes(content)


class _Guard:
    """Only to hosts it goes by, and pages of its own; every answer with what keeps a browser from guessing.

    A page from elsewhere that a user has open could otherwise ask a server on loopback.
    """

    def __init__(self, app: Any, names: tuple[str, ...] | None) -> None:
        self._app, self._names = app, names

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *((k.encode(), v.encode()) for k, v in _HEADERS.items())]
            await send(message)

        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refused = self._refused(Request(scope))
        await (refused or self._app)(scope, receive, guarded)

    def _refused(self, request: Request) -> Response | None:
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if self._names is not None and _hostname(f"//{host}") not in self._names:
            return _error(421, "This server does not go by that name.")
        if origin is not None and _netloc(origin) != host:
            return _error(403, "This server answers to its own page only.")
        return None


def _hostname(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _netloc(origin: str) -> str | None:
    """The host and port of an origin, where it has them."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _file(name: str, kind: str) -> Callable[[Request], Any]:
    content = (files("ggeur.serve") / "page" / name).read_bytes()

    async def read(request: Request) -> Response:
        return Response(content, media_type=kind)

    return read


def _json(tree: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse(tree, status, headers)


def _error(status: int, why: str, headers: Mapping[str, str] | None = None) -> Response:
    return _json({"error": why}, status, headers)
