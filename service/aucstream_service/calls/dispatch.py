"""The one middleware: request ids, admission, hot calls, and a problem document on every exit.

A hot call of one row needs no ASGI: `Edge.call_of` gives it to the connection, which calls it with the whole body.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from aucstream.errors import AucstreamError, NonFiniteStep
from aucstream_service.calls.one_row import Answer, HotCalls, OneCall, Pending
from aucstream_service.errors.exceptions import Disconnected, MethodNotAllowed, RouteNotFound, RowsRefused
from aucstream_service.errors.problems import CONTENT_TYPE, INTERNAL, problem_of, problem_type_of
from aucstream_service.http.access import MODEL_ROUTE, MODELS, Watch
from aucstream_service.http.admission import Admission
from aucstream_service.http.gate import Connection
from aucstream_service.http.query import checked_query
from aucstream_service.http.request_context import JSON, SMALL, Header, Reading, RequestContext, header_lines
from aucstream_service.models.host import ModelHost
from aucstream_service.models.model import Model
from aucstream_service.storage.api_keys import REST_SECONDS, Keyring
from aucstream_service.telemetry.logs import place_of

log = logging.getLogger("aucstream")

MODELS_URL = MODELS.encode()


class OneRowCall:
    """A hot call of one row whose head was accepted; a `gate.Call`."""

    __slots__ = ("_call", "_context", "_edge", "_model")

    def __init__(self, edge: Edge, context: RequestContext, model: Model, call: OneCall) -> None:
        self._edge = edge
        self._context = context
        self._model = model
        self._call = call
        edge.watch.in_flight += 1

    def serve(self, body: bytes, connection: Connection) -> None:
        """Answer by `connection.answer`, now or when the journal has decided."""
        self._context.bytes_in = len(body)
        try:
            answer = self._edge.hot.begun(self._call, self._context, self._model, body)
        except Exception as error:
            self._refuse(connection, error)
            return
        if isinstance(answer, Pending):
            answer.outcome.add_done_callback(partial(self._decided, connection, answer.answer))
        else:
            self._answer(connection, answer)

    def withdraw(self) -> None:
        """Take note that ASGI serves this request."""
        self._edge.watch.in_flight -= 1
        self._edge.admission.restore(self._context)

    def abandon(self) -> None:
        """Take note that the client left before the body was complete."""
        self._edge.watch.ended(self._context)

    def _decided(self, connection: Connection, answer: Callable[[Any], Answer], outcome: asyncio.Future[Any]) -> None:
        try:
            reply = answer(outcome.result())
        except asyncio.CancelledError:
            self._refuse(connection, self._edge.host.not_ready())
        except Exception as error:
            self._refuse(connection, error)
        else:
            self._answer(connection, reply)

    def _refuse(self, connection: Connection, error: Exception) -> None:
        if isinstance(error, AucstreamError):
            count_refused(self._model, error)
        context = self._context
        status, body, extra = problem_for(context, error)
        connection.answer(status, header_lines(context.head_of(status, body, CONTENT_TYPE, extra)), body)
        self._edge.watch.ended(context)

    def _answer(self, connection: Connection, answer: Answer) -> None:
        status, body = answer
        connection.answer(status, self._context.json_head(status, body, self._edge.fixed_lines), body)
        self._edge.watch.ended(self._context)


class Edge:
    """Plain ASGI in front of the router."""

    def __init__(self, host: ModelHost, router: ASGIApp, watch: Watch) -> None:
        self.host = host
        self._router = router
        self.watch = watch
        self.hot = HotCalls(host)
        self._hot = {
            call: (handler, f"{MODEL_ROUTE}/{call}", 1 if call.endswith("-one") else 0)
            for call, handler in self.hot.handlers.items()
        }
        self._one = {call: (one, f"{MODEL_ROUTE}/{call}") for call, one in self.hot.one.items()}
        keyring = Keyring(host.directory.keys, host.settings.own_key(), REST_SECONDS)
        self.admission = Admission(host.settings, keyring)
        limits = host.settings
        self.reading = Reading(
            limits.max_bodies_bytes, limits.body_seconds, limits.inflate, limits.stream_bytes_per_second
        )
        self.fixed = [(b"aucstream-durability", host.settings.durability.encode())]
        self.fixed_lines = header_lines(self.fixed)
        self._most = min(limits.max_body_bytes, SMALL)

    def call_of(self, url: bytes, headers: list[Header]) -> OneRowCall | None:
        """Return what serves a POST without ASGI: a call of one row whose head is in order and whose body is small.

        None for all others. What is wrong with a head is told where ASGI serves it: nothing was done yet.
        """
        if not url.startswith(MODELS_URL):
            return None
        path = url.decode("latin-1")
        name, _, call = path[len(MODELS) :].partition("/")
        if call not in self._one:
            return None
        one, route = self._one[call]
        context = RequestContext("POST", path, headers, self.fixed)
        size = context.content_length
        if size is None or size > self._most or context.content_encoding is not None:
            return None
        try:
            self.admission.admit(context)
            model = self.host.model(name)
            context.require(JSON)
            self.admission.spend(context)
        except AucstreamError:
            return None
        context.route, context.model, context.rows = route, name, 1
        return OneRowCall(self, context, model, one)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; nothing is raised to the server."""
        context = RequestContext.of_asgi(scope, receive, send, self.fixed, self.reading)
        self.watch.in_flight += 1
        model: Model | None = None  # of a hot call: it counts what was refused
        try:
            self.admission.admit(context)
            self.admission.spend(context)
            path = context.path
            if context.method == "POST" and path.startswith(MODELS):
                name, _, call = path[len(MODELS) :].partition("/")
                hot = self._hot.get(call)
                if hot is not None:
                    handler, context.route, context.rows = hot
                    model = self.host.model(name)
                    context.model = name
                    if context.query and context.rows:
                        checked_query(context.query, ())
                    await handler(context, model)
                    return
            scope["aucstream.context"] = context
            if context.method == "HEAD":  # the answer of GET; the server leaves its body out
                scope = {**scope, "method": "GET"}
            try:
                await self._router(scope, receive, context.forward)
            finally:
                context.route = getattr(scope.get("route"), "path", None)
        except Disconnected:
            return
        except asyncio.CancelledError:  # the time to stop is over
            await answer_error(context, self.host.not_ready())
        except Exception as error:  # every exit is a problem document
            if model is not None and isinstance(error, AucstreamError):
                count_refused(model, error)
            await answer_error(context, error)
        finally:
            context.release()
            self.watch.ended(context)


def count_refused(model: Model, error: AucstreamError) -> None:
    """Count what a hot call refused, unless its rows were counted one by one."""
    if not isinstance(error, (RowsRefused, NonFiniteStep, Disconnected)):
        model.counts.refuse(error)


async def answer_error(context: RequestContext, error: BaseException) -> None:
    """Answer an exception by the table; log an unexpected one without its message.

    A message may quote features: the log gets the type and the place only.
    """
    status, body, headers = problem_for(context, error)
    if context.finished:
        return
    if context.started:
        raise error  # too late for an answer: the server closes the connection
    await context.answer(status, body, CONTENT_TYPE, headers)


def problem_for(context: RequestContext, error: BaseException) -> tuple[int, bytes, Mapping[str, str]]:
    """Return status, body and headers of an exception's answer; an unexpected one is logged."""
    if problem_type_of(error) is INTERNAL:
        fields = {"request_id": context.request_id.decode()}
        log.error("request failed: %s at %s", type(error).__name__, place_of(error), extra=fields)
    return problem_of(error, context.request_id.decode())


def unrouted(context: RequestContext, allowed: set[str]) -> Exception:
    """Return the error of a request that no route takes."""
    if allowed:
        methods = ", ".join(sorted(allowed))
        return MethodNotAllowed("method", methods, context.method, headers={"Allow": methods})
    return RouteNotFound("path", "one of those in /openapi.json", context.path)
