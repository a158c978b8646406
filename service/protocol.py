"""uvicorn's HTTP protocol with limits on what one connection, and all of them, may take.

uvicorn bounds neither the head of a request nor the time it takes, and answers what it cannot parse in
plain text. Here: the length of the URL, the size and number of the headers, the seconds for the head,
the seconds without a byte of the body or of an answer that is read, the number of connections. Every
refusal is a problem document.
"""

from __future__ import annotations

import asyncio
import http
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from service.errors import BadRequest, HeadTooLarge, Overloaded, ServiceError, SlowRequest, UrlTooLong
from service.exchange import LATE
from service.problems import CONTENT_TYPE, TABLE, problem_of
from service.settings import Settings

LINGERING = 128  # connections over the limit that are told so; more are closed without a word
LINGER_SECONDS = 2.0  # for a refused client to read its answer

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


class Protocol(HttpToolsProtocol):
    """httptools under the limits of a gate; `protocol_of` binds one."""

    gate: ClassVar[Gate]

    # ---- the connection ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, or mark it as one too many."""
        super().connection_made(transport)
        self._expected = HEAD
        self._since = self._heard = self.loop.time()
        self._head_size = 0
        self._received = self._seen = 0
        self._unsent = -1
        self._refusal: ServiceError | None = None
        self._told = False
        self._active: RequestResponseCycle | None = None
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

    def data_received(self, data: bytes) -> None:
        """Parse, unless this connection is refused: then answer once and drop what comes."""
        if self._lingers:
            if self._refused and not self._told:
                self._told = True
                self._write(Overloaded("connections", f"at most {self.gate.connections} at once: try again later"))
                self.transport.write_eof()
            return
        self._received += len(data)
        before = self._expected
        super().data_received(data)
        if before == HEAD == self._expected and self.parser is not None:
            # the parser keeps a header until it has ended: its end may never come
            self._head_size += len(data)
            if self._head_size > self.gate.head_bytes + self.gate.url_bytes and not self.transport.is_closing():
                self._close(self._head_too_large())

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._active = cycle
        super()._start_asgi_task(cycle, app)

    # ---- the parser's calls ------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Begin a request; an answer that nobody reads can be ended by its handler."""
        super().on_message_begin()
        self.scope["aucstream.abort"] = self.transport.abort  # type: ignore[typeddict-unknown-key]
        if self._expected != HEAD:
            self._expected = HEAD
            self._since = self.loop.time()
        self._head_size = 0
        self._header_bytes = 0

    def on_url(self, url: bytes) -> None:
        """Take a part of the URL."""
        super().on_url(url)
        if len(self.url) > self.gate.url_bytes:
            self._refuse(UrlTooLong("URL", f"at most {self.gate.url_bytes} bytes"))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        super().on_header(name, value)
        self._header_bytes += len(name) + len(value) + 4
        if self._header_bytes > self.gate.head_bytes or len(self.headers) > self.gate.headers:
            self._refuse(self._head_too_large())

    def on_headers_complete(self) -> None:
        """A body may follow."""
        super().on_headers_complete()
        self._expected = BODY
        self._heard = self.loop.time()

    def on_message_complete(self) -> None:
        """The request is here."""
        super().on_message_complete()
        self._expected = DONE
        self._since = self.loop.time()

    def send_400_response(self, msg: str) -> None:
        """Answer what the parser refused and close the connection."""
        self._close(self._refusal or BadRequest("request", "HTTP/1.1"))

    # ---- time --------------------------------------------------------------------------------

    def look(self, now: float) -> None:
        """Called about twice a second: close a connection whose client is too slow."""
        if self._lingers or self.transport.is_closing():
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
            self._count(SlowRequest)
            cast("dict[str, Any]", self.cycle.scope)[LATE] = True
            self.cycle.message_event.set()  # whoever waits for the body finds out

    # ---- refusals ----------------------------------------------------------------------------

    def _head_too_large(self) -> HeadTooLarge:
        gate = self.gate
        return HeadTooLarge("headers", f"at most {gate.headers} headers, {gate.head_bytes} bytes in all")

    def _refuse(self, error: ServiceError) -> None:
        self._refusal = error
        raise error  # the parser stops, and `send_400_response` is called

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
        status, body, headers = problem_of(error, "-")
        lines = [
            f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}",
            f"content-type: {CONTENT_TYPE.decode()}",
            f"content-length: {len(body)}",
            *(f"{name.lower()}: {value}" for name, value in headers.items() if name.lower() != "connection"),
            "connection: close",
        ]
        self.transport.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    def _count(self, kind: type[ServiceError]) -> None:
        name = TABLE[kind].type
        self.gate.refused[name] = self.gate.refused.get(name, 0) + 1


def protocol_of(settings: Settings) -> type[Protocol]:
    """Return the protocol of one server."""
    gate = Gate(
        settings.max_connections,
        settings.max_url_bytes,
        settings.max_header_bytes,
        settings.max_headers,
        settings.head_seconds,
        settings.body_seconds,
    )
    return type("Protocol", (Protocol,), {"gate": gate})
