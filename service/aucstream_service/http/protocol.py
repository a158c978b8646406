"""uvicorn's HTTP protocol with limits on what one connection, and all of them, may take.

uvicorn bounds neither the head of a request nor the time it takes, and answers what it cannot parse in
plain text. Here: the length of the URL, the size and number of the headers, the seconds for the head,
the seconds without a byte of the body or of an answer that is read, the number of connections. What RFC 9112
wants refused is: two ways to say where a body ends, a transfer coding other than chunked, no Host or several,
another version. Every refusal is a problem document, is counted and logged, and ends the connection.
"""

from __future__ import annotations

import asyncio
import http
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, cast

import httptools
from starlette.types import Message
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from aucstream.errors import Description
from aucstream_service.errors.exceptions import (
    BadRequest,
    HeadTooLarge,
    NotImplementedHere,
    Overloaded,
    ServiceError,
    SlowRequest,
    UrlTooLong,
    VersionNotSupported,
)
from aucstream_service.errors.problems import CONTENT_TYPE, problem_of
from aucstream_service.http.request_context import BROKEN, WIRE, Exchange, Header, Reading, header_lines, late
from aucstream_service.settings import Settings

if TYPE_CHECKING:
    from aucstream_service.http.lane import Lane

LINGERING = 128  # connections over the limit that are told so; more are closed without a word
LINGER_SECONDS = 2.0  # for a refused client to read its answer

CLOSING = {"Connection": "close"}
UPGRADING = (b"upgrade", b"connection", b"http2-settings")
VERSIONS = ("1.1", "1.0")
NO_READING = Reading(0, 0.0, inflate=False)

# What the parser says -> what was expected. Anything else is told in its words: they quote nothing.
REASONS = {
    "Invalid character in Content-Length": ("Content-Length", "digits only"),
    "Empty Content-Length": ("Content-Length", "digits"),
    "Content-Length overflow": ("Content-Length", "a smaller number"),
    "Duplicate Content-Length": ("Content-Length", "this header once"),
    "Transfer-Encoding can't be present with Content-Length": ("Transfer-Encoding", "it or Content-Length, not both"),
    "Content-Length can't be present with Transfer-Encoding": ("Transfer-Encoding", "it or Content-Length, not both"),
    "Invalid `Transfer-Encoding` header value": ("Transfer-Encoding", "chunked, once"),
    "Empty Transfer-Encoding": ("Transfer-Encoding", "chunked"),
}
OTHER_VERSION = ("Invalid HTTP version", "Pause on PRI/Upgrade")
_REQUEST_LINE = re.compile(rb"^([!#$%&'*+.^_`|~0-9A-Za-z-]{1,40}) \S+ HTTP/\d\.\d\r$", re.MULTILINE)

HEAD, BODY, DONE = range(3)  # what is expected next: a head, the rest of a body, nothing (or the next head)


@dataclass
class Gate:
    """The limits, and the connections of one server."""

    connections: int
    url_bytes: int
    head_bytes: int
    headers: int
    head_seconds: float
    body_seconds: float
    serving: int = 0
    lingering: int = 0
    refused: dict[str, int] = field(default_factory=dict)  # by type of the problem
    fixed: list[Header] = field(default_factory=list)  # headers of every answer
    ended: Callable[[Exchange], None] | None = None  # told of what was refused here
    lane: Lane | None = None  # serves requests whose head came before


class Ended(asyncio.Event):
    """An event that stays set: there is nothing more to wait for."""

    def __init__(self) -> None:
        super().__init__()
        self.set()

    def clear(self) -> None:
        """Change nothing."""


class Protocol(HttpToolsProtocol):
    """httptools under the limits of a gate; `protocol_of` binds one."""

    gate: ClassVar[Gate]

    # ---- the connection ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, or mark it as one too many."""
        super().connection_made(transport)
        self._expected = HEAD
        self._since = self._heard = self.loop.time()
        self.url = b""
        self._head_size = 0
        self._received = self._seen = 0
        self._unsent = -1
        self._refusal: ServiceError | None = None
        self._told = False
        self._upgrading = False  # this request asked for another protocol
        self._dropping = False  # nothing more is parsed
        self._last: ServiceError | None = None  # to be told after the answers that are due
        self._active: RequestResponseCycle | None = None
        self._head: bytes | None = None  # of the request being served, where nothing else came with it
        self._behind = 0  # bytes that came behind that head
        self._waits = False  # a request in the lane is not answered yet
        self._held = b""  # what came meanwhile
        self._closes = False  # after that answer
        gate = self.gate
        self._refused = gate.serving >= gate.connections  # from the start
        self._lingers = False  # answered for the last time
        if not self._refused:
            gate.serving += 1
        elif not self._linger():
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Make room for another."""
        if self._lingers:
            self.gate.lingering -= 1
        if not self._refused:
            self.gate.serving -= 1
        if self._active is not None and self._active is not self.cycle:  # uvicorn tells the last request only
            self._active.disconnected = True
            self._active.message_event.set()
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer what has come whole before the client ended its side: it may still read, and must know."""
        if self._waits:
            self._closes = not self._held
            return True
        cycle = self.cycle
        waits = cycle is not None and not (cycle.more_body or cycle.response_complete)
        if not waits or cycle.scope["method"] != "POST":
            return False
        cycle.keep_alive = False
        return True

    def data_received(self, data: bytes) -> None:
        """Parse, unless this connection is refused: then answer once and drop what comes."""
        if self._lingers:
            if self._refused and not self._told:
                self._told = True
                self._write(Overloaded("connections", f"at most {self.gate.connections} at once: try again later"))
                self.transport.write_eof()
            return
        if self._waits:
            self._held += data
            self.flow.pause_reading()
            return
        begins = self._expected == DONE or self._received == 0
        self._received += len(data)
        self._head = None  # what comes in parts is not remembered: a part tells neither where a head began nor its body
        if self._dropping or (begins and self._serve(data)):
            return
        before = self._expected
        self._unset_keepalive_if_required()
        self._feed(data)
        if before == HEAD == self._expected and not self._dropping:
            # the parser keeps a header until it has ended: its end may never come
            self._head_size += len(data)
            if self._head_size > self.gate.head_bytes + self.gate.url_bytes:
                self._end(self._head_too_large())

    def _feed(self, data: bytes) -> None:
        while True:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = self._plain_head() + data[upgrade.args[0] :]
            except httptools.HttpParserError as error:
                self._end(self._refusal or refusal_of(error, data))
                return
            else:
                return

    def _plain_head(self) -> bytes:
        """Return the head of a request that asked for another protocol, without that: the parser left its body out."""
        closes = any(name == b"connection" and b"close" in value.lower() for name, value in self.headers)
        kept = [(name, value) for name, value in self.headers if name not in UPGRADING]
        lines = [b"%s: %s" % header for header in (*kept, *([(b"connection", b"close")] if closes else ()))]
        line = b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        self._upgrading = False
        self._expected = HEAD
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
        return b"\r\n".join([line, *lines, b"", b""])

    def _serve(self, data: bytes) -> bool:
        """Serve one whole request whose head came before; False: nothing was done, it must be parsed."""
        lane = self.gate.lane
        answered = self.cycle is None or (self.cycle.response_complete and not self.pipeline)
        if lane is None or not answered or self.flow.write_paused or self.transport.is_closing():
            return False
        end = data.find(b"\r\n\r\n")
        if end < 0 or not data.startswith(b"POST "):
            return False
        text = data[:end]
        head = lane.heads.get(text)
        if head is None:
            self._head, self._behind = text, len(data) - end - 4  # to be remembered, if it is served well
            return False
        body = data[end + 4 :]
        if len(body) != head.length or not lane.serve(self, head, body):
            return False
        self._expected = DONE
        self._since = self.loop.time()
        return True

    def wait(self) -> None:
        """Take no further request until `write_answer`."""
        self._waits = True
        self._unset_keepalive_if_required()

    def write_answer(self, status: int, head: bytes, body: bytes) -> None:
        """Write the answer of a request that the lane served."""
        waited, self._waits = self._waits, False
        if not self.transport.is_closing():
            self._write_whole(status, head, body)
        HttpToolsProtocol.on_response_complete(self)
        self._since = self.loop.time()
        if self._closes:
            self.transport.close()
        elif waited and self._held and not self.transport.is_closing():
            held, self._held = self._held, b""
            self.data_received(held)

    def _write_whole(self, status: int, head: bytes, body: bytes) -> None:
        always = header_lines(self.server_state.default_headers)
        self.transport.write(b"%s%s%s\r\n%s" % (STATUS_LINE[status], always, head, body))

    def shutdown(self) -> None:
        """Close when what is being served is answered."""
        if self._waits:
            self._closes = True
        else:
            super().shutdown()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._active = cycle
        super()._start_asgi_task(cycle, app)

    # ---- past ASGI's messages, for one small request -----------------------------------------

    def whole_body(self) -> bytes | None:
        """Return the body of the request being served if all of it is here."""
        cycle = self._active
        if cycle is None or cycle.more_body or cycle.disconnected or self.flow.read_paused:
            return None
        return bytes(cycle.body)

    def reply(self, status: int, head: bytes, body: bytes) -> bool:
        """Write a whole answer at once, as `RequestResponseCycle.send` does it in two messages; False: it must."""
        cycle = self._active
        if cycle is None or cycle.response_started or cycle.disconnected or not cycle.keep_alive:
            return False
        if self.flow.write_paused:
            return False
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        self._write_whole(status, head, body)
        if self._head is not None and status == http.HTTPStatus.OK and self.gate.lane is not None:
            self.gate.lane.remember(self._head, self._behind, cycle.scope)
        cycle.message_event.set()
        cycle.on_response()
        return True

    # ---- the parser's calls ------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Begin a request; an answer that nobody reads can be ended by its handler."""
        super().on_message_begin()
        self.scope["aucstream.abort"] = self.transport.abort  # type: ignore[typeddict-unknown-key]
        self.scope[WIRE] = self  # type: ignore[literal-required]
        if self._expected != HEAD:
            self._expected = HEAD
            self._since = self.loop.time()
        self._head_size = 0

    def on_url(self, url: bytes) -> None:
        """Take a part of the URL."""
        super().on_url(url)
        if len(self.url) > self.gate.url_bytes:
            self._refuse(UrlTooLong("URL", f"at most {self.gate.url_bytes} bytes"))

    def on_headers_complete(self) -> None:
        """A body may follow."""
        self._check_head()
        if self.parser.should_upgrade():
            self._upgrading = True
            return
        super().on_headers_complete()
        self._expected = BODY
        self._heard = self.loop.time()

    def on_message_complete(self) -> None:
        """The request is here."""
        if self._upgrading:
            return
        super().on_message_complete()
        self._expected = DONE
        self._since = self.loop.time()

    def on_response_complete(self) -> None:
        """Go on with the next request, or tell what came after the last."""
        super().on_response_complete()
        if self._last is not None and self.cycle.response_complete and not self.transport.is_closing():
            self._close(self._last)

    def _check_head(self) -> None:
        version = self.parser.get_http_version()
        if len(self.headers) > self.gate.headers:
            self._refuse(self._head_too_large())
        if version not in VERSIONS:
            self._refuse(VersionNotSupported("HTTP version", "1.1 or 1.0", Description(version)))
        if self.parser.get_method() == b"CONNECT":
            self._refuse(NotImplementedHere("method", "one that this service knows", Description("CONNECT")))
        hosts = size = 0
        for name, value in self.headers:
            size += len(name) + len(value) + 4
            if name == b"host":
                hosts += 1
            elif name == b"transfer-encoding":
                if version == "1.0":
                    self._refuse(BadRequest(name.decode(), "Content-Length alone, in HTTP/1.0", Description("both")))
                if value.lower() != b"chunked":
                    self._refuse(NotImplementedHere(name.decode(), "chunked", value.decode("latin-1")))
        if size > self.gate.head_bytes:
            self._refuse(self._head_too_large())
        if hosts > 1 or (hosts == 0 and version == "1.1"):
            self._refuse(BadRequest("Host", "this header once", Description("none" if hosts == 0 else "several")))
        if self.url[:1] != b"/":
            self._take_target()

    def _take_target(self) -> None:
        """Take a whole URL for its path; it names the host whatever `Host` says (RFC 9112, 3.2.2)."""
        try:
            url = httptools.parse_url(self.url)
        except httptools.HttpParserInvalidURLError:
            url = None
        if url is None or (url.schema or b"").lower() not in (b"http", b"https") or not url.host:
            self._refuse(BadRequest("target", "a path or an http URL", self.url.decode("latin-1")))
        host = b"[%s]" % url.host if b":" in url.host else url.host
        if url.port is not None:
            host += b":%d" % url.port
        self.headers[:] = [*((name, value) for name, value in self.headers if name != b"host"), (b"host", host)]
        self.url = (url.path or b"/") + (b"?" + url.query if url.query else b"")

    # ---- time --------------------------------------------------------------------------------

    def look(self, now: float) -> None:
        """Called about twice a second: close a connection whose client is too slow."""
        if self._lingers or self._waits or self.transport.is_closing():
            return
        if self.flow.write_paused:
            unsent = self.transport.get_write_buffer_size()
            if unsent != self._unsent:
                self._unsent, self._since = unsent, now
            elif now - self._since > self.gate.body_seconds:
                self._count(SlowRequest)
                self.transport.abort()  # an answer that nobody reads
            return
        self._unsent = -1
        answered = self.cycle is None or self.cycle.response_complete
        if self._expected == BODY:
            self._look_at_body(now, answered=answered)
        elif answered and now - self._since > self.gate.head_seconds:
            if self._expected == HEAD:
                if self._received == self._seen:
                    self.transport.close()  # it never began
                else:
                    self._close(SlowRequest("head", f"the whole head of a request within {self.gate.head_seconds} s"))
            elif self.timeout_keep_alive_task is None:
                self.transport.close()  # bytes that begin no request stopped the timer of idle connections

    def _look_at_body(self, now: float, *, answered: bool) -> None:
        if answered:  # refused before its end: what still comes is dropped, for a while
            if now - self._heard > self.gate.body_seconds:
                self.transport.close()
        elif self.flow.read_paused or self._received != self._seen:
            self._seen = self._received
            self._heard = now
        elif now - self._heard > self.gate.body_seconds:
            self._heard = now
            self._break(late())

    # ---- refusals ----------------------------------------------------------------------------

    def _head_too_large(self) -> HeadTooLarge:
        gate = self.gate
        return HeadTooLarge("headers", f"at most {gate.headers} headers, {gate.head_bytes} bytes in all")

    def _refuse(self, error: ServiceError) -> NoReturn:
        self._refusal = error
        raise error  # the parser stops, and raises

    def _end(self, error: ServiceError) -> None:
        """Parse no more, and tell why: the request whose body is broken, or after the answers that are due."""
        self._dropping = True
        answered = self.cycle is None or self.cycle.response_complete
        if self._expected == BODY:
            if answered:
                self.transport.close()
            else:
                error.headers.update(CLOSING)
                self._break(error)
        elif answered:
            self._close(error)
        else:
            self._last = error

    def _break(self, error: ServiceError) -> None:
        """Let whoever waits for the body find out that no more will come."""
        self._count(type(error))
        cycle = self.cycle
        cast("dict[str, Any]", cycle.scope)[BROKEN] = error
        cycle.keep_alive = False
        waited, cycle.message_event = cycle.message_event, Ended()
        waited.set()

    def _close(self, error: ServiceError) -> None:
        """Answer, and let the client read it: to close while it still sends would take the answer from it."""
        self._write(error)
        if self._linger():
            self.transport.write_eof()
        else:
            self.transport.close()

    def _linger(self) -> bool:
        if self._lingers or self.gate.lingering >= LINGERING:
            return False
        self._lingers = True
        self.gate.lingering += 1
        self.loop.call_later(LINGER_SECONDS, self.transport.close)
        return True

    def _write(self, error: ServiceError) -> None:
        self._count(type(error))
        begun = bool(self.url)  # then the parser knows the method
        method = self.parser.get_method().decode() if begun else "-"
        scope = {"method": method, "path": "", "query_string": b"", "headers": self.headers or []}
        exchange = Exchange(scope, _nothing, _nowhere, self.gate.fixed, NO_READING)
        exchange.began -= self.loop.time() - self._since
        exchange.status, body, headers = problem_of(error, exchange.request_id.decode())
        exchange.bytes_out = len(body)
        lines = [
            b"HTTP/1.1 %d %s" % (exchange.status, http.HTTPStatus(exchange.status).phrase.encode()),
            *(b"%s: %s" % header for header in self.server_state.default_headers),
            b"content-type: " + CONTENT_TYPE,
            b"content-length: %d" % len(body),
            *(b"%s: %s" % header for header in exchange.headers),
            *(f"{name.lower()}: {value}".encode() for name, value in headers.items() if name.lower() != "connection"),
            b"connection: close",
        ]
        self.transport.write(b"\r\n".join(lines) + b"\r\n\r\n" + (body if method != "HEAD" else b""))
        if self.gate.ended is not None:
            self.gate.ended(exchange)

    def _count(self, kind: type[ServiceError]) -> None:
        name = kind.problem_type.name
        self.gate.refused[name] = self.gate.refused.get(name, 0) + 1


async def _nothing() -> Message:
    raise AssertionError("the request was refused before its body")


async def _nowhere(_message: Message) -> None:
    raise AssertionError("the answer is written here")


def refusal_of(error: httptools.HttpParserError, data: bytes) -> ServiceError:
    """Return what is told of bytes that the parser refused."""
    reason = str(error)
    if isinstance(error, httptools.HttpParserInvalidMethodError):
        line = _REQUEST_LINE.search(data)
        if line is not None and line[1].decode() not in http.HTTPMethod.__members__:
            return NotImplementedHere("method", "one that this service knows", Description(line[1].decode()))
    if reason in OTHER_VERSION:
        return VersionNotSupported("HTTP version", "1.1 or 1.0", Description("another"))
    if isinstance(error, httptools.HttpParserCallbackError):  # raised by what took the URL apart
        return BadRequest("target", "a path or an http URL, in ASCII")
    if reason in REASONS:
        return BadRequest(*REASONS[reason])
    return BadRequest("request", "HTTP/1.1 (RFC 9112)", Description(reason[:1].lower() + reason[1:]))


def protocol_of(settings: Settings) -> type[Protocol]:
    """Return the protocol of one server."""
    gate = Gate(
        settings.max_connections,
        settings.max_url_bytes,
        settings.max_header_bytes,
        settings.max_headers,
        settings.head_seconds,
        settings.body_seconds,
        fixed=[(b"aucstream-durability", settings.durability.encode())],
    )
    return type("Protocol", (Protocol,), {"gate": gate})
