"""The bodies of version 1, as the OpenAPI document describes them, with examples."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from aucstream_service.models.spec import SPEC_EXAMPLE, ModelSpec

FEATURES_EXAMPLE: dict[str, Any] = {"amount": 12.5, "country": "CH", "tags": ["new", "mobile"], "age": None}

EventId = Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[^\s\x00-\x1f\x7f]+$")]
FeatureValue = float | bool | str | list[str] | None
Features = Annotated[
    dict[str, FeatureValue] | list[float],
    Field(
        description="An object of names (number, bool, string = one-hot, list of strings = multi-hot, null = missing), "
        "or an array of numbers; one model takes either names or arrays. Where a name stands twice, the last counts."
    ),
]
LabelValue = Annotated[
    bool | int | float,
    Field(
        description="negative: false, 0, -1; positive: true, 1",
        json_schema_extra={"enum": [False, True, 0, 1, -1]},
    ),
]
Seq = Annotated[int, Field(ge=0, description="number of the last event of the model that this answer includes")]


def _without_default(schema: dict[str, Any]) -> None:
    """Describe a member that is left out where it has nothing to say."""
    del schema["default"]


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Learn(BaseModel):
    """One labelled example."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"features": FEATURES_EXAMPLE, "label": True, "id": "click-1"}]},
    )

    features: Features
    label: LabelValue
    weight: Annotated[
        float, Field(ge=0, description="0: gets a seq and counts in the AUC, but leaves the model as it is")
    ] = 1.0
    id: Annotated[EventId | None, Field(description="learned at most once; retries with an id are safe")] = None


class Predict(BaseModel):
    """One example to score."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"features": FEATURES_EXAMPLE, "id": "click-2"}]}
    )

    features: Features
    id: Annotated[
        EventId | None,
        Field(description="the example waits under it for its label; the same id and features: the first answer"),
    ] = None
    explain: Annotated[
        bool, Field(description="true: what each name adds to the score; predict-one only, refused in predict-many")
    ] = False


class Label(BaseModel):
    """The label of an example that was predicted under an id."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"id": "click-2", "label": True}]})

    id: EventId
    label: LabelValue


class Learned(_Answer):
    """Answer of learn-one and label-one."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"seq": 1, "score": 0.0, "duplicate": False}]})

    seq: Annotated[int, Field(ge=0, description="number of the event; of the first one for a duplicate")]
    score: Annotated[
        float | None,
        Field(
            description="before the update: of a row that was predicted under its id, the score given then; "
            "null for a duplicate, and for a label that waits for its prediction"
        ),
    ]
    duplicate: Annotated[bool, Field(description="the id came before, with this label: nothing changed")]


class RowError(_Answer):
    """One refused row of a -many body."""

    line: Annotated[int, Field(ge=1, description="line, or position in the array, from 1")]
    pointer: Annotated[str, Field(description="JSON pointer into the row")]
    message: str


class LearnedMany(_Answer):
    """Answer of learn-many and label-many."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"accepted": 1000, "duplicates": 0, "rejected": 0, "seq": 1000, "errors": []}]}
    )

    accepted: Annotated[int, Field(ge=0, description="rows learned, and labels held for their prediction")]
    duplicates: Annotated[int, Field(ge=0)]
    rejected: Annotated[int, Field(ge=0, description="bad lines (on_error=skip), and rows skipped as non-finite")]
    seq: Seq
    errors: Annotated[list[RowError], Field(max_length=100, description="the first 100")]


class Prediction(_Answer):
    """Score and probability of one row."""

    score: Annotated[float, Field(description="higher is more positive")]
    probability: Annotated[float | None, Field(ge=0, le=1, description="null where calibration is none")]


class Predicted(Prediction):
    """Answer of predict-one."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"score": 0.25, "probability": 0.6, "seq": 1000}]})

    seq: Seq
    contributions: Annotated[
        dict[str, float] | SkipJsonSchema[None],
        Field(
            description="where `explain` is true: name to its part of the score; they add up to it. "
            "An intercept is named `(intercept)`; an array's columns are named 0, 1, …",
            json_schema_extra=_without_default,
        ),
    ] = None


class PredictedMany(_Answer):
    """Answer of predict-many to a JSON array."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"predictions": [{"score": 0.25, "probability": 0.6}], "seq": 1000}]}
    )

    predictions: list[Prediction]
    seq: Seq


class Description(_Answer):
    """A model."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "clicks",
                    "spec": SPEC_EXAMPLE,
                    "resolved": {"scaler": "standard+bounded"},
                    "examples": 1000,
                    "positives": 20,
                    "seq": 1000,
                    "pending": 0,
                    "auc": 0.86,
                    "created_at": "2026-01-01T00:00:00.000000Z",
                    "last_event_at": "2026-01-01T00:05:00.000000Z",
                }
            ]
        }
    )

    name: str
    spec: dict[str, Any]
    resolved: Annotated[dict[str, Any] | None, Field(description="what auto became; null before the first row")]
    examples: Annotated[int, Field(ge=0, description="rows learned")]
    positives: Annotated[int, Field(ge=0)]
    seq: Seq
    pending: Annotated[
        int, Field(ge=0, description="examples that wait for their label, and early labels for their example")
    ]
    auc: Annotated[float | None, Field(description="over the window; null until both classes are in it")]
    created_at: str
    last_event_at: str | None


class Models(_Answer):
    """A page of models, by name."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"models": [], "next": None}]})

    models: list[Description]
    next: Annotated[str | None, Field(description="cursor of the next page; null on the last")]


class AucSummary(_Answer):
    """AUC with its 95 % interval (DeLong)."""

    examples: Annotated[int, Field(ge=0)]
    positives: Annotated[int, Field(ge=0)]
    auc: float | None
    auc_low: float | None
    auc_high: float | None
    ready: Annotated[bool, Field(description="both classes are present")]


class WindowSummary(AucSummary):
    """Exact AUC over the last `size` rows."""

    size: Annotated[int, Field(ge=1)]


class CalibrationSummary(_Answer):
    """The logistic calibration, and how its probabilities did before each row was learned."""

    slope: float | None
    intercept: float | None
    log_loss: float | None
    brier: float | None


_AUC_EXAMPLE: dict[str, Any] = {
    "examples": 1000,
    "positives": 20,
    "auc": 0.86,
    "auc_low": 0.81,
    "auc_high": 0.91,
    "ready": True,
}


class EvaluationAnswer(_Answer):
    """Running evaluation of the scores given before each update."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "window": {"size": 10000, **_AUC_EXAMPLE},
                    "total": _AUC_EXAMPLE,
                    "calibration": {"slope": 1.5, "intercept": -3.5, "log_loss": 0.08, "brier": 0.02},
                }
            ]
        }
    )

    window: WindowSummary
    total: AucSummary
    calibration: CalibrationSummary


class Roc(_Answer):
    """ROC curve over the window; empty until both classes are in it."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"fpr": [0.0, 0.5, 1.0], "tpr": [0.0, 1.0, 1.0], "thresholds": [None, 0.5, 0.1]}]
        }
    )

    fpr: list[float]
    tpr: list[float]
    thresholds: Annotated[list[float | None], Field(description="the first, null, is above every score")]


class Weight(_Answer):
    """One weight."""

    name: Annotated[str, Field(description='feature name, or column of an array: `"0"`, as in contributions')]
    weight: float


class Weights(_Answer):
    """The largest weights, by absolute value."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"weights": [{"name": "amount", "weight": 0.5}]}]})

    weights: list[Weight]


class Alive(_Answer):
    """The process lives."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"status": "live"}]})

    status: str


class Health(_Answer):
    """The service is ready; `faulted` names models that were set aside: they answer 503, the others serve."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"status": "ready", "faulted": []}]})

    status: str
    faulted: list[str]


class Removed(_Answer):
    """How many raw records of an example were removed."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"removed": 1}]})

    removed: int


class FieldProblem(BaseModel):
    """One field of the body that was refused."""

    pointer: Annotated[str, Field(description="JSON pointer into the body (RFC 6901)")]
    message: str
    line: Annotated[int | None, Field(description="of an NDJSON body; of an Arrow stream the row, from 1")] = None


class Problem(BaseModel):
    """RFC 9457 problem document."""

    type: Annotated[str, Field(description="urn:aucstream:problem:<name>: stable")]
    title: str
    status: int
    detail: str
    errors: list[FieldProblem]
    request_id: str


DESCRIBED: tuple[type[BaseModel], ...] = (
    ModelSpec,
    Learn,
    Predict,
    Label,
    Learned,
    LearnedMany,
    Predicted,
    PredictedMany,
    Description,
    Models,
    EvaluationAnswer,
    Roc,
    Weights,
    Alive,
    Health,
    Removed,
    Problem,
)
