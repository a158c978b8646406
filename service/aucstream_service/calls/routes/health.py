"""Health and metrics."""

from __future__ import annotations

import itertools

from fastapi import APIRouter, Request, Response

from aucstream.answers import Alive, Health
from aucstream_service.api.description import operation
from aucstream_service.calls.metrics import Metrics
from aucstream_service.calls.routes.encoding import json_response
from aucstream_service.models.host import ModelHost
from aucstream_service.models.remarks import remarks_of

MOST_REMARKS = 100
KINDS = ("text/plain", "application/openmetrics-text")


def health_router(host: ModelHost, metrics: Metrics) -> APIRouter:
    """Return the routes of health and metrics."""
    router = APIRouter(tags=["health"])

    async def live() -> Response:
        return json_response(Alive("live"))

    async def ready(request: Request) -> Response:
        if not host.ready or host.draining:
            raise host.not_ready()
        if host.journal_failed and request.query_params.get("for") == "learning":
            raise host.journal_error()
        why = host.why_not_learning
        remarks = (
            f"{model.name}: {remark}" for _, model in sorted(host.models.items()) for remark in remarks_of(model)
        )
        return json_response(
            Health("ready", tuple(host.faulted), why is None, why, tuple(itertools.islice(remarks, MOST_REMARKS)))
        )

    alive = {200: ("The process answers", Alive)}
    for path, summary in (("/livez", "Is the process alive"), ("/healthz", "The same as /livez")):
        router.add_api_route(path, live, operation_id=path[1:], **operation(summary, alive))
    router.add_api_route(
        "/readyz",
        ready,
        operation_id="readyz",
        **operation(
            "Replayed, warm, not stopping: scores are given. `learning` and `why` name what does not work beside; with "
            "`?for=learning` that is 503",
            {200: ("Ready", Health)},
            "journal-unavailable",
        ),
    )

    @router.get(
        "/metrics",
        operation_id="metrics",
        **operation(
            "Metrics for Prometheus, or OpenMetrics where `Accept` asks for it",
            {200: ("All families", {kind: {"schema": {"type": "string"}} for kind in KINDS})},
        ),
    )
    async def scrape(request: Request) -> Response:
        text, kind = await metrics.text(request.headers.get("accept", ""))
        return Response(text, headers={"Content-Type": kind})

    return router
