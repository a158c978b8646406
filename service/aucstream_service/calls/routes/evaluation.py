"""What a model is worth, and what it weighs."""

from __future__ import annotations

import heapq
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Response

from aucstream.errors import InvalidParams
from aucstream_service.api.description import answer, json_content, problems
from aucstream_service.api.schemas import EvaluationAnswer, Roc, Weights
from aucstream_service.errors import exceptions as errors
from aucstream_service.errors.exceptions import WeightsUnavailable
from aucstream_service.http.request_context import JSON
from aucstream_service.models.host import ModelHost

_encode = msgspec.json.Encoder().encode


def evaluation_router(host: ModelHost) -> APIRouter:
    """Return the routes of evaluation, curve and weights."""
    router = APIRouter(tags=["evaluation"])

    @router.get(
        "/v1/models/{name}/evaluation",
        summary="AUC with its interval, and calibration, of the scores given before each update",
        response_class=Response,
        responses={
            200: answer("The evaluation", {"application/json": json_content(EvaluationAnswer)}),
            **problems(errors.ModelNotFound),
        },
    )
    async def evaluation(name: str) -> Response:
        return Response(_encode(host.model(name).summarise()), media_type=JSON.decode())

    @router.get(
        "/v1/models/{name}/roc",
        summary="ROC curve over the window",
        response_class=Response,
        responses={
            200: answer("The curve", {"application/json": json_content(Roc)}),
            **problems(errors.ModelNotFound),
        },
    )
    async def roc(name: str) -> Response:
        return Response(_encode(host.model(name).evaluation.roc()), media_type=JSON.decode())

    @router.get(
        "/v1/models/{name}/weights",
        summary="The largest weights by absolute value",
        response_class=Response,
        responses={
            200: answer("The weights", {"application/json": json_content(Weights)}),
            **problems(errors.ModelNotFound, errors.InvalidQuery, errors.WeightsUnavailable),
        },
    )
    async def weights(
        name: str, top: Annotated[int, Query(ge=1, le=1_000_000, description="how many")] = 100
    ) -> Response:
        try:
            found = host.model(name).pipeline.weights
        except InvalidParams as error:
            raise WeightsUnavailable(error.where, error.expected, error.got) from error
        largest = heapq.nsmallest(top, found.items(), key=lambda item: (-abs(item[1]), str(item[0])))
        return Response(
            _encode({"weights": [{"name": str(key), "weight": float(weight)} for key, weight in largest]}),
            media_type=JSON.decode(),
        )

    return router
