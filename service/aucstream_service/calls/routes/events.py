"""The numbers of a model as they change, as Server-Sent Events."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request, Response

from aucstream_service.api.description import answer, json_content, problems
from aucstream_service.api.schemas import Removed
from aucstream_service.bodies.bodies import MAX_ID_LENGTH, checked_id
from aucstream_service.calls.event_stream import HEADERS, KIND, Streams
from aucstream_service.errors import exceptions as errors
from aucstream_service.http.request_context import JSON, exchange_of
from aucstream_service.models.host import ModelHost

_encode = msgspec.json.Encoder().encode

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
        '`event: end` and `{"reason": "deleted" | "replaced" | "revoked" | "stopping"}`. A reader that does not read is dropped.',
        response_class=Response,
        responses={
            200: answer("The stream", {KIND: {"schema": {"type": "string"}, "example": EXAMPLE}}),
            **problems(errors.ModelNotFound, errors.ModelFaulted, errors.TooManyStreams),
        },
    )
    async def events(name: str, request: Request) -> Response:
        model = host.model(name)
        exchange = exchange_of(request.scope)
        if exchange.method == "HEAD":
            return Response(headers=HEADERS, media_type=KIND)
        last = request.headers.get("last-event-id", "")
        seen = int(last) if last.isdecimal() and len(last) < 20 else None
        return streams.stream(model, seen, exchange.still_admitted)

    @router.delete(
        "/v1/models/{name}/events",
        summary="Remove the raw record of one example",
        description="From the journal and from what waits for a label. What the model learned from it stays, and so "
        "does that the id was learned: the same example sent again is a duplicate. A prediction that waits is dropped, and "
        "its id is expired: a label for it is 410. Snapshots of learners that buffer "
        "rows (see the algorithm) hold those rows, without their id, until newer ones push them out.",
        response_class=Response,
        responses={
            200: answer("How many records there were", {"application/json": json_content(Removed)}),
            **problems(errors.ModelNotFound, errors.ModelFaulted, errors.InvalidQuery, errors.JournalUnavailable),
        },
    )
    async def erase(
        name: str, id: Annotated[str, Query(min_length=1, max_length=MAX_ID_LENGTH, description="the event id")]
    ) -> Response:
        host.model(name)
        try:
            checked_id(id)
        except errors.InvalidBody as error:
            raise errors.InvalidQuery("id", error.expected, id) from None
        return Response(_encode({"removed": await host.retention.erase(name, id)}), media_type=JSON.decode())

    return router
