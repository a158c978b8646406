"""The life of an id: what a call does, by what is known of the id. Pure functions, the whole table.

======================  ==================  ==============================  ========================
known                   predict             label                           learn (with features)
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
from typing import NamedTuple

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


class Fate(enum.IntEnum):
    """What became of an id. The numbers are on disk: never change or reuse one."""

    LEARNED = 0
    DISCARDED = 1  # expired or removed on request, nothing learned
    NEGATIVE = 2  # expired, learned as negative
    WAITING = 3  # a prediction without its label
    HELD = 4  # a label without its prediction


class Prediction(NamedTuple):
    """The first answer to a prediction, and the digest of its features."""

    digest: bytes
    score: float
    probability: float | None
    seq: int


class Known(NamedTuple):
    """What is known of an id."""

    fate: Fate
    sign: float = 0.0
    seq: int = 0  # the event that learned or expired it
    prediction: Prediction | None = None
    size: int = 0  # bytes of the features of a prediction that waits
    expires_at: float = 0.0  # of what waits


class Do(enum.Enum):
    """What a call does with one row."""

    LEARN = "learn the row as it came"
    JOIN = "learn the prediction with the label"
    KEEP = "keep the prediction for its label"
    HOLD = "hold the label for its prediction"
    SAME = "nothing: it was done before"


class Refused(enum.Enum):
    """Why a row is refused."""

    LABEL_CONFLICT = enum.auto()
    FEATURES_CONFLICT = enum.auto()
    ALREADY_LABELLED = enum.auto()
    EXPIRED = enum.auto()
    EXPIRED_NEGATIVE = enum.auto()
    UNKNOWN = enum.auto()
    FULL = enum.auto()
    TOO_LARGE = enum.auto()
    BUSY = enum.auto()


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a row was refused, and the label that was first."""

    why: Refused
    first_sign: float = 0.0

    def error(self, row: str = "") -> ServiceError:
        """Return the error; `row` is the pointer to the row in the body."""
        first = self.first_sign > 0
        match self.why:
            case Refused.LABEL_CONFLICT:
                told = f"the label that came first for it ({'positive' if first else 'negative'})"
                return LabelConflict("id", told, pointer=f"{row}/label", members={"first_label": first})
            case Refused.FEATURES_CONFLICT:
                return FeaturesConflict("id", "the features of its prediction", pointer=f"{row}/features")
            case Refused.ALREADY_LABELLED:
                told = "one that is not labelled yet: it was learned, and no prediction of it is remembered"
                return AlreadyLabelled("id", told, pointer=f"{row}/id")
            case Refused.EXPIRED:
                told = "one whose time to be labelled is not over, and whose record was not removed"
                return ExpiredId("id", told, pointer=f"{row}/id")
            case Refused.EXPIRED_NEGATIVE:
                told = "a negative label: its time was over, and it was learned as negative"
                return LabelExpiredNegative("id", told, pointer=f"{row}/label", members={"first_label": False})
            case Refused.UNKNOWN:
                return UnknownId("id", "one that was predicted before, and not so long ago", pointer=f"{row}/id")
            case Refused.FULL:
                told = "room among what waits for a label (pending.capacity of the spec)"
                return PendingFull("pending", told, pointer=f"{row}/id")
            case Refused.TOO_LARGE:
                told = "fewer labels at once: the predictions they belong to are too large together"
                return BodyTooLarge("body", told, pointer=f"{row}/id")
            case Refused.BUSY:
                return QueueFull("queue", "room for the predictions that labels bring back", pointer=f"{row}/id")


Digest = Callable[[], bytes]


def on_predict(known: Known | None, digest: bytes) -> Do | Refusal:
    """Return what a prediction with an id does."""
    if known is None:
        return Do.KEEP
    if known.fate is Fate.HELD:
        return Do.JOIN
    if known.fate is Fate.DISCARDED:
        return Refusal(Refused.EXPIRED)
    if known.prediction is None:
        return Refusal(Refused.ALREADY_LABELLED)
    return Do.SAME if known.prediction.digest == digest else Refusal(Refused.FEATURES_CONFLICT)


def on_label(known: Known | None, sign: float, *, hold: bool) -> Do | Refusal:
    """Return what a label by id does; `hold`: labels may come before their predictions."""
    if known is None:
        return Do.HOLD if hold else Refusal(Refused.UNKNOWN)
    if known.fate is Fate.WAITING:
        return Do.JOIN
    return _again(known, sign)


def on_learn(known: Known | None, sign: float, digest: Digest) -> Do | Refusal:
    """Return what a labelled example with an id does; `digest` is called where it matters."""
    if known is None:
        return Do.LEARN
    if known.fate is Fate.WAITING:
        assert known.prediction is not None
        return Do.JOIN if known.prediction.digest == digest() else Refusal(Refused.FEATURES_CONFLICT)
    if known.fate is Fate.HELD and known.sign == sign:
        return Do.LEARN
    return _again(known, sign)


def _again(known: Known, sign: float) -> Do | Refusal:
    if known.fate is Fate.DISCARDED:
        return Refusal(Refused.EXPIRED)
    if known.sign == sign:
        return Do.SAME
    if known.fate is Fate.NEGATIVE:
        return Refusal(Refused.EXPIRED_NEGATIVE, known.sign)
    return Refusal(Refused.LABEL_CONFLICT, known.sign)
