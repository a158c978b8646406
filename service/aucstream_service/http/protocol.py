"""uvicorn's HTTP protocol with limits on what one connection, and all of them, may take.

uvicorn bounds neither the head of a request nor the time it takes, and answers what it cannot parse in
plain text. Here: the length of the URL, the size and number of the headers, the seconds for the head,
the seconds without a byte of the body or of an answer that is read, the number of connections (`gate.py`). What
RFC 9112 wants refused is (`head.py`): two ways to say where a body ends, a transfer coding other than chunked, no Host
or several, another version. Every refusal is a problem document, is counted and logged, and ends the connection.

httptools parses every request. A request that the gate has a `Call` for is served by that call when its body is
complete; all others become an ASGI cycle. Until its body is complete such a request can become one, too: when the
body does not come at once, or is broken, the ASGI application refuses it as any other.

This is the only file that uses private names of uvicorn. `tests/service/http/test_one_row.py` lists them, and
`pyproject.toml` bounds its version.
"""

from __future__ import annotations

import asyncio
import http
from typing import Any, ClassVar, cast

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from aucstream_service.errors.exceptions import Overloaded, ServiceError, SlowRequest, UrlTooLong
from aucstream_service.errors.problems import CONTENT_TYPE, problem_of
from aucstream_service.http.gate import Call, Gate
from aucstream_service.http.head import checked_head, head_too_large, refusal_of
from aucstream_service.http.request_context import ADMITTED, BROKEN, WIRE, RequestContext, key_refused, late
from aucstream_service.settings import Settings

LINGERING = (
    128  # connections that end, or are over the limit: probes are served there, others are told; the rest is closed
)
LINGER_SECONDS = 2.0  # for a refused client to send its request and to read its answer
GIVE_WAY_SECONDS = 1.0  # where all connections are taken, one that was idle for so long gives way to a new one
PROBES = frozenset({b"/livez", b"/healthz", b"/readyz", b"/metrics"})

CLOSING = {"Connection": "close"}
UPGRADING = (b"upgrade", b"connection", b"http2-settings")

HEAD, BODY, DONE = range(3)  # what is expected next: a head, the rest of a body, nothing (or the next head)


class Ended(asyncio.Event):
    """An event that stays set: there is nothing more to wait for."""

    def __init__(self) -> None:
        super().__init__()
        self.set()

    def clear(self) -> None:
        """Change nothing."""


class DirectCycle:
    """A request that a `Call` serves, with the attributes that uvicorn uses of a cycle."""

    __slots__ = ("_connection", "body", "call", "disconnected", "keep_alive", "more_body", "response_complete")

    message_event = Ended()  # nobody waits for it

    def __init__(self, connection: Protocol, call: Call) -> None:
        self._connection = connection
        self.call = call
        self.body = b""
        self.more_body = True
        self.keep_alive = True
        self.disconnected = False
        self.response_complete = False

    def serve(self) -> None:
        """Serve the request, whose body is complete."""
        self.more_body = False
        self.call.serve(self.body, self)

    def answer(self, status: int, head: bytes, body: bytes) -> None:
        """Write the whole answer; `head` are the headers but for the date, each with the end of its line."""
        self.response_complete = True
        connection = self._connection
        if not self.disconnected:
            if connection.gate.draining:
                self.keep_alive = False
            connection.write_whole(status, head if self.keep_alive else head + b"connection: close\r\n", body)
            if not self.keep_alive:
                connection.transport.close()
        connection.go_on()


class AnswerTransport:
    """The transport that a cycle writes to: to close it ends the connection as its protocol does."""

    __slots__ = ("_connection", "is_closing", "write")

    def __init__(self, connection: Protocol) -> None:
        self._connection = connection
        self.write = connection.transport.write
        self.is_closing = connection.transport.is_closing

    def close(self) -> None:
        """Close after the last answer."""
        self._connection.finish()


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
        self._upgrading = False  # this request asked for another protocol
        self._dropping = False  # nothing more is parsed
        self._last: ServiceError | None = None  # to be told after the answers that are due
        self._active: RequestResponseCycle | None = None
        self._direct: DirectCycle | None = None  # whose body is still to come
        self._idle = False  # since a direct answer; no timer runs
        gate = self.gate
        self._lingers = False  # answered for the last time, or over the limit
        self._refused = gate.serving >= gate.connections and not self._displace()
        if not self._refused:
            gate.serving += 1
            gate.idle[self] = self._since
        elif self._linger():
            gate.over[self] = None
        else:
            transport.abort()

    def _displace(self) -> bool:
        """Close the connection that was idle for longest, if that was long; return whether there is room now."""
        gate = self.gate
        for other, since in gate.idle.items():
            if self.loop.time() - since < GIVE_WAY_SECONDS:
                return False
            other.give_way()
            return True
        return False

    def give_way(self) -> None:
        """End this idle connection."""
        del self.gate.idle[self]
        self.gate.serving -= 1
        self._refused = self._dropping = True
        self._count(Overloaded)
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Make room for another."""
        gate = self.gate
        gate.idle.pop(self, None)
        gate.over.pop(self, None)
        if self._lingers:
            gate.lingering -= 1
        if not self._refused:
            gate.serving -= 1
        if self._direct is not None:
            self._direct.call.abandon()
            self._direct = None
        if self._active is not None and self._active is not self.cycle:  # uvicorn tells the last request only
            self._active.disconnected = True
            self._active.message_event.set()
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer what has come whole before the client ended its side: it may still read, and must know."""
        cycle: RequestResponseCycle | DirectCycle | None = self.cycle
        if cycle is None or cycle.more_body or cycle.response_complete:
            return False
        if not isinstance(cycle, DirectCycle) and cycle.scope["method"] != "POST":
            return False
        cycle.keep_alive = False
        return True

    def data_received(self, data: bytes) -> None:
        """Parse, unless this connection was answered for the last time: then drop what comes."""
        self._received += len(data)
        if self._dropping:
            return
        self.gate.idle.pop(self, None)
        if self._refused:
            self.gate.over.pop(self, None)
        before = self._expected
        self._idle = False
        if self.timeout_keep_alive_task is not None:
            self._unset_keepalive_if_required()
        self._feed(data)
        if before == HEAD == self._expected and not self._dropping:
            # the parser keeps a header until it has ended: its end may never come
            self._head_size += len(data)
            if self._head_size > self.gate.head_bytes + self.gate.url_bytes:
                self._end(head_too_large(self.gate))

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
        headers = [(name, value) for name, value in self.headers if name not in UPGRADING]
        lines = [b"%s: %s" % header for header in (*headers, *([(b"connection", b"close")] if closes else ()))]
        line = b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        self._upgrading = False
        self._expected = HEAD
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
        return b"\r\n".join([line, *lines, b"", b""])

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._active = cycle
        super()._start_asgi_task(cycle, app)

    # ---- the end of a connection --------------------------------------------------------------

    def drain(self) -> None:
        """Make the answer to the request that is being served the last one, if its head is not out yet."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.keep_alive = False

    def shutdown(self) -> None:
        """Close if no request is being served or sent."""
        if self._head_size and self._expected == HEAD and not self._lingers:
            return  # its answer says that it is the last
        super().shutdown()

    def finish(self) -> None:
        """Close after the last answer; where its body was not read whole, let the client read the answer first."""
        if self.cycle is not None and self.cycle.more_body and not self._lingers and self._linger():
            self._dropping = True
            self.transport.write_eof()
        elif not (self._lingers and self._dropping):
            self.transport.close()

    def body_unread(self) -> bool:
        """Return whether a part of the body of the request being served is still to come."""
        cycle = self._active
        return cycle is not None and cycle.more_body

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
        self.write_whole(status, head, body)
        cycle.message_event.set()
        cycle.on_response()
        return True

    def write_whole(self, status: int, head: bytes, body: bytes) -> None:
        """Write a whole answer; `head` are the headers but for the date, each with the end of its line."""
        always = self.gate.lines_of(self.server_state.default_headers)
        self.transport.write(b"%s%s%s\r\n%s" % (STATUS_LINE[status], always, head, body))

    def go_on(self) -> None:
        """Go on after a direct answer: with the next request, or idle until `look` finds that it is too long."""
        if self.pipeline or self._last is not None or self.transport.is_closing():
            self.on_response_complete()
            return
        self.server_state.total_requests += 1
        if self.flow.read_paused:
            self.flow.resume_reading()
        self._idle = True
        self._since = self.gate.idle[self] = self.loop.time()

    # ---- the parser's calls ------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Begin a request; a scope is made of it where ASGI serves it."""
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        if self._expected != HEAD:
            self._expected = HEAD
            self._since = self.loop.time()
        self._head_size = 0

    def on_url(self, url: bytes) -> None:
        """Take a part of the URL."""
        self.url += url
        if len(self.url) > self.gate.url_bytes:
            self._refusal = UrlTooLong("URL", f"at most {self.gate.url_bytes} bytes")
            raise self._refusal  # the parser stops, and raises

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; `checked_head` looks at them together."""
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """A body may follow."""
        method, version = self.parser.get_method(), self.parser.get_http_version()
        try:
            head = checked_head(self.gate, method, version, self.url, self.headers)
        except ServiceError as error:
            self._refusal = error
            raise  # the parser stops, and raises
        self.url, self.headers, self.expect_100_continue = head
        if self._refused and not (method in (b"GET", b"HEAD") and self.url.partition(b"?")[0] in PROBES):
            self._refusal = Overloaded("connections", f"at most {self.gate.connections} at once: try again later")
            raise self._refusal
        if self.parser.should_upgrade():
            self._upgrading = True
            return
        call = self._call() if method == b"POST" and version != "1.0" else None
        if call is None:
            self._begin_cycle()
        else:
            self.cycle = self._active = self._direct = DirectCycle(self, call)  # type: ignore[assignment]
        self._expected = BODY
        self._heard = self.loop.time()

    def _call(self) -> Call | None:
        """Return what serves this request without ASGI; None where ASGI must."""
        call_of, cycle = self.gate.call_of, self.cycle
        if call_of is None or not (cycle is None or cycle.response_complete) or self.expect_100_continue:
            return None
        if self.flow.write_paused or not self.parser.should_keep_alive():
            return None
        return call_of(self.url, self.headers)

    def _begin_cycle(self) -> None:
        """Have ASGI serve this request; its handler can end an answer that nobody reads."""
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers.extend(headers)
        scope = cast("dict[str, Any]", self.scope)
        scope["aucstream.abort"] = self.transport.abort
        scope[WIRE] = self
        super().on_headers_complete()
        self.cycle.transport = AnswerTransport(self)  # type: ignore[assignment]
        if self.gate.draining or self._refused:
            self.cycle.keep_alive = False

    def _leave_to_asgi(self, direct: DirectCycle) -> None:
        """Have ASGI serve a request whose body is not complete."""
        self._direct = None
        direct.call.withdraw()
        self.cycle = None  # type: ignore[assignment]
        self._begin_cycle()
        self.cycle.keep_alive = self.cycle.keep_alive and direct.keep_alive
        if direct.body:
            super().on_body(direct.body)

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        if self._direct is None:
            super().on_body(body)
        else:
            self._direct.body += body

    def on_message_complete(self) -> None:
        """The request is here."""
        if self._upgrading:
            return
        self._expected = DONE
        self._since = self.loop.time()
        direct, self._direct = self._direct, None
        if direct is None:
            super().on_message_complete()
        else:
            direct.serve()

    def on_response_complete(self) -> None:
        """Go on with the next request, or tell what came after the last."""
        super().on_response_complete()
        if not (self.pipeline or self._refused or self.transport.is_closing()) and self.cycle.response_complete:
            self.gate.idle[self] = self.loop.time()
        if self._last is not None and self.cycle.response_complete and not self.transport.is_closing():
            self._close(self._last)

    # ---- time --------------------------------------------------------------------------------

    def look(self, now: float) -> None:
        """Called about twice a second: close a connection whose client is too slow."""
        if self._lingers or self.transport.is_closing():
            return
        if self._direct is not None:
            self._leave_to_asgi(self._direct)
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
            elif self.timeout_keep_alive_task is None and not self._idle:
                self.transport.close()  # bytes that begin no request stopped the timer of idle connections
        if self._idle and now - self._since > self.timeout_keep_alive:
            self.transport.close()

    def _look_at_body(self, now: float, *, answered: bool) -> None:
        if answered:  # refused before its end: what still comes is dropped, for a while
            if now - self._heard > self.gate.body_seconds:
                self.transport.close()
        elif not self._admitted():
            self._break(key_refused())
        elif self.flow.read_paused or self._received != self._seen:
            self._seen = self._received
            self._heard = now
        elif now - self._heard > self.gate.body_seconds:
            self._heard = now
            self._break(late())

    def _admitted(self) -> bool:
        """Return whether the key of the request whose body is read is still good."""
        cycle = self.cycle
        admitted = None if isinstance(cycle, DirectCycle) else cast("dict[str, Any]", cycle.scope).get(ADMITTED)
        return admitted is None or bool(admitted())

    # ---- refusals ----------------------------------------------------------------------------

    def _end(self, error: ServiceError) -> None:
        """Parse no more, and tell why: the request whose body is broken, or after the answers that are due."""
        self._dropping = True
        if self._direct is not None:
            self._leave_to_asgi(self._direct)
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
        self._dropping = True
        self._write(error)
        if self._lingers or self._linger():
            self.transport.write_eof()
        else:
            self.transport.close()

    def _linger(self) -> bool:
        gate = self.gate
        if self._lingers:
            return False
        if gate.lingering >= LINGERING:
            if not gate.over:
                return False
            next(iter(gate.over)).stop_lingering()
        self._lingers = True
        gate.lingering += 1
        self.loop.call_later(LINGER_SECONDS, self._end_lingering)
        return True

    def stop_lingering(self) -> None:
        """Close a connection over the limit that has sent nothing yet."""
        del self.gate.over[self]
        self.gate.lingering -= 1
        self._lingers = False
        self._dropping = True
        self.transport.close()

    def _end_lingering(self) -> None:
        if self.transport.is_closing():
            return
        if not self._dropping:
            if self.cycle is not None and not self.cycle.response_complete:  # a probe
                self.loop.call_later(LINGER_SECONDS, self._end_lingering)
                return
            if self._received:  # a head that did not come whole
                self._write(Overloaded("connections", f"at most {self.gate.connections} at once: try again later"))
        self.transport.close()

    def _write(self, error: ServiceError) -> None:
        self._count(type(error))
        begun = bool(self.url)  # then the parser knows the method
        method = self.parser.get_method().decode() if begun else "-"
        context = RequestContext(method, "", self.headers or [], self.gate.fixed)
        context.began -= self.loop.time() - self._since
        context.status, body, headers = problem_of(error, context.request_id.decode())
        context.bytes_out = len(body)
        lines = [
            b"HTTP/1.1 %d %s" % (context.status, http.HTTPStatus(context.status).phrase.encode()),
            *(b"%s: %s" % header for header in self.server_state.default_headers),
            b"content-type: " + CONTENT_TYPE,
            b"content-length: %d" % len(body),
            *(b"%s: %s" % header for header in context.headers),
            *(f"{name.lower()}: {value}".encode() for name, value in headers.items() if name.lower() != "connection"),
            b"connection: close",
        ]
        self.transport.write(b"\r\n".join(lines) + b"\r\n\r\n" + (body if method != "HEAD" else b""))
        if self.gate.ended is not None:
            self.gate.ended(context)

    def _count(self, kind: type[ServiceError]) -> None:
        name = kind.problem_type.name
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
        fixed=[(b"aucstream-durability", settings.durability.encode())],
    )
    return type("Protocol", (Protocol,), {"gate": gate})
