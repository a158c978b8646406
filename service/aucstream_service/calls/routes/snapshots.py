"""Download and upload the state of a model."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from aucstream.answers import Description
from aucstream_service.api.description import operation
from aucstream_service.calls.routes.models import model_response
from aucstream_service.http.preconditions import IfMatch, IfNoneThere, Preconditions
from aucstream_service.http.request_context import SAFETENSORS, SNAPSHOT, context_of
from aucstream_service.models.host import ModelHost
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
        seq = model.seq
        data = await host.snapshot_bytes(model)
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

    return router
