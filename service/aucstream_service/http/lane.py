"""Requests whose head came before: served past the parser, ASGI and tasks, where most of their time went.

A client that keeps its connection sends the same head again, but for the length of the body. A head that a hot call
was answered 200 for is remembered; when it comes again, byte for byte, with the whole body behind it, nothing of it has
to be parsed. Who may come in is asked each time. What cannot be answered at once, or must be refused, goes the way of
all requests, which knows what to say of it: until then nothing has happened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from aucstream.errors import AucstreamError
from aucstream_service.calls.dispatch import Edge, count_refused, problem_for
from aucstream_service.calls.one_row import Answer, OneCall, Pending
from aucstream_service.errors.problems import CONTENT_TYPE
from aucstream_service.http.access import MODEL_ROUTE, MODELS
from aucstream_service.http.request_context import JSON, Exchange, header_lines
from aucstream_service.models.model import Model

MOST_HEADS = 1_024  # remembered at once: clients times lengths of bodies
MOST_BYTES = 2_048  # of a head that is remembered
OWN = frozenset({b"x-request-id", b"traceparent", b"content-encoding", b"transfer-encoding", b"expect", b"upgrade"})


class Connection(Protocol):
    """What a connection does for a request that is served here."""

    def wait(self) -> None:
        """Take no further request until this one is answered."""

    def write_answer(self, status: int, head: bytes, body: bytes) -> None:
        """Answer it; `head` are the headers but for the date."""


@dataclass(frozen=True, slots=True)
class Head:
    """A head that was served."""

    call: OneCall
    model: str
    length: int  # of the body
    exchange: Exchange


class Lane:
    """The heads of one server, and what is done with the bodies behind them."""

    def __init__(self, edge: Edge) -> None:
        self.heads: dict[bytes, Head] = {}
        self._edge = edge

    def remember(self, head: bytes, behind: int, scope: Mapping[str, Any]) -> None:
        """Remember the head of a request that was answered 200; so many bytes came `behind` it."""
        path: str = scope["path"]
        name, _, call = path[len(MODELS) :].partition("/")
        if (
            not path.startswith(MODELS)
            or call not in self._edge.hot.one
            or scope["query_string"]
            or len(head) > MOST_BYTES
        ):
            return
        if any(header in OWN for header, _ in scope["headers"]):
            return
        kept = {key: scope[key] for key in ("method", "path", "query_string", "headers")}  # and no connection
        exchange = Exchange(kept, _unused, _unused, self._edge.fixed, self._edge.reading)
        if exchange.content_length != behind:
            return
        exchange.route, exchange.model, exchange.rows = f"{MODEL_ROUTE}/{call}", name, 1
        exchange.bytes_in = behind
        if len(self.heads) >= MOST_HEADS:
            self.heads.clear()
        self.heads[head] = Head(self._edge.hot.one[call], name, behind, exchange)

    def serve(self, connection: Connection, head: Head, body: bytes) -> bool:
        """Serve the body behind a head; False: nothing was done, and the request must be parsed."""
        edge = self._edge
        exchange = head.exchange.again()
        try:
            edge.admission.admit(exchange)
            model = edge.host.model(head.model)
            found = head.call(exchange, model, body)
        except Exception:  # it is raised again where it is answered
            return False
        edge.watch.in_flight += 1
        if isinstance(found, Pending):
            connection.wait()
            found.outcome.add_done_callback(partial(self._decided, connection, exchange, model, found.answer))
        else:
            self._answer(connection, exchange, *found)
        return True

    def _decided(
        self,
        connection: Connection,
        exchange: Exchange,
        model: Model,
        answer: Callable[[Any], Answer],
        outcome: asyncio.Future[Any],
    ) -> None:
        try:
            found = answer(outcome.result())
        except (Exception, asyncio.CancelledError) as raised:
            error = self._edge.host.not_ready() if isinstance(raised, asyncio.CancelledError) else raised
            if isinstance(raised, AucstreamError):
                count_refused(model, raised)
            status, told, extra = problem_for(exchange, error)
            self._answer(connection, exchange, status, told, CONTENT_TYPE, extra)
        else:
            self._answer(connection, exchange, *found)

    def _answer(
        self,
        connection: Connection,
        exchange: Exchange,
        status: int,
        answer: bytes,
        kind: bytes = JSON,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        headers = exchange.head_of(status, answer, kind, extra)
        connection.write_answer(status, header_lines(headers), answer)
        self._edge.watch.ended(exchange)


async def _unused(*_: object) -> Any:
    raise AssertionError("a request in the lane is neither received nor sent by ASGI")
