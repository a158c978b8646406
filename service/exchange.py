"""One HTTP request and its answer, on plain ASGI: headers read once, bodies under a limit."""

from __future__ import annotations

import random
import re
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

from starlette.types import Message, Receive, Scope, Send

from service.errors import BodyTooLarge, Disconnected, UnsupportedMedia
from service.keys import Role

JSON = b"application/json"
NDJSON = b"application/x-ndjson"
SNAPSHOT = b"application/octet-stream"
SAFETENSORS = b"application/vnd.safetensors"

Header = tuple[bytes, bytes]

READING = frozenset({"GET", "HEAD"})
NO_STORE: Header = (b"cache-control", b"no-store")  # what a model says moves with every event

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}\Z")
_TRACE = re.compile(rb"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})\Z")
_PREFIX = f"{random.getrandbits(48):012x}"
_counter = 0


def _new_request_id() -> bytes:
    global _counter
    _counter += 1
    return b"%s-%x" % (_PREFIX.encode(), _counter)


class Exchange:
    """A request as the service sees it; handlers read from it and answer through it.

    `bytes_in`, `bytes_out`, `rows`, `route`, `status` and `began` are kept for the metrics and the access log.
    """

    __slots__ = (
        "api_key",
        "authorization",
        "began",
        "bytes_in",
        "bytes_out",
        "content_encoding",
        "content_length",
        "content_type",
        "finished",
        "headers",
        "hosts",
        "method",
        "path",
        "query",
        "receive",
        "request_id",
        "role",
        "route",
        "rows",
        "send",
        "started",
        "status",
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send, fixed: list[Header]) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query: bytes = scope["query_string"]
        self.receive = receive
        self.send = send
        self.started = False
        self.finished = False
        self.began = time.perf_counter()
        self.bytes_in = self.bytes_out = self.rows = 0
        self.route: str | None = None  # template of the path: the only form in which metrics and logs name it
        self.status = 0
        self.content_type: bytes | None = None
        self.content_encoding: bytes | None = None
        self.content_length: int | None = None
        self.hosts: list[bytes] = []
        self.authorization: bytes | None = None
        self.api_key: bytes | None = None
        self.role: Role | None = None  # of the key that was shown; None where no key is needed
        request_id = trace = None
        for name, value in scope["headers"]:
            if name == b"content-type":
                self.content_type = value
            elif name == b"content-length":
                self.content_length = int(value) if value.isdigit() else None
            elif name == b"content-encoding":
                self.content_encoding = value
            elif name == b"host":
                self.hosts.append(value)
            elif name == b"authorization":
                self.authorization = value
            elif name == b"x-api-key":
                self.api_key = value
            elif name == b"x-request-id":
                request_id = value
            elif name == b"traceparent":
                trace = value
        if request_id is None or _REQUEST_ID.match(request_id) is None:
            request_id = _new_request_id()
        self.request_id = request_id
        self.headers: list[Header] = [
            (b"x-request-id", request_id),
            (b"traceparent", _traceparent(trace)),
            *fixed,
        ]

    @property
    def trace_id(self) -> bytes:
        """The trace that this request is part of."""
        return self.headers[1][1][3:35]

    # ---- reading -----------------------------------------------------------------------------

    def require(self, *accepted: bytes) -> bytes:
        """Return which of the accepted content types the body has, or raise UnsupportedMedia."""
        if self.content_encoding is not None:
            raise UnsupportedMedia(
                "Content-Encoding", "a body without one", self.content_encoding.decode("latin-1"), pointer=""
            )
        if self.content_type in accepted:
            return self.content_type
        names = " or ".join(kind.decode() for kind in accepted)
        if self.content_type is None:
            raise UnsupportedMedia("Content-Type", f"{names}, the header is missing", headers={"Accept": names})
        kind, _, parameters = self.content_type.partition(b";")
        kind = kind.strip().lower()
        charset = parameters.strip().lower().removeprefix(b"charset=").strip(b'"')
        if kind in accepted and (not parameters.strip() or charset in (b"utf-8", b"utf8", b"us-ascii")):
            return kind
        raise UnsupportedMedia("Content-Type", names, self.content_type.decode("latin-1"), headers={"Accept": names})

    async def body(self, limit: int) -> bytes:
        """Return the whole body, or raise BodyTooLarge as soon as it is known to be over the limit."""
        if self.content_length is not None and self.content_length > limit:
            raise BodyTooLarge("body", f"at most {limit} bytes", self.content_length)
        message = await self.receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        data: bytes = message.get("body", b"")
        self.bytes_in += len(data)
        if not message.get("more_body", False):
            if len(data) > limit:
                raise BodyTooLarge("body", f"at most {limit} bytes", len(data))
            return data
        parts = [data]
        size = len(data)
        async for part in self._more():
            size += len(part)
            if size > limit:
                raise BodyTooLarge("body", f"at most {limit} bytes, more came")
            parts.append(part)
        return b"".join(parts)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes, of any length."""
        async for part in self._more():
            yield part

    async def _more(self) -> AsyncIterator[bytes]:
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise Disconnected
            part = message.get("body", b"")
            if part:
                self.bytes_in += len(part)
                yield part
            if not message.get("more_body", False):
                return

    # ---- answering ---------------------------------------------------------------------------

    async def answer(
        self, status: int, body: bytes, kind: bytes = JSON, extra: Mapping[str, str] | None = None
    ) -> None:
        """Send a whole answer."""
        headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body)), *self.headers]
        if extra:
            headers.extend((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in extra.items())
        if self.method in READING:
            headers.append(NO_STORE)
        self.started = True
        self.status = status
        self.bytes_out = len(body)
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body if self.method != "HEAD" else b""})
        self.finished = True

    async def start(self, status: int, kind: bytes) -> None:
        """Begin an answer whose parts follow by `part`."""
        self.started = True
        self.status = status
        await self.send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [(b"content-type", kind), *self.headers],
            }
        )

    async def part(self, body: bytes, *, more: bool) -> None:
        """Send a part of the answer."""
        self.bytes_out += len(body)
        await self.send({"type": "http.response.body", "body": body, "more_body": more})

    async def forward(self, message: Message) -> None:
        """Send what the router answers, with this service's headers."""
        if message["type"] == "http.response.start":
            self.started = True
            self.status = message["status"]
            headers = [*message.get("headers", ()), *self.headers]
            if self.method in READING and all(name != NO_STORE[0] for name, _ in headers):
                headers.append(NO_STORE)
            message = {**message, "headers": headers}
        else:
            self.bytes_out += len(message.get("body", b""))
        await self.send(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.finished = True


def _traceparent(trace: bytes | None) -> bytes:
    match = _TRACE.match(trace) if trace is not None else None
    trace_id, flags = (match[1], match[3]) if match else (b"%032x" % random.getrandbits(128), b"00")
    return b"00-%s-%016x-%s" % (trace_id, random.getrandbits(64), flags)


def exchange_of(scope: Mapping[str, Any]) -> Exchange:
    """Return the exchange that the edge put into a request's scope."""
    exchange = scope["aucstream.exchange"]
    assert isinstance(exchange, Exchange)
    return exchange
