"""What the service answers, as typed values; fields that a newer service adds are passed over."""

from __future__ import annotations

from typing import Any

import msgspec

MAX_ERRORS = 100  # as many as the service tells


class Answer(msgspec.Struct, frozen=True):
    """Base of all answers."""


class Learned(Answer, frozen=True):
    """What became of one example.

    Attributes
    ----------
    seq : int
        Number of its event.
    score : float or None
        From before the update, or the one given at prediction; None for a duplicate, for a label that waits
        for its prediction, and where the answer of an earlier attempt was lost on the way.
    duplicate : bool
        The id came before, with this label: nothing changed.
    id : str or None
        The id that was sent.
    """

    seq: int
    score: float | None
    duplicate: bool
    id: str | None = None


class RowError(Answer, frozen=True):
    """Why a row was refused: its number from 1 among all rows given, a JSON pointer into it, a sentence."""

    line: int
    pointer: str
    message: str


class LearnedMany(Answer, frozen=True):
    """What became of many rows: their counts, the last `seq`, and the first 100 errors."""

    accepted: int = 0
    duplicates: int = 0
    rejected: int = 0
    seq: int = 0
    errors: tuple[RowError, ...] = ()

    @property
    def rows(self) -> int:
        """All rows that were answered."""
        return self.accepted + self.duplicates + self.rejected

    def __add__(self, other: LearnedMany) -> LearnedMany:
        return LearnedMany(
            self.accepted + other.accepted,
            self.duplicates + other.duplicates,
            self.rejected + other.rejected,
            max(self.seq, other.seq),
            (self.errors + other.errors)[:MAX_ERRORS],
        )


class Predicted(Answer, frozen=True):
    """Score and probability (None without calibration) after event `seq`; `contributions` where asked for."""

    score: float
    probability: float | None
    seq: int
    contributions: dict[str, float] | None = None


class Prediction(Answer, frozen=True):
    """Score and probability of one of many rows; both None, with `errors`, for a row that was skipped."""

    score: float | None
    probability: float | None
    errors: tuple[RowError, ...] = ()


class Description(Answer, frozen=True):
    """A model: its spec, what `auto` became, its counts, and the `etag` of its spec (None in a list)."""

    name: str
    spec: dict[str, Any]
    resolved: dict[str, Any] | None
    examples: int
    positives: int
    seq: int
    pending: int
    auc: float | None
    created_at: str
    last_event_at: str | None
    etag: str | None = None


class Page(Answer, frozen=True):
    """A page of models."""

    models: tuple[Description, ...]
    next: str | None


class AucSummary(Answer, frozen=True):
    """AUC with its 95 % interval; `ready`: both classes are present."""

    examples: int
    positives: int
    auc: float | None
    auc_low: float | None
    auc_high: float | None
    ready: bool


class WindowSummary(AucSummary, frozen=True, kw_only=True):
    """The same over the last `size` rows, exact."""

    size: int


class CalibrationSummary(Answer, frozen=True):
    """The logistic calibration, and how its probabilities did before each row was learned."""

    slope: float | None
    intercept: float | None
    log_loss: float | None
    brier: float | None


class Evaluation(Answer, frozen=True):
    """The running evaluation."""

    window: WindowSummary
    total: AucSummary
    calibration: CalibrationSummary


class Roc(Answer, frozen=True):
    """ROC curve over the window; the first threshold, None, is above every score."""

    fpr: tuple[float, ...]
    tpr: tuple[float, ...]
    thresholds: tuple[float | None, ...]


class Weight(Answer, frozen=True):
    """The weight of a feature; a column of arrays is named as in contributions, `"0"`."""

    name: str
    weight: float


class Weights(Answer, frozen=True):
    """The largest weights."""

    weights: tuple[Weight, ...]


class Removed(Answer, frozen=True):
    """How many raw records of an example were removed."""

    removed: int


class ModelEvent(Answer, frozen=True):
    """The numbers of a model as they are after event `seq`."""

    name: str
    seq: int
    examples: int
    positives: int
    pending: int
    last_event_at: str | None
    window: WindowSummary
    total: AucSummary
