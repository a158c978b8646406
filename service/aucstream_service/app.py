"""The application: host, edge, routes and lifespan."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from aucstream.errors import AucstreamError
from aucstream_service.api.description import complete
from aucstream_service.calls.dispatch import Edge, unrouted
from aucstream_service.calls.event_stream import Streams
from aucstream_service.calls.metrics import Metrics
from aucstream_service.calls.routes.evaluation import evaluation_router
from aucstream_service.calls.routes.events import events_router
from aucstream_service.calls.routes.health import health_router
from aucstream_service.calls.routes.learning import learning_router
from aucstream_service.calls.routes.models import models_router
from aucstream_service.calls.routes.pages import pages_router
from aucstream_service.calls.routes.snapshots import snapshots_router
from aucstream_service.errors.exceptions import Disconnected, InvalidQuery
from aucstream_service.errors.problems import CONTENT_TYPE, log_text, problem_of
from aucstream_service.errors.refusal_text import of_pydantic
from aucstream_service.http.access import Watch
from aucstream_service.http.query import known_query
from aucstream_service.http.request_context import context_of
from aucstream_service.models.host import ModelHost
from aucstream_service.settings import Settings
from aucstream_service.storage.directory import DataDirectory
from aucstream_service.telemetry.logs import Sink

log = logging.getLogger("aucstream")

TITLE = "aucstream"
SUMMARY = "Streaming AUC maximization: models that learn one labelled example at a time and rank the next."


class Service(FastAPI):
    """FastAPI behind one ASGI middleware, which serves the hot calls itself."""

    def __init__(
        self,
        settings: Settings,
        directory: DataDirectory | None = None,
        access: Sink | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.model_host = ModelHost(settings, directory, clock)
        self.watch = Watch(access, settings.access_log_share)
        self.streams = Streams(self.model_host)
        self.fatal: BaseException | None = None  # recovery failed: the process must end
        self.when_fatal: Callable[[], None] | None = None
        super().__init__(
            title=TITLE,
            summary=SUMMARY,
            version="1",
            docs_url=None,
            redoc_url=None,
            lifespan=_lifespan,
            redirect_slashes=False,
            openapi_url=None,
        )
        calls = (
            models_router(self.model_host),
            learning_router(),
            evaluation_router(self.model_host),
            snapshots_router(self.model_host),
            events_router(self.model_host, self.streams),
        )
        others = (
            health_router(self.model_host, Metrics(self.model_host, self.watch, self.streams)),
            pages_router(),
        )
        for router in calls:
            self.include_router(router, dependencies=[Depends(known_query)])
        for router in others:  # a probe or a page may add what it likes
            self.include_router(router)
        self._places = [
            route for router in (*calls, *others) for route in router.routes if isinstance(route, Route | APIRoute)
        ]
        self.add_exception_handler(HTTPException, self._unrouted)
        for kind in (AucstreamError, Disconnected, Exception):
            self.add_exception_handler(kind, _answer)
        self.add_exception_handler(RequestValidationError, _bad_query)
        self.edge = Edge(self.model_host, super().__call__, self.watch)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve through the edge."""
        if scope["type"] == "http":
            await self.edge(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    async def _unrouted(self, request: Request, error: Exception) -> Response:
        context = context_of(request.scope)
        allowed: set[str] = set()
        for route in self._places:
            if route.path_regex.match(context.path):
                allowed |= set(route.methods or ())
        if "GET" in allowed:
            allowed.add("HEAD")
        if allowed:
            allowed.add("OPTIONS")
        if context.method == "OPTIONS" and allowed:
            return Response(status_code=204, headers={"Allow": ", ".join(sorted(allowed))})
        return _problem(unrouted(context, allowed), request)

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI 3.1 document."""
        if self.openapi_schema is None:
            document = get_openapi(
                title=self.title,
                version=self.version,
                summary=self.summary,
                routes=self.routes,
                openapi_version="3.1.0",
            )
            complete(document)
            self.openapi_schema = document
        return self.openapi_schema


def _problem(error: BaseException, request: Request) -> Response:
    status, body, headers = problem_of(error, context_of(request.scope).request_id.decode())
    return Response(body, status, dict(headers), CONTENT_TYPE.decode())


async def _answer(request: Request, error: Exception) -> Response:
    return _problem(error, request)


async def _bad_query(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    name = str(first["loc"][-1])
    got = ... if first["type"] == "missing" else first.get("input")
    return _problem(InvalidQuery(name, of_pydantic(str(first["msg"])), got), request)


@contextlib.asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    assert isinstance(app, Service)
    app.model_host.acquire()
    recovery = asyncio.get_running_loop().create_task(_recover(app))
    try:
        yield
    finally:
        app.model_host.draining = True
        if not recovery.done():
            recovery.cancel()
            await asyncio.gather(recovery, return_exceptions=True)
        await app.model_host.stop()


async def _recover(app: Service) -> None:
    try:
        await app.model_host.recover()
    except Exception as error:
        log.critical("start: %s", log_text(error), exc_info=None if isinstance(error, AucstreamError) else error)
        app.fatal = error
        if app.when_fatal is not None:
            app.when_fatal()


def create_app(
    settings: Settings | None = None,
    directory: DataDirectory | None = None,
    access: Sink | None = None,
    clock: Callable[[], float] = time.time,
) -> Service:
    """Return the application; when it starts it takes the data directory and reads it.

    Parameters
    ----------
    settings : Settings, optional
        Default: from the environment.
    directory : DataDirectory, optional
        One that this process owns already.
    access : Sink, optional
        Where the line of each request goes.
    clock : callable, optional
        Seconds since 1970: what decides when an example expires.
    """
    return Service(Settings() if settings is None else settings, directory, access, clock)
