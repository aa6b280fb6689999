"""The guard before the application: host names, limits on uploads, security headers, and every error as a sentence."""

import asyncio
import logging
import re
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from ggeur.serve.service import Limits

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
