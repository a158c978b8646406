"""Create, list, describe and delete models."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from aucstream.answers import Description, Models
from aucstream_service.api.description import operation
from aucstream_service.bodies.bodies import RenameBody
from aucstream_service.calls.routes.encoding import decoded, json_response
from aucstream_service.errors.exceptions import InvalidQuery
from aucstream_service.http.admission import require_model
from aucstream_service.http.preconditions import IfMatch, IfNoneMatch, IfNoneThere, Preconditions, unchanged
from aucstream_service.http.request_context import JSON, MERGE_PATCH, context_of
from aucstream_service.models.host import ModelHost
from aucstream_service.models.model import Model
from aucstream_service.models.remarks import remarks_of
from aucstream_service.models.spec import ModelSpec, checked_name, spec_of
from aucstream_service.settings import MODEL_NAME

CURSOR = b"after:"
CHANGES = "model-not-found model-faulted precondition-failed journal-unavailable"
PATCH_EXAMPLE = {"pending": {"capacity": 2_000_000}, "params": {"lam": 1e-6}}


def description_of(model: Model) -> Description:
    """Return the description of a model."""
    return Description(**model.describe(), remarks=tuple(remarks_of(model)))


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

    @router.patch(
        "/v1/models/{name}",
        **operation(
            "Change a model that serves",
            {200: ("The model as it goes on", Description)},
            f"{CHANGES} fixed-setting body-too-large unsupported-media-type malformed-json invalid-body invalid-params",
            description="A merge patch (RFC 7396) of the spec: `pending`, `evaluation`, the `capacity` of a vocabulary, `columns`, and "
            "the step sizes and penalties of the algorithm. What was learned, ids and "
            "waiting examples stay. null stands for the default. The change is an event of the model with a `seq` of its own. "
            "Another value of anything else is 409: it needs another model, to which the rows of `GET …/export?what=events` may be sent.",
            body=(
                "What changes.",
                {"application/merge-patch+json": {"schema": {"type": "object"}, "example": PATCH_EXAMPLE}},
            ),
            etag=True,
        ),
    )
    async def patch_model(name: str, request: Request, if_match: IfMatch = None) -> Response:
        context = context_of(request.scope)
        context.require(MERGE_PATCH)
        body = await context.body(host.settings.max_body_bytes)
        return model_response(await host.patch(name, body, Preconditions(if_match)))

    @router.post(
        "/v1/models/{name}/reset-evaluation",
        **operation(
            "Begin the evaluation of a model anew",
            {200: ("The model, with the `seq` of this event", Description)},
            f"{CHANGES} unsupported-media-type",
            description="AUC over the window and in total, log loss, Brier score and alarms of drift begin anew. What was "
            "learned, the calibration and the members of an `auto` model stay. There is no body.",
            etag=True,
        ),
    )
    async def reset_evaluation(name: str, request: Request, if_match: IfMatch = None) -> Response:
        context_of(request.scope).refuse_forms()
        return model_response(await host.reset_evaluation(name, Preconditions(if_match)))

    @router.post(
        "/v1/models/{name}/rename",
        **operation(
            "Give a model another name",
            {200: ("The model under its new name", Description)},
            f"{CHANGES} name-taken invalid-name body-too-large unsupported-media-type malformed-json invalid-body",
            description="All of it goes with the model: what it learned, ids, waiting examples, open requests and event "
            "streams. The old name is free at once.",
            body=("The new name.", RenameBody),
            etag=True,
        ),
    )
    async def rename_model(name: str, request: Request, if_match: IfMatch = None) -> Response:
        context = context_of(request.scope)
        context.require(JSON)
        to = checked_name(decoded(await context.body(host.settings.max_body_bytes), RenameBody).to)
        require_model(context, to)
        return model_response(await host.rename(name, to, Preconditions(if_match)))

    @router.get("/v1/models", **operation("List models by name", {200: ("A page", Models)}))
    async def list_models(
        request: Request,
        limit: Annotated[int, Query(ge=1, le=1000, description="models on a page")] = 100,
        cursor: Annotated[str | None, Query(max_length=128, description="`next` of the page before")] = None,
    ) -> Response:
        if not host.ready:
            raise host.not_ready()
        after = "" if cursor is None else name_before(cursor)
        may_use = context_of(request.scope).may_use
        names = sorted(name for name in host.models if name > after and may_use(name))
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
