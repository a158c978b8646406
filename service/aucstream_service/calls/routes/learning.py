"""Operations of the hot calls. `calls/one_row.py` and its neighbours serve them before a route is looked up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response

from aucstream.answers import Learned, LearnedMany, Predicted, PredictedMany, Prediction
from aucstream_service.api.description import Content, operation
from aucstream_service.api.schemas import ref
from aucstream_service.bodies.bodies import LabelBody, LearnBody, PredictBody
from aucstream_service.errors.exceptions import RouteNotFound
from aucstream_service.http.request_context import ARROW as ARROW_BYTES

ARROW = ARROW_BYTES.decode()

OnError = Annotated[
    Literal["abort", "skip"],
    Query(
        description="NDJSON and Arrow only. abort: stop at a bad row; the rows before it stay learned. skip: count bad rows and go on"
    ),
]

# Names of problem types.
_BODY = "model-not-found body-too-large unsupported-media-type malformed-json invalid-body model-faulted "
_WRITE = "expired queue-full journal-unavailable "
_PREDICT = _BODY + _WRITE + "invalid-features features-conflict already-labelled pending-full non-finite-score "
_LEARN = _BODY + _WRITE + "invalid-features invalid-label label-conflict features-conflict label-expired-negative "
_LABEL = _BODY + _WRITE + "unknown-id invalid-label label-conflict label-expired-negative pending-full "
_STREAM = "malformed-arrow"

_FEATURES = (
    "a column a feature: numbers, booleans, strings (dictionaries too), lists of strings; null and NaN are missing. "
    "Or one column `features`: a struct of such, or lists of numbers"
)


def _rows(kind: type, columns: str, document: Content | None = None) -> Content:
    """Return the content of many rows in its three forms."""
    arrow = f"an Arrow IPC stream (needs the extra `arrow`) of {columns}"
    name = ref(kind)["$ref"].rpartition("/")[2]
    lines = {"type": "string", "description": f"lines, each a {name}", "x-line": ref(kind)}
    return {
        "application/json": document or {"schema": {"type": "array", "items": ref(kind)}},
        "application/x-ndjson": {"schema": lines},
        ARROW: {"schema": {"type": "string", "format": "binary", "description": arrow}},
    }


OPERATIONS: dict[str, dict[str, Any]] = {
    "learn-one": operation(
        "Learn one labelled example",
        {200: ("Learned, or a duplicate", Learned)},
        _LEARN + "non-finite-step",
        description="Answers when the event is durable and applied; `score` is from before the update. With the id of "
        "a prediction that waits, the prediction is learned, as by label-one.",
        body=("The example", LearnBody),
    ),
    "predict-one": operation(
        "Score one example",
        {200: ("Score and probability", Predicted)},
        _PREDICT,
        description="With an `id` the example waits for its label, as the spec's `pending` says; the answer comes when "
        "that is durable. The same id and features again: the first answer.",
        body=("The example", PredictBody),
    ),
    "label-one": operation(
        "Learn a predicted example, now that its label is known",
        {
            200: ("Learned, or a duplicate", Learned),
            202: (
                "The label came before its prediction and waits for it (`pending.hold_early_seconds`)",
                {"application/json": {"schema": ref(Learned)}},
            ),
        },
        _LABEL + "non-finite-step",
        description="Answers when the event is durable and applied. The evaluation counts the score and the "
        "probability of the prediction. The clock of the service decides, when the label arrives, whether the example "
        "has expired.",
        body=("The label", LabelBody),
    ),
    "label-many": operation(
        "Label many predicted examples in order",
        {200: ("Counts of the rows", LearnedMany)},
        _LABEL + _STREAM,
        description="Each row has its own id, label and result. A JSON array is applied as a whole or not at all. NDJSON "
        "and Arrow streams may have any length; under `on_error=skip` a refused row is counted in `rejected` and "
        "listed in `errors`.",
        body=("The labels", _rows(LabelBody, "the columns `id` and `label`")),
    ),
    "learn-many": operation(
        "Learn many examples in order",
        {200: ("Counts of the rows", LearnedMany)},
        _LEARN + _STREAM,
        description="A JSON array is learned as a whole or not at all. NDJSON and Arrow streams may have any length; their "
        "rows are learned as they arrive. A row whose step would leave the model non-finite is "
        "skipped and counted in `rejected`. The problem of a refused stream has the counts of the rows before.",
        body=("The examples", _rows(LearnBody, f"`label`, perhaps `weight` and `id`, and {_FEATURES}")),
    ),
    "predict-many": operation(
        "Score many examples",
        {
            200: (
                "Scores and probabilities in order",
                _rows(
                    Prediction,
                    "the columns `score` and `probability`, null where a row was refused",
                    {"schema": ref(PredictedMany)},
                ),
            )
        },
        _PREDICT + _STREAM,
        description="The answer has the form of the body; to an Arrow stream it is JSON or NDJSON where `Accept` asks "
        "for that. Learning goes on meanwhile: `seq` is that of the last rows scored. Under `on_error=skip` the line of a "
        "bad row has `errors`. The problem of a refused stream says in `accepted` how many examples wait for their label.",
        body=("The examples", _rows(PredictBody, f"perhaps `id`, and {_FEATURES}")),
    ),
}


async def _one(name: str, request: Request) -> Response:
    raise RouteNotFound("path", "one of those in /openapi.json", f"{request.url.path} of {name}")


async def _many(name: str, request: Request, on_error: OnError = "abort") -> Response:
    del on_error
    return await _one(name, request)


def learning_router() -> APIRouter:
    """Return the routes of learning and predicting."""
    router = APIRouter(tags=["learning"])
    for call, described in OPERATIONS.items():
        endpoint: Callable[..., Any] = _one if call.endswith("-one") else _many
        path = f"/v1/models/{{name}}/{call}"
        router.add_api_route(path, endpoint, methods=["POST"], name=call.replace("-", "_"), **described)
    return router
