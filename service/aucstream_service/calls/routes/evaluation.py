"""Evaluation, ROC curve and weights of a model."""

from __future__ import annotations

import heapq
from typing import Annotated

from fastapi import APIRouter, Query, Response

from aucstream.answers import Evaluation, Roc, Weight, Weights
from aucstream.errors import InvalidParams
from aucstream_service.api.description import operation
from aucstream_service.calls.routes.encoding import json_response
from aucstream_service.errors.exceptions import WeightsUnavailable
from aucstream_service.models.host import ModelHost


def evaluation_router(host: ModelHost) -> APIRouter:
    """Return the routes of evaluation, curve and weights."""
    router = APIRouter(tags=["evaluation"])

    @router.get(
        "/v1/models/{name}/evaluation",
        **operation(
            "AUC with its interval, and calibration, of the scores given before each update",
            {200: ("The evaluation", Evaluation)},
            "model-not-found",
        ),
    )
    async def evaluation(name: str) -> Response:
        return json_response(host.model(name).summarise())

    @router.get(
        "/v1/models/{name}/roc", **operation("ROC curve over the window", {200: ("The curve", Roc)}, "model-not-found")
    )
    async def roc(name: str) -> Response:
        return json_response(host.model(name).evaluation.roc())

    @router.get(
        "/v1/models/{name}/weights",
        **operation(
            "The largest weights by absolute value",
            {200: ("The weights", Weights)},
            "model-not-found weights-unavailable",
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
        return json_response(Weights(tuple(Weight(str(key), float(weight)) for key, weight in largest)))

    return router
