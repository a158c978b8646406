"""Create, list, describe and delete models."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request, Response

from aucstream_service.api.description import answer, body, json_content, problems
from aucstream_service.api.schemas import Description, Models
from aucstream_service.errors import exceptions as errors
from aucstream_service.errors.exceptions import InvalidQuery
from aucstream_service.http.preconditions import IfMatch, IfNoneMatch, IfNoneThere, Preconditions, unchanged
from aucstream_service.http.request_context import JSON, exchange_of
from aucstream_service.models.host import ModelHost
from aucstream_service.models.model import Model
from aucstream_service.models.spec import NAME, ModelSpec, checked_name, spec_of

CURSOR = b"after:"
ETAG = {"description": "of the spec", "schema": {"type": "string"}}

_encode = msgspec.json.Encoder().encode


def described(model: Model, status: int = 200) -> Response:
    """Return the description of a model with the ETag of its spec."""
    return Response(_encode(model.describe()), status, {"ETag": model.etag}, JSON.decode())


def cursor_after(name: str) -> str:
    """Return the cursor of the page that begins after a name, whether or not it is still there."""
    return base64.urlsafe_b64encode(CURSOR + name.encode()).rstrip(b"=").decode()


def name_before(cursor: str) -> str:
    """Return the name that a cursor was made of, or raise InvalidQuery."""
    try:
        data = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        name = data.removeprefix(CURSOR).decode()
    except (binascii.Error, ValueError):
        data, name = b"", ""
    if not data.startswith(CURSOR) or NAME.match(name) is None:
        raise InvalidQuery("cursor", "`next` of the page before", cursor)
    return name


def models_router(host: ModelHost) -> APIRouter:
    """Return the routes of the registry."""
    router = APIRouter(tags=["models"])

    @router.put(
        "/v1/models/{name}",
        status_code=201,
        summary="Create a model",
        description="The same spec again is 200 and changes nothing; another spec is 409.",
        response_class=Response,
        responses={
            200: answer("It is there with this spec", {"application/json": json_content(Description)}, ETag=ETAG),
            201: answer("Created", {"application/json": json_content(Description)}, ETag=ETAG),
            **problems(
                errors.SpecConflict,
                errors.BodyTooLarge,
                errors.UnsupportedMedia,
                errors.InvalidBody,
                errors.InvalidName,
                errors.PreconditionFailed,
                errors.TooManyModels,
                errors.JournalUnavailable,
            ),
        },
        openapi_extra=body(
            "The spec. `params` are those of the algorithm (`aucstream models` lists them).",
            {"application/json": json_content(ModelSpec)},
        ),
    )
    async def create_model(
        name: str, request: Request, if_match: IfMatch = None, if_none_match: IfNoneThere = None
    ) -> Response:
        exchange = exchange_of(request.scope)
        checked_name(name)
        exchange.require(JSON)
        spec = spec_of(await exchange.body(host.settings.max_body_bytes), host.settings)
        model, new = await host.create(name, spec, Preconditions(if_match, if_none_match))
        return described(model, 201 if new else 200)

    @router.get(
        "/v1/models",
        summary="List models by name",
        response_class=Response,
        responses={
            200: answer("A page", {"application/json": json_content(Models)}),
            **problems(errors.InvalidQuery),
        },
    )
    async def list_models(
        limit: Annotated[int, Query(ge=1, le=1000, description="models on a page")] = 100,
        cursor: Annotated[str | None, Query(max_length=128, description="`next` of the page before")] = None,
    ) -> Response:
        if not host.ready:
            raise host.not_ready()
        after = "" if cursor is None else name_before(cursor)
        names = sorted(name for name in host.models if name > after)
        page: dict[str, Any] = {
            "models": [host.models[name].describe() for name in names[:limit]],
            "next": cursor_after(names[limit - 1]) if len(names) > limit else None,
        }
        return Response(_encode(page), media_type=JSON.decode())

    @router.get(
        "/v1/models/{name}",
        summary="Describe a model",
        response_class=Response,
        responses={
            200: answer("The model", {"application/json": json_content(Description)}, ETag=ETAG),
            304: answer("The spec is the one with the ETag of `If-None-Match`", ETag=ETAG),
            **problems(errors.ModelNotFound, errors.ModelFaulted),
        },
    )
    async def describe_model(name: str, if_none_match: IfNoneMatch = None) -> Response:
        model = host.model(name)
        return unchanged(if_none_match, model.etag) or described(model)

    @router.delete(
        "/v1/models/{name}",
        status_code=204,
        summary="Delete a model and all it learned",
        response_class=Response,
        responses={
            204: answer("Deleted"),
            **problems(errors.ModelNotFound, errors.PreconditionFailed, errors.JournalUnavailable),
        },
    )
    async def delete_model(name: str, if_match: IfMatch = None) -> Response:
        await host.delete(name, Preconditions(if_match))
        return Response(status_code=204)

    return router
