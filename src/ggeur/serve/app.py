"""The application: a page and a JSON endpoint behind a guard, which FastAPI describes at /openapi.json."""

import asyncio
import logging
import re
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, UploadFile
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.routing import Route

from ggeur.serve.service import AnswerList, Limits, Service

_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
_CLOSE = {"connection": "close"}  # or the rest of a refused upload would still be received
log = logging.getLogger("ggeur.serve")


async def refused(request: Request, error: HTTPException) -> JSONResponse:
    """Return the answer {"error": sentence}."""
    return JSONResponse({"error": f"{error.detail.rstrip('.')}."}, error.status_code, error.headers)


class RequestGuard:
    """ASGI middleware; `names` are the host names that the server answers to, None for all.

    Host and origin are checked because a page from elsewhere, open in a browser, could ask a server on loopback.
    """

    def __init__(self, app: Any, limits: Limits, names: tuple[str, ...] | None) -> None:
        self._app, self._limits, self._names, self._uploads = app, limits, names, 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *((k.encode(), v.encode()) for k, v in _HEADERS.items())]
            await send(message)

        request, upload = Request(scope), scope["method"] == "POST"
        self._uploads += upload
        try:
            self._check(request)
            await self._app(scope, self._limited(receive), send_with_headers)
        except Exception as error:
            if not isinstance(error, HTTPException):  # the user receives a sentence, the log one line
                log.error("a request failed: %s: %s", type(error).__name__, error)
                error = HTTPException(500, "The server failed on this request")
            await (await refused(request, error))(scope, receive, send_with_headers)
        finally:
            self._uploads -= upload

    def _check(self, request: Request) -> None:
        """Refuse by the headers alone."""
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if self._names is not None and re.sub(r":\d+$", "", host).strip("[]").lower() not in self._names:
            raise HTTPException(421, "This server does not go by that name")
        if origin is not None and origin.partition("://")[2] != host:
            raise HTTPException(403, "This server answers to its own page only")
        self._check_size(int(request.headers.get("content-length", 0)))
        if self._uploads > self._limits.uploads:
            raise HTTPException(503, "Too many requests are waiting; try again")

    def _check_size(self, size: int) -> None:
        if size > self._limits.megabytes * 1e6:
            raise HTTPException(413, f"The upload is larger than {self._limits.megabytes:g} MB", _CLOSE)

    def _limited(self, receive: Any) -> Any:
        """Return `receive` within the limits on the size of an upload and on its time."""
        deadline = asyncio.get_running_loop().time() + self._limits.seconds
        size, more = 0, True

        async def receive_within_limits() -> Any:
            nonlocal size, more
            try:
                async with asyncio.timeout_at(deadline if more else None):
                    message = await receive()
            except TimeoutError as error:
                raise HTTPException(408, "The request took too long to arrive", _CLOSE) from error
            if more and message["type"] == "http.disconnect":
                raise HTTPException(400, "The request was not whole")
            size, more = size + len(message.get("body", b"")), message.get("more_body", False)
            self._check_size(size)
            return message

        return receive_within_limits


LOOPBACK = ("127.0.0.1", "localhost", "::1")
_FOLDER = Path(__file__).parent / "page"
_PAGE = {"index.html": "text/html", "style.css": "text/css", "page.js": "text/javascript"}
_NO_FILE = "The form has no picture; send it as the field `file`, as curl -F file=@photo.jpg does"


class Error(BaseModel):
    """One sentence that says what is wrong."""

    error: str


def application(service: Service, names: tuple[str, ...] | None = LOOPBACK) -> FastAPI:
    """Return the application of a model, which answers to these host `names`, or to all with None."""
    files = {name: Response((_FOLDER / name).read_bytes(), media_type=kind) for name, kind in _PAGE.items()}
    app = FastAPI(
        title="ggeur model",
        version=service.about()["version"],
        docs_url=None,  # these pages load their scripts from elsewhere
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,
        responses={status: {"model": Error} for status in (403, 421, 500)},
        exception_handlers={HTTPException: refused, RequestValidationError: _invalid},
        routes=[Route("/" + name.removeprefix("index.html"), file, methods=["GET"]) for name, file in files.items()],
    )
    app.add_middleware(RequestGuard, limits=service.limits, names=names)
    workers = asyncio.Semaphore(service.limits.workers)
    # FastAPI describes the form by itself; these bodies go beside it.
    picture = {"schema": {"type": "string", "format": "binary"}}
    bodies = dict.fromkeys(("image/jpeg", "image/png", "application/octet-stream"), picture)
    bodies |= {"application/json": {"schema": service.embeddings_request.model_json_schema()}}

    @app.post(
        "/predict",
        response_model=AnswerList,
        responses={status: {"model": Error} for status in (400, 408, 413, 415, 422, 503)},
        openapi_extra={"requestBody": {"required": True, "content": bodies}},
    )
    async def predict(
        request: Request,
        file: UploadFile | None = None,
        top: Annotated[int, Query(ge=1, description="Number of classes to name")] = 5,
        reject: Annotated[float, Query(ge=0, le=1, description="Least probability of an answer")] = service.reject,
    ) -> Any:
        """Classify a picture, sent as the body or as the form field `file`, or embeddings, sent as JSON."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if not (kind in (*bodies, "multipart/form-data") or kind.startswith("image/")):
            raise HTTPException(415, f"Send a picture or JSON, as one of {', '.join(bodies)}, multipart/form-data")
        if kind == "multipart/form-data" and file is None:
            raise HTTPException(422, _NO_FILE)
        content = await (file.read() if file is not None else request.body())
        answer = service.embeddings if kind == "application/json" else service.picture
        async with workers:
            return await asyncio.to_thread(answer, content, top, reject)

    @app.get("/examples/{number}", response_class=Response, include_in_schema=False)
    async def example(number: int) -> Response:
        """Return an example picture."""
        if not 0 <= number < len(service.examples):
            raise HTTPException(404, f"There is no example {number}")
        return Response(service.examples[number], media_type="application/octet-stream")

    @app.get("/model")
    async def model() -> dict[str, Any]:
        """Describe the model."""
        return service.about()

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Say that the server answers."""
        return {"status": "ok"}

    return app


async def _invalid(request: Request, error: RequestValidationError) -> Response:
    first = error.errors()[0]
    option = f"{first['loc'][-1]} is not valid: {first['msg'][:1].lower()}{first['msg'][1:]}"
    return await refused(request, HTTPException(422, _NO_FILE if first["loc"][0] == "body" else option))
