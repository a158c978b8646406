"""Descriptions of the hot calls. The edge serves them (`calls/one_row.py`); nothing here runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from aucstream import errors as library
from aucstream_service.api.description import answer, body, json_content, problems, ref
from aucstream_service.api.schemas import (
    Label,
    Learn,
    Learned,
    LearnedMany,
    Predict,
    Predicted,
    PredictedMany,
    Prediction,
)
from aucstream_service.errors import exceptions as errors
from aucstream_service.errors.exceptions import RouteNotFound
from aucstream_service.http.request_context import ARROW as ARROW_BYTES

ARROW = ARROW_BYTES.decode()

OnError = Annotated[
    Literal["abort", "skip"],
    Query(description="NDJSON and Arrow only. abort: stop at a bad row, what was taken stays taken"),
]

_BODY = (
    errors.ModelNotFound,
    errors.BodyTooLarge,
    errors.UnsupportedMedia,
    errors.MalformedBody,
    errors.InvalidBody,
    library.InvalidBlock,
    errors.ModelFaulted,
)
_KEEP = (
    errors.FeaturesConflict,
    errors.AlreadyLabelled,
    errors.ExpiredId,
    errors.PendingFull,
    errors.QueueFull,
    errors.JournalUnavailable,
)
_LEARN = (
    *_BODY,
    library.InvalidLabel,
    errors.LabelConflict,
    errors.FeaturesConflict,
    errors.LabelExpiredNegative,
    errors.ExpiredId,
    errors.QueueFull,
    errors.JournalUnavailable,
    errors.NotReady,
)
_LABEL = (
    errors.ModelNotFound,
    errors.UnknownId,
    errors.BodyTooLarge,
    errors.UnsupportedMedia,
    errors.MalformedBody,
    errors.InvalidBody,
    library.InvalidLabel,
    errors.LabelConflict,
    errors.LabelExpiredNegative,
    errors.ExpiredId,
    errors.PendingFull,
    errors.QueueFull,
    errors.JournalUnavailable,
    errors.NotReady,
    errors.ModelFaulted,
)


def _ndjson(model: type[BaseModel]) -> dict[str, Any]:
    return {"schema": {"type": "string", "description": f"lines, each a {model.__name__}", "x-line": ref(model)}}


def _arrow(description: str) -> dict[str, Any]:
    told = f"an Arrow IPC stream (needs the extra `arrow`) of {description}"
    return {"schema": {"type": "string", "format": "binary", "description": told}}


_FEATURES = (
    "a column a feature: numbers, booleans, strings (dictionaries too), lists of strings; null and NaN are missing. "
    "Or one column `features`: a struct of such, or lists of numbers"
)


async def _edge_only(name: str, request: Request) -> Response:
    raise RouteNotFound("path", "one of those in /openapi.json", f"{request.url.path} of {name}")


def learning_router() -> APIRouter:
    """Return the routes of learning and predicting."""
    router = APIRouter(tags=["learning"])

    @router.post(
        "/v1/models/{name}/learn-one",
        summary="Learn one labelled example",
        description="Answers when the event is durable and applied; `score` is from before the update. With the id of "
        "a prediction that waits, the prediction is learned, as by label-one.",
        response_class=Response,
        responses={
            200: answer("Learned, or a duplicate", {"application/json": json_content(Learned)}),
            **problems(*_LEARN, library.NonFiniteStep),
        },
        openapi_extra=body("The example", {"application/json": json_content(Learn)}),
    )
    async def learn_one(name: str, request: Request) -> Response:
        return await _edge_only(name, request)

    @router.post(
        "/v1/models/{name}/predict-one",
        summary="Score one example",
        description="With an `id` the example waits for its label, as the spec's `pending` says; the answer comes when "
        "that is durable. The same id and features again: the first answer.",
        response_class=Response,
        responses={
            200: answer("Score and probability", {"application/json": json_content(Predicted)}),
            **problems(*_BODY, *_KEEP, errors.NonFiniteScore),
        },
        openapi_extra=body("The example", {"application/json": json_content(Predict)}),
    )
    async def predict_one(name: str, request: Request) -> Response:
        return await _edge_only(name, request)

    @router.post(
        "/v1/models/{name}/label-one",
        summary="Learn a predicted example, now that its label is known",
        description="Answers when the event is durable and applied. The evaluation counts the score (and judges the "
        "probability) that were given at prediction. Times are the server's: when an example expires is decided when "
        "the label arrives here.",
        response_class=Response,
        responses={
            200: answer("Learned, or a duplicate", {"application/json": json_content(Learned)}),
            202: answer(
                "The label came before its prediction and waits for it (`pending.hold_early_seconds`)",
                {
                    "application/json": {
                        "schema": ref(Learned),
                        "example": {"seq": 1, "score": None, "duplicate": False},
                    }
                },
            ),
            **problems(*_LABEL, library.NonFiniteStep),
        },
        openapi_extra=body("The label", {"application/json": json_content(Label)}),
    )
    async def label_one(name: str, request: Request) -> Response:
        return await _edge_only(name, request)

    @router.post(
        "/v1/models/{name}/label-many",
        summary="Label many predicted examples in order",
        description="Each row has its own id, label and result. A JSON array is taken whole or not at all; NDJSON is "
        "streamed, of any length, as is an Arrow stream, and under `on_error=skip` a row that cannot be taken is counted "
        "in `rejected` and told in `errors`.",
        response_class=Response,
        responses={
            200: answer("What became of the rows", {"application/json": json_content(LearnedMany)}),
            **problems(*_LABEL, errors.MalformedArrow, errors.InvalidQuery),
        },
        openapi_extra=body(
            "The labels",
            {
                "application/json": json_content(Label, many=True),
                "application/x-ndjson": _ndjson(Label),
                ARROW: _arrow("the columns `id` and `label`"),
            },
        ),
    )
    async def label_many(name: str, request: Request, on_error: OnError = "abort") -> Response:
        del on_error
        return await _edge_only(name, request)

    @router.post(
        "/v1/models/{name}/learn-many",
        summary="Learn many examples in order",
        description="A JSON array is taken whole or not at all. NDJSON is streamed, of any length; rows are taken as "
        "they come; so is an Arrow stream, by record batch. A row whose step would leave the model non-finite is "
        "skipped and counted in `rejected`. A refused stream answers with a problem that carries the counts of what was taken.",
        response_class=Response,
        responses={
            200: answer("What became of the rows", {"application/json": json_content(LearnedMany)}),
            **problems(*_LEARN, errors.MalformedArrow, errors.InvalidQuery),
        },
        openapi_extra=body(
            "The examples",
            {
                "application/json": json_content(Learn, many=True),
                "application/x-ndjson": _ndjson(Learn),
                ARROW: _arrow(f"`label`, perhaps `weight` and `id`, and {_FEATURES}"),
            },
        ),
    )
    async def learn_many(name: str, request: Request, on_error: OnError = "abort") -> Response:
        del on_error
        return await _edge_only(name, request)

    @router.post(
        "/v1/models/{name}/predict-many",
        summary="Score many examples",
        description="The answer comes in the form of the body, to an Arrow stream in JSON or NDJSON where `Accept` asks "
        "for that. Learning goes on meanwhile: `seq` is that of the last rows scored. NDJSON under `on_error=skip`: a bad line is answered by a line with `errors`; a stream that is "
        "cut short says in `accepted` how many examples were kept for their labels.",
        response_class=Response,
        responses={
            200: answer(
                "Scores and probabilities in order",
                {
                    "application/json": json_content(PredictedMany),
                    "application/x-ndjson": _ndjson(Prediction),
                    ARROW: _arrow("the columns `score` and `probability`, null where a row was refused"),
                },
            ),
            **problems(*_BODY, *_KEEP, errors.NonFiniteScore, errors.MalformedArrow, errors.InvalidQuery),
        },
        openapi_extra=body(
            "The examples",
            {
                "application/json": json_content(Predict, many=True),
                "application/x-ndjson": _ndjson(Predict),
                ARROW: _arrow(f"perhaps `id`, and {_FEATURES}"),
            },
        ),
    )
    async def predict_many(name: str, request: Request, on_error: OnError = "abort") -> Response:
        del on_error
        return await _edge_only(name, request)

    return router
