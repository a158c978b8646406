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
from service.edge import MODELS, Edge, count_refused, problem_for
from service.exchange import JSON, Exchange
from service.hot import learned_answer
from service.model import Learned, Model
from service.problems import CONTENT_TYPE
from service.watch import MODEL_ROUTE

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

    serve: Callable[[Connection, Head, bytes], bool]
    model: str
    length: int  # of the body
    exchange: Exchange


class Lane:
    """The heads of one server, and what is done with the bodies behind them."""

    def __init__(self, edge: Edge) -> None:
        self.heads: dict[bytes, Head] = {}
        self._edge = edge
        self._calls = {"predict-one": self._predict, "learn-one": self._learn}

    def remember(self, head: bytes, behind: int, scope: Mapping[str, Any]) -> None:
        """Remember the head of a request that was answered 200; so many bytes came `behind` it."""
        path: str = scope["path"]
        name, _, call = path[len(MODELS) :].partition("/")
        if not path.startswith(MODELS) or call not in self._calls or scope["query_string"] or len(head) > MOST_BYTES:
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
        self.heads[head] = Head(self._calls[call], name, behind, exchange)

    def _admitted(self, head: Head) -> tuple[Exchange, Model]:
        exchange = head.exchange.again()
        self._edge.admission.admit(exchange)
        return exchange, self._edge.host.model(head.model)

    def _predict(self, connection: Connection, head: Head, body: bytes) -> bool:
        try:
            exchange, model = self._admitted(head)
            answer = self._edge.hot.predicted(body, model)
        except Exception:  # it is raised again where it is answered
            return False
        if answer is None:
            return False
        self._edge.watch.in_flight += 1
        self._answer(connection, exchange, answer)
        return True

    def _learn(self, connection: Connection, head: Head, body: bytes) -> bool:
        try:
            exchange, model = self._admitted(head)
            future = self._edge.hot.learning(body, model)
        except Exception:  # it is raised again where it is answered: nothing was queued
            return False
        self._edge.watch.in_flight += 1
        connection.wait()
        future.add_done_callback(partial(self._learned, connection, exchange, model))
        return True

    def _learned(
        self, connection: Connection, exchange: Exchange, model: Model, future: asyncio.Future[Learned]
    ) -> None:
        try:
            answer = learned_answer(future.result())
        except (Exception, asyncio.CancelledError) as raised:
            error = self._edge.host.not_ready() if isinstance(raised, asyncio.CancelledError) else raised
            if isinstance(error, AucstreamError):
                count_refused(model, error)
            status, told, extra = problem_for(exchange, error)
            self._answer(connection, exchange, told, status, CONTENT_TYPE, extra)
        else:
            self._answer(connection, exchange, answer)

    def _answer(
        self,
        connection: Connection,
        exchange: Exchange,
        answer: bytes,
        status: int = 200,
        kind: bytes = JSON,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        headers = exchange.head_of(status, answer, kind, extra)
        connection.write_answer(status, b"".join([b"%s: %s\r\n" % header for header in headers]), answer)
        self._edge.watch.ended(exchange)


async def _unused(*_: object) -> Any:
    raise AssertionError("a request in the lane is neither received nor sent by ASGI")
