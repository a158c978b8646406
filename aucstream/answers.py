"""The answers of the HTTP service: the service encodes them, the client decodes them, OpenAPI describes them."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct


def schema(description: str = "", example: Any = UNSET, **keywords: Any) -> Meta:
    """Return what OpenAPI says of a member; decoding checks none of it.

    Parameters
    ----------
    description : str, optional
        What the member holds.
    example : object, optional
        Its value in the example of its struct.
    **keywords
        Keywords of JSON Schema.

    Returns
    -------
    Meta
        For `Annotated`.
    """
    if description:
        keywords["description"] = description
    return Meta(examples=None if example is UNSET else [example], extra_json_schema=keywords)


Seq = Annotated[int, schema("number of the last event of the model that this answer includes", 1000, minimum=0)]
Time = Annotated[str, schema(example="2026-01-01T00:05:00.000000Z")]


class Answer(Struct, frozen=True):
    """Base of all answers."""


class Learned(Answer, frozen=True):
    """What became of one example."""

    seq: Annotated[int, schema("number of its event; of the first one for a duplicate", 1, minimum=0)]
    score: Annotated[
        float | None,
        schema(
            "the score before the update; for an id that was predicted, the score of the prediction; "
            "null for a duplicate, and for a label that waits for its prediction",
            0.0,
        ),
    ]
    duplicate: Annotated[bool, schema("the id came before, with this label: nothing changed", False)]


class RowError(Answer, frozen=True):
    """Why a row of a -many call was refused."""

    line: Annotated[int, schema("number of the row from 1", 3, minimum=1)]
    pointer: Annotated[str, schema("JSON pointer into the row", "/features/amount")]
    message: Annotated[str, schema(example="expected a finite number")]


class LearnedMany(Answer, frozen=True):
    """What became of many rows."""

    accepted: Annotated[int, schema("rows learned, and labels held for their prediction", 999, minimum=0)]
    duplicates: Annotated[int, schema("rows whose id came before, with the same label", 0, minimum=0)]
    rejected: Annotated[int, schema("bad lines (on_error=skip), and rows skipped as non-finite", 1, minimum=0)]
    seq: Seq
    errors: Annotated[tuple[RowError, ...], schema("the first 100", maxItems=100)]


class Prediction(Answer, frozen=True):
    """Score and probability of one of many rows; both are null, with `errors`, for a row that was skipped."""

    score: Annotated[float | None, schema("higher is more positive", 0.25)]
    probability: Annotated[float | None, schema("null where calibration is none", 0.6, minimum=0, maximum=1)]
    errors: tuple[RowError, ...] = ()
    kept: Annotated[
        bool, schema("false, and only then named: the row has an id and does not wait, `pending` is full")
    ] = True


class Predicted(Answer, frozen=True):
    """Score and probability of one row."""

    score: Annotated[float, schema("higher is more positive", 0.25)]
    probability: Annotated[float | None, schema("null where calibration is none", 0.6, minimum=0, maximum=1)]
    seq: Seq
    contributions: Annotated[
        dict[str, float] | None,
        schema(
            "where `explain` is true: name to its part of the score; they add up to it. "
            "An intercept is named `(intercept)`; an array's columns are named 0, 1, …"
        ),
    ] = None
    kept: Annotated[
        bool, schema("false, and only then named: the example has an id and does not wait, `pending` is full")
    ] = True


class PredictedMany(Answer, frozen=True):
    """Scores and probabilities of the rows of a JSON array, in order."""

    predictions: tuple[Prediction, ...]
    seq: Seq


class Description(Answer, frozen=True):
    """A model: its spec and its counts."""

    name: Annotated[str, schema(example="clicks")]
    spec: Annotated[dict[str, Any], schema("with all defaults", {"algorithm": "psam", "params": {"lam": 1e-05}})]
    resolved: Annotated[
        dict[str, Any] | None, schema("what auto became; null before the first row", {"scaler": "standard+bounded"})
    ]
    examples: Annotated[int, schema("rows learned", 1000, minimum=0)]
    positives: Annotated[int, schema("positive rows among them", 20, minimum=0)]
    seq: Seq
    pending: Annotated[
        int, schema("examples that wait for their label, and early labels for their example", 0, minimum=0)
    ]
    auc: Annotated[float | None, schema("over the window; null until both classes are in it", 0.86)]
    created_at: Annotated[str, schema(example="2026-01-01T00:00:00.000000Z")]
    last_event_at: Time | None
    remarks: Annotated[
        tuple[str, ...],
        schema("what limits the model or its numbers hide: full stores, one class only, huge scores", []),
    ]


class Models(Answer, frozen=True):
    """A page of models, by name."""

    models: tuple[Description, ...]
    next: Annotated[str | None, schema("cursor of the next page; null on the last", None)]


class AucSummary(Answer, frozen=True):
    """AUC with its 95 % interval (DeLong; where its variance is 0, one that covers for certain)."""

    examples: Annotated[int, schema("rows counted", 1000, minimum=0)]
    positives: Annotated[int, schema("positive rows among them", 20, minimum=0)]
    auc: Annotated[float | None, schema("null until both classes are present", 0.86)]
    auc_low: Annotated[float | None, schema("lower end of the interval", 0.81)]
    auc_high: Annotated[float | None, schema("upper end of the interval", 0.91)]
    ready: Annotated[bool, schema("both classes are present", True)]


class WindowSummary(AucSummary, frozen=True, kw_only=True):
    """Exact AUC over the last `size` rows."""

    size: Annotated[int, schema("rows that the window holds at most", 10000, minimum=1)]


class CutSummary(Answer, frozen=True):
    """What the rows of the window give where those up to a cut are called positive; null where undefined."""

    at: Annotated[str, schema("as asked", "fpr:0.01")]
    threshold: Annotated[float | None, schema("the least score called positive; null: none is low enough", 1.25)]
    rows: Annotated[float | None, schema("called positive", 120, minimum=0)]
    precision: Annotated[float | None, schema("share of positives among them", 0.4)]
    precision_low: Annotated[float | None, schema("lower end of its 95 % interval", 0.32)]
    precision_high: Annotated[float | None, schema("upper end of its 95 % interval", 0.49)]
    recall: Annotated[float | None, schema("share of the positives that is among them", 0.5)]
    recall_low: Annotated[float | None, schema("lower end of its 95 % interval", 0.4)]
    recall_high: Annotated[float | None, schema("upper end of its 95 % interval", 0.6)]
    fpr: Annotated[float | None, schema("share of the negatives that is among them", 0.0099)]
    lift: Annotated[float | None, schema("precision over the share of positives in the window", 20.0)]
    partial_auc: Annotated[float | None, schema("area under the ROC curve up to the rate; null at another cut", 0.0035)]
    partial_auc_low: Annotated[float | None, schema("lower end of its 95 % interval", 0.003)]
    partial_auc_high: Annotated[float | None, schema("upper end of its 95 % interval", 0.004)]
    partial_auc_standardized: Annotated[float | None, schema("McClish's form: 1/2 by chance, 1 at best", 0.67)]
    cost: Annotated[float | None, schema("of a row in the mean, where a false positive costs 1; cost:… alone", 0.4)]
    cost_low: float | None
    cost_high: float | None


class Figures(Answer, frozen=True):
    """What the ranking of the window gives besides its AUC; exact."""

    average_precision: Annotated[float | None, schema("area under the PR curve; null until a positive is in it", 0.31)]
    average_precision_low: Annotated[float | None, schema("lower end of its 95 % interval", 0.27)]
    average_precision_high: Annotated[float | None, schema("upper end of its 95 % interval", 0.35)]
    at: Annotated[tuple[CutSummary, ...], schema("one for each `at` of the query, in its order")]


class CalibrationSummary(Answer, frozen=True):
    """The logistic calibration, and how its probabilities did before each row was learned."""

    slope: Annotated[float | None, schema("null where calibration is none", 1.5)]
    intercept: Annotated[float | None, schema("null where calibration is none", -3.5)]
    log_loss: Annotated[float | None, schema("mean over all rows; null before the first", 0.08)]
    brier: Annotated[float | None, schema("mean over all rows; null before the first", 0.02)]


class DriftSummary(Answer, frozen=True):
    """Whether log loss exceeds what the probabilities themselves expect: the stream has changed."""

    strength: Annotated[float, schema("the excess in standard deviations at the newest row", 0.4)]
    last_alarm_seq: Annotated[int | None, schema("the event that gave the last alarm; null before the first", None)]
    alarms: Annotated[int, schema("how many there were: a strength above 4", 0, minimum=0)]


class Member(Answer, frozen=True):
    """What a member of an `auto` model is worth at present."""

    name: Annotated[str, schema("SCALER/LEARNER, with parameters that are no defaults", "standard+l2/ftrl")]
    local_weight: Annotated[float, schema("by the log loss of the rows so far", 0.3, minimum=0, maximum=1)]
    global_weight: Annotated[float, schema("by how it ranks new rows among old ones", 0.2, minimum=0, maximum=1)]
    auc: Annotated[float, schema("fading, on rows after the member was copied", 0.84, minimum=0, maximum=1)]
    cost: Annotated[float, schema("of a row, in rows of PSAM", 0.3)]
    resting_since: Annotated[int | None, schema("the example after which it rests; null where it learns", None)]


class Evaluation(Answer, frozen=True):
    """Running evaluation of the scores given before each update."""

    window: WindowSummary
    total: AucSummary
    calibration: CalibrationSummary
    drift: Annotated[DriftSummary | None, schema("null where calibration is none")]
    members: Annotated[tuple[Member, ...] | None, schema("of an `auto` model; null for others")]
    figures: Figures


class Roc(Answer, frozen=True):
    """ROC curve over the window; empty until both classes are in it."""

    fpr: Annotated[tuple[float, ...], schema(example=[0.0, 0.5, 1.0])]
    tpr: Annotated[tuple[float, ...], schema(example=[0.0, 1.0, 1.0])]
    thresholds: Annotated[tuple[float | None, ...], schema("the first, null, is above every score", [None, 0.5, 0.1])]


class Weight(Answer, frozen=True):
    """The weight of a feature."""

    name: Annotated[str, schema('feature name, or column of an array: `"0"`, as in contributions', "amount")]
    weight: Annotated[float, schema(example=0.5)]


class Weights(Answer, frozen=True):
    """The largest weights, by absolute value."""

    weights: tuple[Weight, ...]


class ModelEvent(Answer, frozen=True):
    """The numbers of a model after event `seq`."""

    name: Annotated[str, schema(example="clicks")]
    seq: Seq
    examples: Annotated[int, schema("rows learned", 1000, minimum=0)]
    positives: Annotated[int, schema("positive rows among them", 20, minimum=0)]
    pending: Annotated[int, schema("examples that wait for their label", 0, minimum=0)]
    last_event_at: Time | None
    window: WindowSummary
    total: AucSummary
    drift: Annotated[DriftSummary | None, schema("null where calibration is none")]


class Removed(Answer, frozen=True):
    """How many raw records of an example were removed."""

    removed: Annotated[int, schema(example=1, minimum=0)]


class ExportedEvent(Answer, frozen=True, omit_defaults=True):
    """A row of an event of a model, or an event that no row brought; a line of an export."""

    seq: Annotated[int, schema("its number", 1, minimum=1)]
    kind: Annotated[
        str,
        schema(
            "learn: with its label; label: a prediction whose label came later; discard: a prediction that expired or went "
            "for a newer one; negative: one that expired and was learned as negative; and changes of the model",
            "learn",
            enum=["learn", "label", "discard", "negative", "spec", "reset-evaluation", "rename", "rollback"],
        ),
    ]
    received_at: Time
    id: Annotated[str | None, schema("where the row has one")] = None
    features: Annotated[dict[str, Any] | list[Any] | None, schema("as they were sent")] = None
    label: Annotated[bool | None, schema("of what was learned")] = None
    weight: Annotated[float | None, schema("where it is not 1", minimum=0)] = None
    score: Annotated[float | None, schema("of the prediction that was learned")] = None
    probability: Annotated[float | None, schema("likewise")] = None
    erased: Annotated[bool, schema("true, and only then named: the record was removed on request")] = False
    spec: Annotated[dict[str, Any] | None, schema("of `spec`: the spec from then on")] = None
    to: Annotated[str | None, schema("of `rename`: the name from then on")] = None
    snapshot: Annotated[int | None, schema("of `rollback`: the seq of the snapshot")] = None


class ExportedPending(Answer, frozen=True, omit_defaults=True):
    """A prediction that waits for its label, or a label that waits for its prediction; a line of an export."""

    id: Annotated[str, schema(example="click-2")]
    at: Annotated[str, schema("when it came", "2026-01-01T00:05:00.000000Z")]
    expires_at: Time
    features: Annotated[dict[str, Any] | list[Any] | None, schema("of a prediction")] = None
    label: Annotated[bool | None, schema("of a label that came early")] = None
    score: Annotated[float | None, schema("of a prediction: what was answered")] = None
    probability: Annotated[float | None, schema("likewise; left out where calibration is none")] = None
    seq: Annotated[int | None, schema("of a prediction: after which event it was scored", minimum=0)] = None


class Snapshot(Answer, frozen=True):
    """A snapshot that the service keeps of a model."""

    seq: Annotated[int, schema("number of the last event that it holds", 1000, minimum=0)]
    written_at: Time
    bytes: Annotated[int, schema("size of its file", 20_000, minimum=0)]


class Snapshots(Answer, frozen=True):
    """The snapshots of a model, the newest first."""

    snapshots: tuple[Snapshot, ...]


class RolledBack(Answer, frozen=True):
    """A model that went back to a snapshot."""

    seq: Annotated[int, schema("number of this event", 1201, minimum=1)]
    snapshot: Annotated[int, schema("the snapshot that the model is as", 1000, minimum=0)]
    examples: Annotated[int, schema("rows learned, as of the snapshot", 1000, minimum=0)]
    undone: Annotated[
        int,
        schema("how many rows fewer are learned than before, 0 where more are; their ids stay known", 200, minimum=0),
    ]
    restored: Annotated[
        int, schema("how many rows more are learned than before: the rollback undoes another one", 0, minimum=0)
    ]


class Alive(Answer, frozen=True):
    """The process answers."""

    status: Annotated[str, schema(example="live")]


class Health(Answer, frozen=True):
    """The service is ready."""

    status: Annotated[str, schema(example="ready")]
    faulted: Annotated[tuple[str, ...], schema("models that were set aside: they answer 503, the others serve", [])]
    learning: Annotated[bool, schema("whether labels are taken; scoring works", example=True)]
    why: Annotated[str | None, schema("why nothing is learned", None)]
    remarks: Annotated[tuple[str, ...], schema("remarks of the models, each with its model; the first 100", [])]


class FieldProblem(Answer, frozen=True):
    """One field of the body that was refused."""

    pointer: Annotated[str, schema("JSON pointer into the body (RFC 6901)", "/features/amount")]
    message: Annotated[str, schema(example="expected a finite number")]
    line: Annotated[int | None, schema("of an NDJSON body; of an Arrow stream the row, from 1")] = None


class Problem(Answer, frozen=True):
    """Problem document (RFC 9457)."""

    type: Annotated[str, schema("urn:aucstream:problem:<name>: stable")]
    title: str
    status: int
    detail: str
    errors: tuple[FieldProblem, ...]
    request_id: str
