"""Evaluation, ROC curve and weights of a model."""

from __future__ import annotations

import heapq
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Response

from aucstream.answers import Evaluation, Roc, Weight, Weights
from aucstream.errors import InvalidParams
from aucstream_service.api.description import operation
from aucstream_service.errors.exceptions import InvalidQuery, ModelNotFound, WeightsUnavailable
from aucstream_service.http.request_context import JSON
from aucstream_service.models.host import ModelHost

_encode = msgspec.json.Encoder().encode


def evaluation_router(host: ModelHost) -> APIRouter:
    """Return the routes of evaluation, curve and weights."""
    router = APIRouter(tags=["evaluation"])

    @router.get(
        "/v1/models/{name}/evaluation",
        **operation(
            "AUC with its interval, and calibration, of the scores given before each update",
            {200: ("The evaluation", Evaluation)},
            ModelNotFound,
        ),
    )
    async def evaluation(name: str) -> Response:
        return Response(_encode(host.model(name).summarise()), media_type=JSON.decode())

    @router.get(
        "/v1/models/{name}/roc",
        **operation("ROC curve over the window", {200: ("The curve", Roc)}, ModelNotFound),
    )
    async def roc(name: str) -> Response:
        return Response(_encode(host.model(name).evaluation.roc()), media_type=JSON.decode())

    @router.get(
        "/v1/models/{name}/weights",
        **operation(
            "The largest weights by absolute value",
            {200: ("The weights", Weights)},
            ModelNotFound,
            InvalidQuery,
            WeightsUnavailable,
        ),
    )
    async def weights(
        name: str, top: Annotated[int, Query(ge=1, le=1_000_000, description="how many")] = 100
    ) -> Response:
        try:
            entries = host.model(name).pipeline.weights
        except InvalidParams as error:
            raise WeightsUnavailable(error.where, error.expected, error.got) from error
        largest = heapq.nsmallest(top, entries.items(), key=lambda item: (-abs(item[1]), str(item[0])))
        answer = Weights(tuple(Weight(str(key), float(weight)) for key, weight in largest))
        return Response(_encode(answer), media_type=JSON.decode())

    return router
