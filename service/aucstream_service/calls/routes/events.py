"""Event streams of a model, and removal of raw events."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response

from aucstream.answers import ExportedEvent, ExportedPending, ModelEvent, Removed
from aucstream_service.api.description import operation
from aucstream_service.api.schemas import example_of, ref
from aucstream_service.bodies.bodies import MAX_ID_LENGTH, checked_id
from aucstream_service.calls.event_stream import HEADERS, KIND, Streams
from aucstream_service.calls.export import Export
from aucstream_service.calls.routes.encoding import encode, json_response
from aucstream_service.errors.exceptions import InvalidBody, InvalidQuery
from aucstream_service.http.request_context import NDJSON, context_of
from aucstream_service.models.host import ModelHost

EXAMPLE = f"retry: 2000\n\nid: 1000\ndata: {encode(example_of(ref(ModelEvent))).decode()}\n\n"


def events_router(host: ModelHost, streams: Streams) -> APIRouter:
    """Return the route of event streams."""
    router = APIRouter(tags=["evaluation"])

    @router.get(
        "/v1/models/{name}/events",
        **operation(
            "AUC and counts as they change (Server-Sent Events)",
            {200: ("The stream", {KIND: {"schema": {"type": "string"}, "example": EXAMPLE}})},
            "model-not-found model-faulted too-many-streams",
            description="An event holds the newest numbers, with their `seq` as its id. Events come when the model learns, at "
            "most `--events-per-second`; between them comments show that the stream is alive. A reader that comes back with "
            "`Last-Event-ID` gets the next event when the numbers change. Where an alarm of drift was given since the event "
            "before, or since `Last-Event-ID`, `event: alarm` comes first: `seq` and `strength` of the newest one, and `alarms`, "
            "how many there were in all. For each member of an `auto` model that rests or learns again since the stream was "
            "opened, `event: member` comes with `member` and `resting`. The stream ends with "
            '`event: end` and `{"reason": "deleted" | "replaced" | "revoked" | "stopping"}`. The service drops a reader that '
            "does not read.",
        ),
    )
    async def events(name: str, request: Request) -> Response:
        model = host.model(name)
        context = context_of(request.scope)
        if context.method == "HEAD":
            return Response(headers=HEADERS, media_type=KIND)
        last = request.headers.get("last-event-id", "")
        seen = int(last) if last.isdecimal() and len(last) < 20 else None
        await model.free()
        return streams.stream(model, seen, context.still_admitted)

    @router.get(
        "/v1/models/{name}/export",
        **operation(
            "Export the events of a model, or what waits for a label",
            {
                200: (
                    "Lines of JSON, streamed",
                    {
                        "application/x-ndjson": {
                            "schema": {
                                "type": "string",
                                "description": "lines, each an ExportedEvent or an ExportedPending",
                                "x-line": {"oneOf": [ref(ExportedEvent), ref(ExportedPending)]},
                            }
                        }
                    },
                )
            },
            "model-not-found model-faulted journal-unavailable",
            description="`events`: each row that was learned or expired, and each change of the model, in order of `seq`, from "
            "the oldest that the journal still holds to the newest when the export began. `pending`: what waited when the "
            "export began, in the order in which it came, without what has been labelled or has expired before it was read. "
            "A line never changes. The connection breaks where an export cannot go on.",
        ),
    )
    async def export(
        name: str,
        request: Request,
        what: Annotated[Literal["events", "pending"], Query(description="what to export")],
    ) -> Response:
        model = host.model(name)
        context = context_of(request.scope)
        if context.method == "HEAD":
            return Response(media_type=NDJSON.decode())
        host.require_running()
        return Export(host, model, context.still_admitted, pending=what == "pending")

    @router.delete(
        "/v1/models/{name}/events",
        **operation(
            "Remove the raw record of one example",
            {200: ("How many records were removed", Removed)},
            "model-not-found model-faulted journal-unavailable",
            description="From the journal and from what waits for a label. What the model learned from it stays, and so "
            "does that the id was learned: the same example sent again is a duplicate. A prediction that waits is dropped, "
            "and its id is expired: a label for it is 410. Snapshots of learners that buffer "
            "rows (see the algorithm) hold those rows, without their id, until newer ones push them out.",
        ),
    )
    async def erase(
        name: str, id: Annotated[str, Query(min_length=1, max_length=MAX_ID_LENGTH, description="the event id")]
    ) -> Response:
        host.model(name)
        try:
            checked_id(id)
        except InvalidBody as error:
            raise InvalidQuery("id", error.expected, id) from None
        return json_response(Removed(await host.retention.erase(name, id)))

    return router
