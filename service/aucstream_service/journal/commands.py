"""Journal commands and their outcomes."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field

from aucstream_service.journal.event_codec import LabelledPrediction
from aucstream_service.journal.row_batch import Predictions, RowBatch
from aucstream_service.journal.rules import PendingSpec, Prediction, Refusal


class Kind(enum.IntEnum):
    """What an event is. The numbers are on disk: never change or reuse one."""

    # Payloads of 1, 3 and 5: one row, or several as a JSON array or as lines; a row that was predicted
    # under its id has its `score` (and `probability`) from then beside features, label and weight.
    # Payloads of 1 may be columns: see `journal/column_events.py`.
    LEARN = 1  # examples that came with their label
    LABEL = 3  # predictions whose label came
    DISCARD = 4  # predictions that expired, nothing is learned; payload: their ids as lines
    NEGATIVE = 5  # predictions that expired and are learned as negative
    # Events that no row brings; each has one seq. Payloads are JSON objects but for 9.
    SPEC = 6  # the model goes on with another spec
    EVALUATION = 7  # its evaluation begins anew
    NAME = 8  # it has another name
    ROLLBACK = 9  # it goes back to a snapshot; payload: a line of JSON, and the snapshot


ROWS = frozenset({Kind.LEARN, Kind.LABEL, Kind.DISCARD, Kind.NEGATIVE})  # events whose payload is a row a seq


class Mode(enum.Enum):
    """What a bad row does to the rows beside it."""

    ALL = "all"  # nothing of the body is taken
    ABORT = "abort"  # the rows before it are taken, it and those after it are not
    SKIP = "skip"  # it alone is left out


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """One line of the registry."""

    model: int
    name: str
    spec: str
    created_at: float
    base_seq: int
    seed: int  # stands where the spec says null
    pruned_seq: int = 0  # events up to here are in snapshots only


@dataclass(frozen=True, slots=True)
class EventRecord:
    """One event as it is replayed."""

    seq_first: int
    seq_last: int
    kind: int
    payload: bytes
    received_at: float


@dataclass(frozen=True, slots=True)
class WaitingRecord:
    """What waits, as it is exported: a prediction, or a label that came early (no features)."""

    id: str
    sign: float
    score: float | None
    probability: float | None
    seq: int | None
    features: bytes | None
    at: float
    expires_at: float


@dataclass(slots=True)
class DerivedEvent:
    """An event that no request brought whole: expired predictions, or predictions whose label was there first."""

    kind: Kind
    seq_first: int
    seq_last: int
    predictions: list[LabelledPrediction]  # empty where nothing is learned
    at: float
    made_room: bool = False  # these had time left, and went for newer ones


@dataclass(slots=True)
class Append:
    """Append the rows of one request as one event, each id at most once: Kind.LEARN, or labels by id (Kind.LABEL)."""

    model: int
    kind: Kind
    rows: RowBatch
    mode: Mode
    received_at: float


@dataclass(slots=True)
class AppendOutcome:
    """What became of the rows of an Append.

    `rows` are the row numbers that got `seq_first`..`seq_last` (None: all of them); `duplicates`
    holds row -> first seq, `refusals` row -> why. With a refusal under Mode.ALL no row got a seq.
    """

    seq_first: int
    seq_last: int
    rows: list[int] | None = None
    duplicates: dict[int, int] = field(default_factory=dict)
    refusals: dict[int, Refusal] = field(default_factory=dict)
    predictions: dict[int, LabelledPrediction] = field(default_factory=dict)  # rows learned as they were predicted
    early: set[int] = field(default_factory=set)  # labels that wait for their prediction
    skipped: set[int] = field(default_factory=set)  # duplicates of a row whose step was skipped when it was applied
    expired: list[DerivedEvent] = field(default_factory=list)  # in this transaction, before these rows
    dropped: list[DerivedEvent] = field(default_factory=list)  # and after them
    pending: int = 0  # what waits after it

    @property
    def count(self) -> int:
        """How many rows got a seq."""
        return self.seq_last - self.seq_first + 1 if self.rows is None else len(self.rows)


@dataclass(slots=True)
class Keep:
    """Keep predictions until their labels come."""

    model: int
    rows: Predictions
    mode: Mode
    received_at: float


@dataclass(slots=True)
class KeepOutcome:
    """What became of the rows of a Keep: each one's first answer, or why it was refused."""

    answers: list[Prediction | None]
    refusals: dict[int, Refusal] = field(default_factory=dict)
    unkept: set[int] = field(default_factory=set)  # rows that were answered and do not wait: there was no room
    count: int = 0  # rows that wait now
    derived: list[DerivedEvent] = field(default_factory=list)
    pending: int = 0


@dataclass(slots=True)
class Sweep:
    """Expire what is due, of all models: one step of it."""

    at: float


@dataclass(slots=True)
class SweepOutcome:
    """What expired, by model, and what waits there now; `more`: there may be more to do."""

    expired: list[tuple[int, list[DerivedEvent], int]] = field(default_factory=list)
    more: bool = False


@dataclass(slots=True)
class Release:
    """Free the ids (and seqs) of rows whose step was skipped; the outcome is the model's newest seq by then."""

    model: int
    ids: Sequence[tuple[str, int]]


@dataclass(slots=True)
class CreateModel:
    """Register a model; `base` is an uploaded snapshot to start from, `replaces` a model to drop."""

    name: str
    spec: str
    created_at: float
    seed: int
    base: bytes | None = None
    base_seq: int = 0
    replaces: int | None = None
    pending: PendingSpec = field(default_factory=PendingSpec)


@dataclass(slots=True)
class Change:
    """Append an event that no row brings; the outcome is that event."""

    model: int
    kind: Kind
    payload: bytes
    at: float
    pending: PendingSpec | None = None  # from now on
    name: str | None = None  # from now on


@dataclass(slots=True)
class DropModel:
    """Forget a model; its rows are purged later, in steps."""

    model: int


@dataclass(slots=True)
class Prune:
    """Remove the events of a model up to `seq`, and its base: snapshots hold them."""

    model: int
    seq: int


@dataclass(slots=True)
class Erase:
    """Remove the raw record of an example from events up to `covered`, and from what waits."""

    model: int
    id: str
    covered: int
    at: float


@dataclass(slots=True)
class EraseOutcome:
    """How many raw records were removed; with `uncovered`, a seq that no snapshot holds, none was."""

    removed: int
    uncovered: int = 0
    pending: int = 0


@dataclass(slots=True)
class ReadEvents:
    """Read some events of a model: those after a seq, up to another (None: the newest). Outcome None: no such model."""

    model: int
    after: int
    until: int | None


@dataclass(slots=True)
class ReadPending:
    """Read some of what waits: after a row of the table, up to another (None: the newest)."""

    model: int
    after: int
    until: int | None


@dataclass(slots=True)
class Page:
    """What was read; `damaged`: a row fails its checksum."""

    records: list[EventRecord | WaitingRecord]
    last: int
    until: int
    more: bool
    damaged: bool = False


@dataclass(slots=True)
class Retain:
    """Remove events received before a time, as far as a snapshot holds them (`covered`: model -> seq)."""

    before: float
    covered: dict[int, int]


@dataclass(slots=True)
class RetainOutcome:
    """Models with older events that their snapshots do not hold."""

    uncovered: list[int]


Command = (
    Append
    | Keep
    | Sweep
    | Release
    | CreateModel
    | Change
    | DropModel
    | Prune
    | Erase
    | Retain
    | ReadEvents
    | ReadPending
)
Outcome = Page | AppendOutcome | KeepOutcome | DerivedEvent | SweepOutcome | EraseOutcome | RetainOutcome | int | None
