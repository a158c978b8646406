"""Download and upload the state of a model; list its snapshots and go back to one."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request, Response

from aucstream.answers import Description, RolledBack, Snapshot, Snapshots
from aucstream_service.api.description import operation
from aucstream_service.bodies.bodies import RollbackBody
from aucstream_service.calls.routes.encoding import decoded, json_response
from aucstream_service.calls.routes.models import model_response
from aucstream_service.http.preconditions import IfMatch, IfNoneThere, Preconditions
from aucstream_service.http.request_context import JSON, SAFETENSORS, SNAPSHOT, context_of
from aucstream_service.models.host import ModelHost
from aucstream_service.models.model import timestamp
from aucstream_service.models.spec import checked_name

BINARY: dict[str, Any] = {"schema": {"type": "string", "contentMediaType": "application/octet-stream"}}


def snapshots_router(host: ModelHost) -> APIRouter:
    """Return the routes of snapshots."""
    router = APIRouter(tags=["snapshots"])

    @router.get(
        "/v1/models/{name}/snapshot",
        **operation(
            "Download the whole state (safetensors)",
            {200: ("The state", {"application/octet-stream": BINARY})},
            "model-not-found",
        ),
    )
    async def download(name: str) -> Response:
        model = host.model(name)
        seq, data = await host.snapshot_bytes(model)
        headers = {"Content-Disposition": f'attachment; filename="{name}-{seq}.safetensors"'}
        return Response(data, headers=headers, media_type=SNAPSHOT.decode())

    @router.put(
        "/v1/models/{name}/snapshot",
        **operation(
            "Create or replace a model from a snapshot",
            {200: ("Replaced", Description), 201: ("Created", Description)},
            "body-too-large unsupported-media-type invalid-name precondition-failed "
            "bad-snapshot newer-snapshot too-many-models journal-unavailable",
            description="Goes on at the snapshot's seq, equal to the last bit. Event ids and examples that wait for a "
            "label are not part of it: the model begins without them.",
            body=("A snapshot", {"application/octet-stream": BINARY, "application/vnd.safetensors": BINARY}),
            etag=True,
        ),
    )
    async def upload(
        name: str, request: Request, if_match: IfMatch = None, if_none_match: IfNoneThere = None
    ) -> Response:
        context = context_of(request.scope)
        checked_name(name)
        context.require(SNAPSHOT, SAFETENSORS)
        if not host.ready:
            raise host.not_ready()
        async with host.uploading:
            data = await context.body(host.settings.max_snapshot_bytes, hurry=False)
            model, new = await host.upload(name, data, Preconditions(if_match, if_none_match))
        return model_response(model, 201 if new else 200)

    @router.get(
        "/v1/models/{name}/snapshots",
        **operation(
            "List the snapshots that the service keeps of a model",
            {200: ("The newest first", Snapshots)},
            "model-not-found model-faulted",
            description="They are written after `--snapshot-every-rows` events, at a clean stop and before a rollback; the "
            "newest `--snapshot-keep` stay.",
        ),
    )
    async def snapshots(name: str) -> Response:
        listed = await asyncio.to_thread(host.archive.listed, host.model(name).number)
        return json_response(Snapshots(tuple(Snapshot(seq, timestamp(at), size) for seq, at, size in listed)))

    @router.post(
        "/v1/models/{name}/rollback",
        **operation(
            "Bring a model back to one of its snapshots",
            {200: ("The model is as it was", RolledBack)},
            "model-not-found model-faulted snapshot-not-found precondition-failed body-too-large unsupported-media-type "
            "malformed-json invalid-body bad-snapshot newer-snapshot journal-unavailable",
            description="What was learned, the evaluation and the spec are those of the snapshot, but for `pending`. Ids and "
            "waiting examples stay: an id that was learned after the snapshot is a duplicate still, so a producer that sends "
            "again does not bring its rows back. Those rows stay in the journal, and the model has not learned them; send "
            "them under other ids to learn them. `seq` goes on. The state before is written as a snapshot first, so a "
            "rollback to that one undoes this one.",
            body=("The snapshot.", RollbackBody),
            etag=True,
        ),
    )
    async def rollback(name: str, request: Request, if_match: IfMatch = None) -> Response:
        context = context_of(request.scope)
        context.require(JSON)
        seq = decoded(await context.body(host.settings.max_body_bytes), RollbackBody).snapshot
        model, applied = await host.rollback(name, seq, Preconditions(if_match))
        fewer = applied.undone
        answer = RolledBack(applied.seq, seq, applied.examples, max(fewer, 0), max(-fewer, 0))
        return json_response(answer, headers={"ETag": model.etag})

    return router
