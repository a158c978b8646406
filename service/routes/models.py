"""Create, list, describe and delete models."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request, Response

from service import errors
from service.description import answer, body, json_content, problems
from service.exchange import JSON, exchange_of
from service.host import ModelHost
from service.model import Model
from service.schemas import Description, Models
from service.spec import ModelSpec, checked_name, spec_of

ETAG = {"description": "of the spec", "schema": {"type": "string"}}

_encode = msgspec.json.Encoder().encode


def described(model: Model, status: int = 200) -> Response:
    """Return the description of a model with the ETag of its spec."""
    return Response(_encode(model.describe()), status, {"ETag": model.etag}, JSON.decode())


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
                errors.TooManyModels,
                errors.JournalUnavailable,
            ),
        },
        openapi_extra=body(
            "The spec. `params` are those of the algorithm (`aucstream models` lists them).",
            {"application/json": json_content(ModelSpec)},
        ),
    )
    async def create_model(name: str, request: Request) -> Response:
        exchange = exchange_of(request.scope)
        checked_name(name)
        exchange.require(JSON)
        spec = spec_of(await exchange.body(host.settings.max_body_bytes), host.settings)
        model, new = await host.create(name, spec)
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
        cursor: Annotated[str | None, Query(max_length=64, description="`next` of the page before")] = None,
    ) -> Response:
        if not host.ready:
            raise host.not_ready()
        names = sorted(name for name in host.models if cursor is None or name > cursor)
        page: dict[str, Any] = {
            "models": [host.models[name].describe() for name in names[:limit]],
            "next": names[limit - 1] if len(names) > limit else None,
        }
        return Response(_encode(page), media_type=JSON.decode())

    @router.get(
        "/v1/models/{name}",
        summary="Describe a model",
        response_class=Response,
        responses={
            200: answer("The model", {"application/json": json_content(Description)}, ETag=ETAG),
            **problems(errors.ModelNotFound),
        },
    )
    async def describe_model(name: str) -> Response:
        return described(host.model(name))

    @router.delete(
        "/v1/models/{name}",
        status_code=204,
        summary="Delete a model and all it learned",
        response_class=Response,
        responses={
            204: answer("Deleted"),
            **problems(errors.ModelNotFound, errors.JournalUnavailable),
        },
    )
    async def delete_model(name: str) -> Response:
        await host.delete(name)
        return Response(status_code=204)

    return router
