"""The numbers of a model as they change, as Server-Sent Events."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from service import errors
from service.description import answer, problems
from service.exchange import exchange_of
from service.host import ModelHost
from service.streams import HEADERS, KIND, Streams

EXAMPLE = (
    "retry: 2000\n\nid: 1000\n"
    'data: {"name":"clicks","seq":1000,"examples":1000,"positives":20,"pending":0,'
    '"last_event_at":"2026-01-01T00:05:00.000000Z","window":{"size":10000,"examples":1000,"positives":20,'
    '"auc":0.86,"auc_low":0.81,"auc_high":0.91,"ready":true},"total":{"examples":1000,"positives":20,'
    '"auc":0.86,"auc_low":0.81,"auc_high":0.91,"ready":true}}\n\n'
)


def events_router(host: ModelHost, streams: Streams) -> APIRouter:
    """Return the route of event streams."""
    router = APIRouter(tags=["evaluation"])

    @router.get(
        "/v1/models/{name}/events",
        summary="AUC and counts as they change (Server-Sent Events)",
        description="An event holds the newest numbers and has their `seq` as its id; one comes when events were "
        "learned, at most `--events-per-second`; between them a comment shows that the stream lives. A reader that "
        "comes back with `Last-Event-ID` gets the next event when there is something new. The stream ends with "
        '`event: end` and `{"reason": "deleted" | "replaced" | "stopping"}`. A reader that does not read is dropped.',
        response_class=Response,
        responses={
            200: answer("The stream", {KIND: {"schema": {"type": "string"}, "example": EXAMPLE}}),
            **problems(errors.ModelNotFound, errors.ModelFaulted, errors.TooManyStreams),
        },
    )
    async def events(name: str, request: Request) -> Response:
        model = host.model(name)
        if exchange_of(request.scope).method == "HEAD":
            return Response(headers=HEADERS, media_type=KIND)
        last = request.headers.get("last-event-id", "")
        return streams.stream(model, int(last) if last.isdecimal() and len(last) < 20 else None)

    return router
