"""Pass the calls of Flower's nodes, from admitted sites, bounded in size, time and number.

A request is read whole and written again for the other side, with a path from a list and a few headers. So its
sender's spelling never reaches Flower.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ggeur.flower.door.visitors import RevocationList, Visitor
from ggeur.stats.errors import GgeurError

if TYPE_CHECKING:
    import httpx

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]
Notice = Callable[[str], None]
Heard = Callable[[str, int], None]  # a path, and the status that the other side answered with
Fault = Callable[[str, str], None]  # a site, and why it was refused
Desk = Callable[[Visitor, bytes], Awaitable[Mapping[str, Any]]]

# A node that was registered by its key needs no others: register-node and unregister-node are for nodes without one.
_CALLS = (
    *("activate-node", "deactivate-node", "send-node-heartbeat", "get-run", "get-fab", "pull-messages"),
    *("push-messages", "pull-object", "push-object", "confirm-message-received"),
)
PATHS = {f"/v1/fleet/{call}".encode(): f"/v1/fleet/{call}" for call in _CALLS}
_PUSH = "/v1/fleet/push-messages"
DESK = "/v1/ggeur/site"  # a site's questions about itself, which the door answers
NODE_KEY = b"flwr-public-key"
REFUSED = "ggeur-door"  # header of answers by the door itself
_PLAIN_HEADERS = (b"content-type", b"accept")
_FLOWER = b"flwr-"  # Flower's own headers: signature, time, version
# A node takes 403 for the end of a run and waits for another. These end the node, with a code and a message.
_ACTIVATION, _ENDS_ACTIVATION, _ENDS_NODE = "/v1/fleet/activate-node", 400, 401
_TOLD = (_ENDS_ACTIVATION, _ENDS_NODE, 503)  # statuses that are reported elsewhere
_AGAIN = 60.0  # seconds before the same notice is given again
_RETRY = 1.0  # seconds between two tries to connect


@dataclass(frozen=True)
class Bounds:
    """Limits of a call. Flower sends large messages in pieces of 5 MiB, eight at a time."""

    body: int = 16 * 2**20  # bytes
    seconds: float = 300.0  # for one call, from its headers to the last byte of its answer
    calls: int = 16  # of one site at a time
    patience: float = 20.0  # seconds for the other side to come back; Flower's own pauses grow as long


class Refused(Exception):
    """The door refuses a call, with a status and a sentence that says why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


class Admission:
    """Admit sites whose certificate the federation's authority made for the node key that they use."""

    def __init__(self, revoked: RevocationList) -> None:
        self._revoked = revoked

    def check(self, visitor: Visitor | None, node_key: bytes) -> None:
        """Raise Refused unless this visitor may speak for the node with this key."""
        known = self.admitted(visitor)
        if known.invited:
            raise Refused(403, f"{known.name} has an invitation and has not joined yet.")
        if node_key != known.node_key:
            raise Refused(403, f"The certificate of {known.name} belongs to another node key than this one.")

    def admitted(self, visitor: Visitor | None) -> Visitor:
        """Return a visitor whose certificate is valid now; raise Refused for any other."""
        if visitor is None:
            raise Refused(403, "This door asks for a site's certificate.")
        if visitor.expired:
            raise Refused(403, f"The certificate of {visitor.name} has expired; ask the federation for a new one.")
        try:
            revoked = self._revoked.names(visitor)
        except GgeurError as error:  # a passing mistake of the server's: nodes are to try again
            raise Refused(502, str(error)) from error
        if revoked:
            raise Refused(403, f"The certificate of {visitor.name} is revoked.")
        return visitor


class FleetCalls:
    """An ASGI application that passes the calls of nodes on to `upstream` and refuses everything else.

    Without an `admission` it checks no certificates, as at a site, where it listens on loopback for the site's node.
    `heard` is told of every answer of the other side. `desk` answers what sites ask the door itself.
    """

    def __init__(
        self,
        upstream: "httpx.AsyncClient",
        admission: Admission | None,
        notice: Notice,
        bounds: Bounds,
        heard: Heard = lambda path, status: None,
        desk: Desk | None = None,
        faults: Fault = lambda site, why: None,
    ) -> None:
        self._upstream, self._admission, self._bounds = upstream, admission, bounds
        self._heard, self._desk, self._faults = heard, desk, faults
        self._notice, self._noticed = notice, dict[str, float]()
        self._calls: Counter[str] = Counter()  # under way, by certificate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            raise RuntimeError("the door speaks HTTP alone")
        abort, visitor = scope["state"]["abort"], scope["state"]["visitor"]
        serial = visitor.serial if visitor is not None else ""
        self._calls[serial] += 1
        try:
            async with asyncio.timeout(self._bounds.seconds):
                await self._answer(scope, receive, send, visitor)
        except Refused as refused:
            if visitor is not None:
                self._faults(visitor.name, refused.why)
            if refused.status not in _TOLD:
                self._tell(f"Refused {_host(scope)}: {refused.why}")
            await _say(send, refused)
        except TimeoutError:
            self._tell(f"Hung up on {_host(scope)}: a call took longer than {self._bounds.seconds:.0f} seconds.")
            abort()
        except ConnectionAbortedError:
            abort()
        finally:
            self._calls[serial] -= 1
            if not self._calls[serial]:
                del self._calls[serial]

    async def _answer(self, scope: Scope, receive: Receive, send: Send, visitor: Visitor | None) -> None:
        headers = passed(scope["headers"])
        if (scope["method"], scope["raw_path"]) == ("POST", DESK.encode()) and self._desk and self._admission:
            asking = self._admission.admitted(visitor)
            asked = await self._body(scope, receive)
            try:
                answer = await self._desk(asking, asked)
            except GgeurError as error:
                raise Refused(403, str(error)) from error
            await _reply(send, answer)
            return
        path = PATHS.get(scope["raw_path"]) if scope["method"] == "POST" and not scope["query_string"] else None
        if path is None:
            raise Refused(403, "Only the calls of nodes pass here.")
        if self._admission is not None:
            self._admission.check(visitor, dict(headers).get(NODE_KEY, b""))
            if visitor is not None and self._calls[visitor.serial] > self._bounds.calls:
                raise Refused(503, f"{visitor.name} makes more than {self._bounds.calls} calls at a time.")
        body = await self._body(scope, receive)
        if self._admission is not None and path == _PUSH:
            check_sender(body)
        await self._pass(path, headers, body, send)

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """Return the whole body of a request; raise Refused where it is too large."""
        too_large = Refused(413, f"A call may bring {self._bounds.body} bytes at most.")
        claimed = dict(scope["headers"]).get(b"content-length", b"0")
        if int(claimed) > self._bounds.body:
            raise too_large
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise Refused(400, "The connection ended within a call.")
            body += message.get("body", b"")
            if len(body) > self._bounds.body:
                raise too_large
            if not message.get("more_body", False):
                return bytes(body)

    async def _pass(self, path: str, headers: Headers, body: bytes, send: Send) -> None:
        """Make the call at the other side and stream its answer back."""
        import httpx

        begun = False
        try:
            async with self._answered(path, headers, body) as answer:
                self._heard(path, answer.status_code)
                if REFUSED in answer.headers and answer.status_code == httpx.codes.FORBIDDEN:
                    why = _printed(answer.headers[REFUSED])
                    self._tell(f"{self._upstream.base_url} refuses this site: {why}")
                    raise Refused(_ENDS_ACTIVATION if path == _ACTIVATION else _ENDS_NODE, why)
                begun = True
                back = _passed_back(answer.headers.raw)
                await send({"type": "http.response.start", "status": answer.status_code, "headers": back})
                async for piece in answer.aiter_raw():
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
        except httpx.HTTPError as error:
            why = str(error) or type(error).__name__
            self._tell(f"{self._upstream.base_url} does not answer, and is tried again: {why}.")
            if begun:  # an answer that was cut short must not look like a whole one
                raise ConnectionAbortedError from error
            raise Refused(503, "The other side does not answer; try again.") from error

    @asynccontextmanager
    async def _answered(self, path: str, headers: Headers, body: bytes) -> "AsyncIterator[httpx.Response]":
        """Make the call; wait a little for another side that cannot be reached, to which nothing was sent yet."""
        import httpx

        sent = [*headers, (b"accept-encoding", b"identity")]
        end = time.monotonic() + self._bounds.patience
        while True:
            request = self._upstream.build_request("POST", path, content=body, headers=sent)
            try:
                answer = await self._upstream.send(request, stream=True)
            except httpx.ConnectError:
                if time.monotonic() >= end:
                    raise
                await asyncio.sleep(_RETRY)
                continue
            try:
                yield answer
            finally:
                await answer.aclose()
            return

    def _tell(self, sentence: str) -> None:
        """Give a notice; repeat the same one only once in a while."""
        now = time.monotonic()
        if now - self._noticed.get(sentence, -_AGAIN) >= _AGAIN:
            if len(self._noticed) > 1000:  # bounded, since strangers could fill it
                self._noticed.clear()
            self._noticed[sentence] = now
            self._notice(sentence)


def check_sender(body: bytes) -> None:
    """Raise Refused where a node pushes a message in another's name; Flower checks the caller, not the signer."""
    from flwr.proto.fleet_pb2 import PushMessagesRequest
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        request = PushMessagesRequest.FromString(body)
    except DecodeError as error:
        raise Refused(403, "This is no message of a node.") from error
    if any(message.metadata.src_node_id != request.node.node_id for message in request.messages_list):
        raise Refused(403, "A node answers in its own name alone.")


def passed(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the headers passed on to Flower; raise Refused where one is given twice."""
    kept = [(name, value) for name, value in headers if name in _PLAIN_HEADERS or name.startswith(_FLOWER)]
    if len({name for name, _ in kept}) < len(kept):
        raise Refused(403, "A header is given twice.")
    return kept


def _passed_back(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    lower = ((name.lower(), value) for name, value in headers)
    return [(n, v) for n, v in lower if n in (b"content-type", b"content-length") or n.startswith(_FLOWER)]


async def _reply(send: Send, answer: Mapping[str, Any]) -> None:
    """Answer as JSON."""
    body = json.dumps(answer).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _say(send: Send, refused: Refused) -> None:
    """Answer with a sentence, and close the connection, whose request may not have been read."""
    body = refused.why.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body))]
    headers += [(b"connection", b"close"), (REFUSED.encode(), _printed(refused.why).encode())]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _printed(text: str) -> str:
    """Return `text` as one line that a header and a terminal can show."""
    return "".join(c if c.isascii() and c.isprintable() else "?" for c in text)[:300]


def _host(scope: Scope) -> str:
    return str(scope["client"][0]) if scope.get("client") else "a client"
