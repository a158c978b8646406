"""Download and upload the state of a model."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from aucstream import errors as library
from aucstream_service.api.description import answer, body, json_content, problems
from aucstream_service.api.schemas import Description
from aucstream_service.calls.routes.models import ETAG, described
from aucstream_service.errors import exceptions as errors
from aucstream_service.http.preconditions import IfMatch, IfNoneThere, Preconditions
from aucstream_service.http.request_context import SAFETENSORS, SNAPSHOT, exchange_of
from aucstream_service.models.host import ModelHost
from aucstream_service.models.spec import checked_name

BINARY: dict[str, Any] = {"schema": {"type": "string", "contentMediaType": "application/octet-stream"}}


def snapshots_router(host: ModelHost) -> APIRouter:
    """Return the routes of snapshots."""
    router = APIRouter(tags=["snapshots"])

    @router.get(
        "/v1/models/{name}/snapshot",
        summary="Download the whole state (safetensors)",
        response_class=Response,
        responses={
            200: answer("The state", {"application/octet-stream": BINARY}),
            **problems(errors.ModelNotFound),
        },
    )
    async def download(name: str) -> Response:
        model = host.model(name)
        seq = model.seq
        data = await host.snapshot_bytes(model)
        headers = {"Content-Disposition": f'attachment; filename="{name}-{seq}.safetensors"'}
        return Response(data, headers=headers, media_type=SNAPSHOT.decode())

    @router.put(
        "/v1/models/{name}/snapshot",
        summary="Create or replace a model from a snapshot",
        description="Goes on at the snapshot's seq, equal to the last bit. Event ids and examples that wait for a label are not part of it: "
        "the model begins without them.",
        response_class=Response,
        responses={
            200: answer("Replaced", {"application/json": json_content(Description)}, ETag=ETAG),
            201: answer("Created", {"application/json": json_content(Description)}, ETag=ETAG),
            **problems(
                errors.BodyTooLarge,
                errors.UnsupportedMedia,
                errors.InvalidName,
                errors.PreconditionFailed,
                library.BadSnapshot,
                library.NewerSnapshot,
                errors.TooManyModels,
                errors.JournalUnavailable,
            ),
        },
        openapi_extra=body("A snapshot", {"application/octet-stream": BINARY, "application/vnd.safetensors": BINARY}),
    )
    async def upload(
        name: str, request: Request, if_match: IfMatch = None, if_none_match: IfNoneThere = None
    ) -> Response:
        exchange = exchange_of(request.scope)
        checked_name(name)
        exchange.require(SNAPSHOT, SAFETENSORS)
        if not host.ready:
            raise host.not_ready()
        async with host.uploading:
            data = await exchange.body(host.settings.max_snapshot_bytes, hurry=False)
            model, new = await host.upload(name, data, Preconditions(if_match, if_none_match))
        return described(model, 201 if new else 200)

    return router
