"""Create, list, describe and delete models."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from aucstream.answers import Description, Models
from aucstream_service.api.description import operation
from aucstream_service.calls.routes.encoding import json_response
from aucstream_service.errors.exceptions import InvalidQuery
from aucstream_service.http.preconditions import IfMatch, IfNoneMatch, IfNoneThere, Preconditions, unchanged
from aucstream_service.http.request_context import JSON, context_of
from aucstream_service.models.host import ModelHost
from aucstream_service.models.model import Model
from aucstream_service.models.spec import ModelSpec, checked_name, spec_of
from aucstream_service.settings import MODEL_NAME

CURSOR = b"after:"


def description_of(model: Model) -> Description:
    """Return the description of a model."""
    return Description(**model.describe())


def model_response(model: Model, status: int = 200) -> Response:
    """Return the description of a model with the ETag of its spec."""
    return json_response(description_of(model), status, {"ETag": model.etag})


def cursor_after(name: str) -> str:
    """Return the cursor of the page that begins after a name; a model of that name need not exist."""
    return base64.urlsafe_b64encode(CURSOR + name.encode()).rstrip(b"=").decode()


def name_before(cursor: str) -> str:
    """Return the name within a cursor, or raise InvalidQuery."""
    try:
        data = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        name = data.removeprefix(CURSOR).decode()
    except (binascii.Error, ValueError):
        data, name = b"", ""
    if not data.startswith(CURSOR) or MODEL_NAME.match(name) is None:
        raise InvalidQuery("cursor", "`next` of the page before", cursor)
    return name


def models_router(host: ModelHost) -> APIRouter:
    """Return the routes of the registry."""
    router = APIRouter(tags=["models"])

    @router.put(
        "/v1/models/{name}",
        status_code=201,
        **operation(
            "Create a model",
            {200: ("The model exists with this spec", Description), 201: ("Created", Description)},
            "spec-conflict body-too-large unsupported-media-type malformed-json invalid-body "
            "invalid-name invalid-params unknown-algorithm precondition-failed too-many-models journal-unavailable",
            description="The same spec again is 200 and changes nothing; another spec is 409.",
            body=("The spec. `params` are those of the algorithm (`aucstream models` lists them).", ModelSpec),
            etag=True,
        ),
    )
    async def create_model(
        name: str, request: Request, if_match: IfMatch = None, if_none_match: IfNoneThere = None
    ) -> Response:
        context = context_of(request.scope)
        checked_name(name)
        context.require(JSON)
        spec = spec_of(await context.body(host.settings.max_body_bytes), host.settings)
        model, new = await host.create(name, spec, Preconditions(if_match, if_none_match))
        return model_response(model, 201 if new else 200)

    @router.get("/v1/models", **operation("List models by name", {200: ("A page", Models)}))
    async def list_models(
        limit: Annotated[int, Query(ge=1, le=1000, description="models on a page")] = 100,
        cursor: Annotated[str | None, Query(max_length=128, description="`next` of the page before")] = None,
    ) -> Response:
        if not host.ready:
            raise host.not_ready()
        after = "" if cursor is None else name_before(cursor)
        names = sorted(name for name in host.models if name > after)
        page = Models(
            tuple(description_of(host.models[name]) for name in names[:limit]),
            cursor_after(names[limit - 1]) if len(names) > limit else None,
        )
        return json_response(page)

    @router.get(
        "/v1/models/{name}",
        **operation(
            "Describe a model",
            {200: ("The model", Description), 304: ("The spec is the one with the ETag of `If-None-Match`", None)},
            "model-not-found model-faulted",
            etag=True,
        ),
    )
    async def describe_model(name: str, if_none_match: IfNoneMatch = None) -> Response:
        model = host.model(name)
        return unchanged(if_none_match, model.etag) or model_response(model)

    @router.delete(
        "/v1/models/{name}",
        status_code=204,
        **operation(
            "Delete a model and all it learned",
            {204: ("Deleted", None)},
            "model-not-found precondition-failed journal-unavailable",
        ),
    )
    async def delete_model(name: str, if_match: IfMatch = None) -> Response:
        await host.delete(name, Preconditions(if_match))
        return Response(status_code=204)

    return router
