"""The life of an id: what a call does by the state of the id. Pure functions, the whole table.

======================  ==================  ==============================  ========================
state of the id         predict             label                           learn (with features)
======================  ==================  ==============================  ========================
nothing                 wait for the label  hold the label, or unknown-id   learn
label held (early)      learn at once       same: again; other: conflict    same: learn; other: conflict
prediction waits        the first answer*   learn the prediction            learn the prediction*
learned                 the first answer*   same: duplicate; other: conflict
expired as negative     the first answer*   negative: duplicate; positive: label-expired-negative
ended, nothing learned  expired             expired
======================  ==================  ==============================  ========================

\\* with other features than those of the prediction: features-conflict; where no prediction is
remembered: already-labelled.

Nothing learned: expired and discarded, or its record was removed on request while it waited.

A row whose step is not finite is skipped when its event is applied, and that frees its id: from then on nothing is
known of it, whatever was known before (`Release`). A prediction whose label led to such a step waits no longer.
Calls that came in between as duplicates are refused like the row itself.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from aucstream_service.errors.exceptions import (
    AlreadyLabelled,
    BodyTooLarge,
    ExpiredId,
    FeaturesConflict,
    LabelConflict,
    LabelExpiredNegative,
    PendingFull,
    QueueFull,
    ServiceError,
    UnknownId,
)

WhenFull = Literal["refuse", "score-only", "drop-oldest"]


class PendingSpec(BaseModel):
    """How long, and how many, predictions wait for their label, and what a further one does."""

    model_config = ConfigDict(extra="forbid")

    ttl_seconds: Annotated[float, Field(gt=0)] = 604_800
    capacity: Annotated[int, Field(ge=1)] = 1_000_000
    on_expiry: Literal["discard", "negative"] = "discard"
    hold_early_seconds: Annotated[float, Field(ge=0)] = 0
    when_full: Annotated[
        WhenFull,
        Field(
            description="What a prediction with an id does where `capacity` are waiting: refuse: 429; score-only: it is "
            "answered with `kept` false and does not wait; drop-oldest: the one whose time would end first is discarded."
        ),
    ] = "score-only"


class IdState(enum.IntEnum):
    """State of an id. The numbers are on disk: never change or reuse one."""

    LEARNED = 0
    DISCARDED = 1  # expired or removed on request, nothing learned
    NEGATIVE = 2  # expired, learned as negative
    WAITING = 3  # a prediction without its label
    EARLY = 4  # a label without its prediction


class Prediction(NamedTuple):
    """The first answer to a prediction, and the digest of its features."""

    digest: bytes
    score: float
    probability: float | None
    seq: int


class IdRecord(NamedTuple):
    """What the journal knows of an id."""

    state: IdState
    sign: float = 0.0
    seq: int = 0  # the event that learned or expired it
    prediction: Prediction | None = None
    size: int = 0  # bytes of the features of a prediction that waits
    expires_at: float = 0.0  # of what waits


class Action(enum.Enum):
    """What a call does with one row."""

    LEARN = "learn the row as it came"
    JOIN = "learn the prediction with the label"
    KEEP = "keep the prediction for its label"
    HOLD = "hold the label for its prediction"
    SAME = "nothing: it was done before"


class Reason(enum.Enum):
    """Why a row is refused: the error, where it is, what was expected, and the member of the row."""

    LABEL_CONFLICT = LabelConflict, "id", "the label that came first for it ({})", "label"
    FEATURES_CONFLICT = FeaturesConflict, "id", "the features of its prediction", "features"
    ALREADY_LABELLED = (
        AlreadyLabelled,
        "id",
        "one that is not labelled yet: it was learned, and no prediction of it is remembered",
        "id",
    )
    EXPIRED = ExpiredId, "id", "one whose time to be labelled is not over, and whose record was not removed", "id"
    EXPIRED_NEGATIVE = (
        LabelExpiredNegative,
        "id",
        "a negative label: its time was over, and it was learned as negative",
        "label",
    )
    UNKNOWN = UnknownId, "id", "one that was predicted before, and not so long ago", "id"
    FULL = (
        PendingFull,
        "pending",
        "room among what waits for a label (pending.capacity and pending.when_full of the spec)",
        "id",
    )
    TOO_LARGE = (
        BodyTooLarge,
        "body",
        "fewer labels at once: the predictions they belong to are too large together",
        "id",
    )
    BUSY = QueueFull, "queue", "room for the predictions that labels bring back", "id"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a row was refused, and the label that was first."""

    reason: Reason
    first_sign: float = 0.0

    def error(self, row: str = "") -> ServiceError:
        """Return the error; `row` is the pointer to the row in the body."""
        kind, where, expected, member = self.reason.value
        first = self.first_sign > 0
        members = {"first_label": first} if member == "label" else None
        expected = expected.format("positive" if first else "negative")
        error: ServiceError = kind(where, expected, pointer=f"{row}/{member}", members=members)
        return error


Digest = Callable[[], bytes]


def on_predict(record: IdRecord | None, digest: bytes) -> Action | Refusal:
    """Return what a prediction with an id does."""
    if record is None:
        return Action.KEEP
    if record.state is IdState.EARLY:
        return Action.JOIN
    if record.state is IdState.DISCARDED:
        return Refusal(Reason.EXPIRED)
    if record.prediction is None:
        return Refusal(Reason.ALREADY_LABELLED)
    return Action.SAME if record.prediction.digest == digest else Refusal(Reason.FEATURES_CONFLICT)


def on_label(record: IdRecord | None, sign: float, *, hold: bool) -> Action | Refusal:
    """Return what a label by id does; `hold`: labels may come before their predictions."""
    if record is None:
        return Action.HOLD if hold else Refusal(Reason.UNKNOWN)
    if record.state is IdState.WAITING:
        return Action.JOIN
    return _again(record, sign)


def on_learn(record: IdRecord | None, sign: float, digest: Digest) -> Action | Refusal:
    """Return what a labelled example with an id does; `digest` is called where it matters."""
    if record is None:
        return Action.LEARN
    if record.state is IdState.WAITING:
        assert record.prediction is not None
        return Action.JOIN if record.prediction.digest == digest() else Refusal(Reason.FEATURES_CONFLICT)
    if record.state is IdState.EARLY and record.sign == sign:
        return Action.LEARN
    return _again(record, sign)


def _again(record: IdRecord, sign: float) -> Action | Refusal:
    if record.state is IdState.DISCARDED:
        return Refusal(Reason.EXPIRED)
    if record.sign == sign:
        return Action.SAME
    if record.state is IdState.NEGATIVE:
        return Refusal(Reason.EXPIRED_NEGATIVE, record.sign)
    return Refusal(Reason.LABEL_CONFLICT, record.sign)
