"""One HTTP request and its answer, on plain ASGI: headers read once, bodies under a limit."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from starlette.types import Message, Receive, Scope, Send

from aucstream_service.errors.exceptions import (
    BodyTooLarge,
    Disconnected,
    Overloaded,
    ServiceError,
    SlowRequest,
    Unauthorized,
    UnsupportedMedia,
)
from aucstream_service.http.inflate import ENCODINGS, Inflater
from aucstream_service.storage.api_keys import Key, Role

JSON = b"application/json"
NDJSON = b"application/x-ndjson"
JSONL = b"application/jsonl"  # another name of it
MERGE_PATCH = b"application/merge-patch+json"
ARROW = b"application/vnd.apache.arrow.stream"
SNAPSHOT = b"application/octet-stream"
SAFETENSORS = b"application/vnd.safetensors"

Header = tuple[bytes, bytes]

BOM = b"\xef\xbb\xbf"  # may stand before a text
BINARY = (ARROW, SNAPSHOT, SAFETENSORS)

READING = frozenset({"GET", "HEAD"})
CLOSE: Header = (b"connection", b"close")
NO_STORE: Header = (b"cache-control", b"no-store")  # what a model says moves with every event

NOTED = frozenset(
    {
        *(b"content-type", b"content-length", b"content-encoding", b"host", b"authorization", b"x-api-key"),
        *(b"x-request-id", b"traceparent"),
    }
)

_JSON_HEAD = b"content-type: application/json\r\ncontent-length: %d\r\nx-request-id: %s\r\ntraceparent: %s\r\n%s"

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}\Z")
_TRACE = re.compile(rb"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})\Z")
_PREFIX = b"%012x" % random.getrandbits(48)
_counter = 0


def _new_request_id() -> bytes:
    global _counter
    _counter += 1
    return b"%s-%x" % (_PREFIX, _counter)


BROKEN = "aucstream.broken"  # in the scope: the error that says why no more of the body will come
ADMITTED = "aucstream.admitted"  # in the scope of a long body: tells whether its key is still good
WIRE = "aucstream.wire"  # in the scope: the connection, where it can be read and answered in one call
SMALL = 1 << 16  # bytes of a stream that are not counted as a large body
UNCOUNTED = 1 << 12  # bytes of a body that is not counted among those in flight
SLOWEST = 1 << 14  # bytes a second that a JSON body must bring once its first seconds are over


class DirectConnection(Protocol):
    """A connection as its protocol knows it: a short way past ASGI's messages for one small request."""

    def whole_body(self) -> bytes | None:
        """Return the body if all of it is here; None: it must be received."""

    def reply(self, status: int, head: bytes, body: bytes) -> bool:
        """Write a whole answer, whose headers but for the date are `head`; False: it must be sent."""

    def body_unread(self) -> bool:
        """Return whether a part of the body is still to come."""


@dataclass
class Reading:
    """How bodies are read, and the bytes of large ones that are held at once."""

    limit: int
    seconds: float
    inflate: bool
    pace: int = 0  # bytes a second, over each `seconds` of waiting for a body of any length
    held: int = 0


def late() -> SlowRequest:
    """Return the error of a body that does not come."""
    return SlowRequest("body", "a body that comes faster", headers={"Connection": "close"})


def key_refused() -> Unauthorized:
    """Return the error of a key that is not good, or not any more."""
    return Unauthorized(
        "key",
        "a key that is known, was not revoked and has not expired",
        headers={"WWW-Authenticate": 'Bearer realm="aucstream", error="invalid_token"'},
    )


class RequestContext:
    """A request as the service sees it; handlers read from it and answer through it.

    `began`, `route`, `model`, `status`, `rows`, `bytes_in` and `bytes_out` are kept for the metrics and the access log.
    """

    # What most requests do not have, and what is set as they go: a default costs a request nothing.
    held = 0  # bytes of its body, as counted in `reading`
    started = False
    finished = False
    bytes_in = bytes_out = rows = status = 0
    route: str | None = None  # template of the path: the only form in which metrics and logs name it
    model: str | None = None
    content_type: bytes | None = None
    content_encoding: bytes | None = None
    content_length: int | None = None
    authorization: bytes | None = None
    api_key: bytes | None = None
    entry: Key | None = None  # the key that was shown; None where no key is needed
    knows: Callable[[bytes], bool] | None = None  # what tells whether that key is still good
    query = b""
    wire: DirectConnection | None = None

    # set by `of_asgi` alone: a request that ASGI does not serve has its body received and its answer sent elsewhere
    scope: Scope
    receive: Receive
    send: Send
    reading: Reading

    def __init__(self, method: str, path: str, headers: Iterable[Header], fixed: list[Header]) -> None:
        self.method = method
        self.path = path
        self.began = time.perf_counter()
        self.hosts: list[bytes] = []
        request_id = trace = None
        for name, value in headers:
            if name not in NOTED:
                continue
            if name == b"content-type":
                self.content_type = value
            elif name == b"content-length":
                self.content_length = int(value) if value.isdigit() else None
            elif name == b"host":
                self.hosts.append(value)
            elif name == b"content-encoding":
                self.content_encoding = None if value.strip().lower() == b"identity" else value
            elif name == b"authorization":
                self.authorization = value
            elif name == b"x-api-key":
                self.api_key = value
            elif name == b"x-request-id":
                request_id = value
            else:
                trace = value
        if request_id is None or _REQUEST_ID.match(request_id) is None:
            request_id = _new_request_id()
        self.request_id = request_id
        self.traceparent = _traceparent(trace)
        self._fixed = fixed

    @classmethod
    def of_asgi(
        cls, scope: Scope, receive: Receive, send: Send, fixed: list[Header], reading: Reading
    ) -> RequestContext:
        """Return the context of a request that ASGI serves."""
        raw = scope.get("raw_path") or b""
        if b"%2f" in raw.lower():  # a slash within a name is none between two: such a path stays as it was sent
            scope["path"] = raw.decode("latin-1")
        request = cls(scope["method"], scope["path"], scope["headers"], fixed)
        request.query = scope["query_string"]
        request.scope, request.receive, request.send, request.reading = scope, receive, send, reading
        request.wire = scope.get(WIRE)
        return request

    @property
    def headers(self) -> list[Header]:
        """The headers that every answer has."""
        return [(b"x-request-id", self.request_id), (b"traceparent", self.traceparent), *self._fixed]

    @property
    def role(self) -> Role | None:
        """The role of the key that was shown; None where no key is needed."""
        return None if self.entry is None else self.entry.role

    def may_use(self, model: str) -> bool:
        """Return whether the key that was shown is one for a model of this name."""
        return self.entry is None or self.entry.may_use(model)

    @property
    def trace_id(self) -> bytes:
        """The trace that this request is part of."""
        return self.traceparent[3:35]

    @property
    def key(self) -> bytes | None:
        """The API key that was shown, if any."""
        if self.authorization is not None:
            scheme, _, text = self.authorization.partition(b" ")
            if scheme.lower() == b"bearer" and text.strip():
                return text.strip()
        return self.api_key

    def still_admitted(self) -> bool:
        """Return whether the key that let a long call in was not revoked since."""
        key = self.key
        return self.knows is None or (key is not None and self.knows(key))

    # ---- reading -----------------------------------------------------------------------------

    def require(self, *accepted: bytes) -> bytes:
        """Return which of the accepted content types the body has, or raise UnsupportedMedia."""
        if self.content_encoding is not None and not self._inflates():
            expected = f"{', '.join(kind.decode() for kind in ENCODINGS)} or none"
            raise UnsupportedMedia(
                "Content-Encoding",
                expected if self.reading.inflate else "a body without one",
                self.content_encoding.decode("latin-1"),
                headers={"Accept-Encoding": expected.replace(" or none", "") if self.reading.inflate else "identity"},
                pointer="",
            )
        if self.content_type in accepted:
            return self.content_type
        names = " or ".join(kind.decode() for kind in accepted)
        if self.content_type is None:
            raise UnsupportedMedia("Content-Type", f"{names}, the header is missing", headers={"Accept": names})
        kind, _, parameters = self.content_type.partition(b";")
        kind = kind.strip().lower()
        if kind == JSONL and NDJSON in accepted:
            kind = NDJSON
        charset = parameters.strip().lower().removeprefix(b"charset=").strip(b'"')
        if kind in accepted and (not parameters.strip() or charset in (b"utf-8", b"utf8", b"us-ascii")):
            return kind
        raise UnsupportedMedia("Content-Type", names, self.content_type.decode("latin-1"), headers={"Accept": names})

    def refuse_forms(self) -> None:
        """Raise UnsupportedMedia for a call without a body that a page of another site can make a browser send."""
        sent_by_a_page = any(name == b"origin" for name, _ in self.scope["headers"])
        if self.content_type is not None or sent_by_a_page:
            self.require(JSON)

    def _inflates(self) -> bool:
        assert self.content_encoding is not None
        encoding = self.content_encoding.strip().lower()
        return self.reading.inflate and encoding in ENCODINGS

    async def body(self, limit: int, *, hurry: bool = True) -> bytes:
        """Return the whole body, or raise BodyTooLarge as soon as it is known to be over the limit.

        `hurry`: it must come at a least pace, and is counted among the large bodies held at once.
        """
        if self.content_length is not None and self.content_length > limit:
            raise BodyTooLarge("body", f"at most {limit} bytes", self.content_length)
        if self.content_encoding is None and self.wire is not None:  # nearly every body is here by now
            whole = self.wire.whole_body()
            if whole is not None and len(whole) <= limit:
                self.bytes_in = len(whole)
                if len(whole) > UNCOUNTED:
                    self._hold(len(whole))
                return self._unmarked(whole)
        loop = asyncio.get_running_loop()
        began = loop.time()
        parts: list[bytes] = []
        size = 0
        async for part in self.chunks():
            size += len(part)
            if size > limit:
                raise BodyTooLarge("body", f"at most {limit} bytes, more came")
            if hurry:
                if self.held or size > UNCOUNTED:
                    self._hold(size - self.held)
                if loop.time() - began > self.reading.seconds + size / SLOWEST:
                    raise late()
            parts.append(part)
        return self._unmarked(parts[0] if len(parts) == 1 else b"".join(parts))

    def _unmarked(self, body: bytes) -> bytes:
        """Return a body without the byte order mark of a text."""
        if body[:3] != BOM or (self.content_type or b"").partition(b";")[0].strip().lower() in BINARY:
            return body
        return body[3:]

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes, of any length, inflated if need be."""
        if self.content_encoding is None:
            async for part in self._raw():
                yield part
            return
        inflater = Inflater(self.content_encoding.strip().lower())
        async for part in self._raw():
            for piece in inflater.feed(part):
                yield piece
                await asyncio.sleep(0)  # a small part may inflate to many pieces
        inflater.end()

    async def _raw(self) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        reading = self.reading
        more = True
        waited, came = 0.0, 0
        if self.knows is not None:
            self.scope[ADMITTED] = self.still_admitted
        while more:
            before = loop.time()
            part, more = await self._part()
            if not self.still_admitted():
                raise key_refused()
            waited += loop.time() - before  # not the time in which the service works on a part
            came += len(part)
            if part:
                yield part
            if more and waited > reading.seconds:
                if came < reading.pace * waited:
                    raise late()
                waited, came = 0.0, 0

    async def _part(self) -> tuple[bytes, bool]:
        """Return the next part, and whether more may come."""
        message = await self.receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        part: bytes = message.get("body", b"")
        more: bool = message.get("more_body", False)
        self.bytes_in += len(part)
        if more and not part:
            broken: ServiceError | None = self.scope.get(BROKEN)
            if broken is not None:
                raise broken
        return part, more

    def _hold(self, size: int) -> None:
        reading = self.reading
        if reading.held > self.held and reading.held + size > reading.limit:
            raise Overloaded("bodies", f"at most {reading.limit} bytes of bodies at once: try again later")
        reading.held += size
        self.held += size

    def hold_only(self, size: int) -> None:
        """Count so many bytes of the body among the large ones, and no others; raises Overloaded."""
        self.release()
        if size > SMALL:
            self._hold(size)

    def release(self) -> None:
        """The body is not held any more."""
        self.reading.held -= self.held
        self.held = 0

    # ---- answering ---------------------------------------------------------------------------

    async def answer(
        self, status: int, body: bytes, kind: bytes = JSON, extra: Mapping[str, str] | None = None
    ) -> None:
        """Send a whole answer."""
        headers = self.head_of(status, body, kind, extra)
        if self._leaves_body(status) and CLOSE not in headers:
            headers.append(CLOSE)
        elif extra is None and self.wire is not None and self.method == "POST":
            self.finished = self.wire.reply(status, header_lines(headers), body)
            if self.finished:
                return
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body if self.method != "HEAD" else b""})
        self.finished = True

    def _leaves_body(self, status: int) -> bool:
        """Return whether a refusal leaves a part of the body unread: the connection cannot go on."""
        return status >= 400 and self.wire is not None and self.wire.body_unread()

    def head_of(
        self, status: int, body: bytes, kind: bytes = JSON, extra: Mapping[str, str] | None = None
    ) -> list[Header]:
        """Note a whole answer, which begins now; return its headers."""
        headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body)), *self.headers]
        if extra:
            headers.extend((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in extra.items())
        if self.method in READING:
            headers.append(NO_STORE)
        self._note(status, body)
        return headers

    def json_head(self, status: int, body: bytes, fixed: bytes) -> bytes:
        """Note a whole answer to a POST, which begins now; return its headers as lines, with the lines `fixed`."""
        self._note(status, body)
        return _JSON_HEAD % (len(body), self.request_id, self.traceparent, fixed)

    def _note(self, status: int, body: bytes) -> None:
        self.started = True
        self.status = status
        self.bytes_out = len(body)

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
            if self._leaves_body(self.status) and CLOSE not in headers:
                headers.append(CLOSE)
            message = {**message, "headers": headers}
        else:
            self.bytes_out += len(message.get("body", b""))
        await self.send(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.finished = True


def header_lines(headers: Iterable[Header]) -> bytes:
    """Return headers as they are written, each with the end of its line."""
    return b"".join([b"%s: %s\r\n" % header for header in headers])


def _traceparent(trace: bytes | None) -> bytes:
    match = _TRACE.match(trace) if trace is not None else None
    if match is None:
        return b"00-%032x-%016x-00" % (random.getrandbits(128), random.getrandbits(64))
    return b"00-%s-%016x-%s" % (match[1], random.getrandbits(64), match[3])


def context_of(scope: Mapping[str, Any]) -> RequestContext:
    """Return the context that the edge put into a request's scope."""
    context = scope["aucstream.context"]
    assert isinstance(context, RequestContext)
    return context
