"""Is the process alive, and may it be sent work."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter, Request, Response

from aucstream_service.api.description import answer, json_content, problems
from aucstream_service.api.schemas import Alive, Health
from aucstream_service.calls.metrics import Metrics
from aucstream_service.errors import exceptions as errors
from aucstream_service.http.request_context import JSON
from aucstream_service.models.host import ModelHost

KINDS = ("text/plain", "application/openmetrics-text")

_encode = msgspec.json.Encoder().encode


def health_router(host: ModelHost, metrics: Metrics) -> APIRouter:
    """Return the routes of health and metrics."""
    router = APIRouter(tags=["health"])

    async def live() -> Response:
        return Response(_encode({"status": "live"}), media_type=JSON.decode())

    async def ready() -> Response:
        if host.journal_failed:
            raise host.journal_error()
        if not host.ready or host.draining:
            raise host.not_ready()
        return Response(_encode({"status": "ready", "faulted": host.faulted}), media_type=JSON.decode())

    alive = {200: answer("The process answers", {"application/json": json_content(Alive)})}
    for path, summary in (("/livez", "Is the process alive"), ("/healthz", "The same as /livez")):
        router.add_api_route(
            path,
            live,
            methods=["GET"],
            summary=summary,
            response_class=Response,
            responses=alive,  # type: ignore[arg-type]
            operation_id=path[1:],
        )
    router.add_api_route(
        "/readyz",
        ready,
        methods=["GET"],
        operation_id="readyz",
        summary="Replayed, warm, journal writable, not stopping",
        response_class=Response,
        responses={
            200: answer("Ready", {"application/json": json_content(Health)}),
            **problems(errors.JournalUnavailable),
        },
    )

    @router.get(
        "/metrics",
        operation_id="metrics",
        summary="Metrics for Prometheus, or OpenMetrics where `Accept` asks for it",
        response_class=Response,
        responses={
            200: answer("All families", {kind: {"schema": {"type": "string"}} for kind in KINDS}),
            500: problems()[500],
        },
    )
    async def scrape(request: Request) -> Response:
        text, kind = metrics.text(request.headers.get("accept", ""))
        return Response(text, headers={"Content-Type": kind})

    return router
