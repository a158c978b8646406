"""Evaluation, ROC curve and weights of a model."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Response

from aucstream.answers import Evaluation, Roc, Weight, Weights
from aucstream.errors import InvalidParams
from aucstream.metrics.operating_points import OperatingPoint
from aucstream_service.api.description import operation
from aucstream_service.calls.routes.encoding import json_response
from aucstream_service.errors.exceptions import InvalidQuery, WeightsUnavailable
from aucstream_service.models.host import ModelHost

MOST_POINTS = 20
CUT = "fpr:RATE, top:ROWS, top:SHARE, threshold:SCORE or cost:TIMES; may be repeated"


def evaluation_router(host: ModelHost) -> APIRouter:
    """Return the routes of evaluation, curve and weights."""
    router = APIRouter(tags=["evaluation"])

    @router.get(
        "/v1/models/{name}/evaluation",
        **operation(
            "AUC with its interval, and calibration, of the scores given before each update",
            {200: ("The evaluation", Evaluation)},
            "model-not-found",
            description="`at` may be repeated, up to 20 times. Each cuts the ranking of the window: `fpr:0.01` at a "
            "false-positive rate, `top:100` after the first rows, `top:0.05` after a share of them, `threshold:0.7` at a "
            "score, `cost:50` where mistakes cost least, if a false negative costs 50 times a false positive. The answer "
            "has precision, recall, lift, partial AUC and cost there, in the same order.",
        ),
    )
    async def evaluation(
        name: str, at: Annotated[list[str], Query(default_factory=list, max_length=MOST_POINTS, description=CUT)]
    ) -> Response:
        model = host.model(name)
        try:
            points = [OperatingPoint.of_text("at", text, ":") for text in at]
        except InvalidParams as error:
            raise InvalidQuery(error.where, error.expected, error.got) from None
        size = model.summary_size + (1 + len(points)) * model.figures_size
        return json_response(await host.workers.run_if_long(model, partial(model.figures, points), size))

    @router.get(
        "/v1/models/{name}/roc", **operation("ROC curve over the window", {200: ("The curve", Roc)}, "model-not-found")
    )
    async def roc(name: str) -> Response:
        model = host.model(name)
        return json_response(await host.workers.run_if_long(model, model.evaluation.roc, 2 * model.evaluation.size))

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
        model = host.model(name)

        def listed() -> Weights:
            largest = model.pipeline.largest_weights(top)
            return Weights(tuple(Weight(str(key), weight) for key, weight in largest))

        try:
            return json_response(await host.workers.run(model, listed))
        except InvalidParams as error:
            raise WeightsUnavailable(error.where, error.expected, error.got) from error

    return router
