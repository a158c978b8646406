"""What the journal is asked to do, and what it answers: plain values, no more."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from aucstream.block import Floats
from aucstream_service.journal.rules import Prediction, Refusal
from aucstream_service.models.spec import PendingSpec


class Kind(enum.IntEnum):
    """What an event is. The numbers are on disk: never change or reuse one."""

    # Payloads of 1, 3 and 5: one row, or several as a JSON array or as lines; a row that was predicted
    # under its id has its `score` (and `probability`) from then beside features, label and weight.
    # Payloads of 1 may be columns: see `journal/column_events.py`.
    LEARN = 1  # examples that came with their label
    LABEL = 3  # predictions whose label came
    DISCARD = 4  # predictions that expired, nothing is learned; payload: their ids as lines
    NEGATIVE = 5  # predictions that expired and are learned as negative


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


class Joined(NamedTuple):
    """A prediction that waited and is learned now."""

    id: str
    features: bytes
    sign: float
    weight: float
    score: float
    probability: float | None


@dataclass(slots=True)
class Settled:
    """An event that no request brought whole: expired examples, or predictions whose label was there first."""

    kind: Kind
    seq_first: int
    seq_last: int
    joined: list[Joined]  # empty where nothing is learned
    at: float


@dataclass(slots=True)
class Append:
    """Append the rows of one request as one event, each id at most once.

    Kind.LEARN: rows with features; `digest` is that of a row's features. Kind.LABEL: labels by id,
    `payload` is not asked for.
    """

    model: int
    kind: Kind
    payload: Callable[[Sequence[int] | None], bytes]  # the bytes of these rows (None: of all)
    signs: Sequence[float] | Floats
    ids: Sequence[str | None] | None
    mode: Mode
    received_at: float
    weights: Sequence[float] | Floats | None = None
    digest: Callable[[int], bytes] | None = None
    line: Callable[[int], bytes] | None = None  # a row among predictions that are learned with it; None: its payload


@dataclass(slots=True)
class Appended:
    """What became of the rows of an Append.

    `taken` are the row numbers that got `seq_first`..`seq_last` (None: all of them); `duplicates`
    holds row -> first seq, `refused` row -> why. With a refusal under Mode.ALL nothing was taken.
    """

    seq_first: int
    seq_last: int
    taken: list[int] | None
    duplicates: dict[int, int]
    refused: dict[int, Refusal]
    joined: dict[int, Joined] = field(default_factory=dict)  # rows that are learned as they were predicted
    held: set[int] = field(default_factory=set)  # labels that wait for their prediction
    skipped: set[int] = field(default_factory=set)  # of the duplicates: of a row whose step was skipped when applied
    expired: list[Settled] = field(default_factory=list)  # what expired before, in this transaction
    pending: int = 0  # what waits after it


@dataclass(slots=True)
class Keep:
    """Keep predictions until their labels come."""

    model: int
    ids: Sequence[str]
    features: Sequence[bytes]
    predictions: Sequence[Prediction]
    mode: Mode
    received_at: float


@dataclass(slots=True)
class Kept:
    """What became of the rows of a Keep: each one's first answer, or why it was refused."""

    answers: list[Prediction | None]
    refused: dict[int, Refusal]
    kept: int = 0  # rows that wait now
    settled: list[Settled] = field(default_factory=list)
    pending: int = 0


@dataclass(slots=True)
class Sweep:
    """Expire what is due, of all models: one step of it."""

    at: float


@dataclass(slots=True)
class Swept:
    """What expired, by model, and what waits there now; `more`: there may be more to do."""

    settled: list[tuple[int, list[Settled], int]]
    more: bool


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
class Erased:
    """How many raw records were removed; with `uncovered`, a seq that no snapshot holds, none was."""

    removed: int
    uncovered: int = 0
    pending: int = 0


@dataclass(slots=True)
class Retain:
    """Remove events received before a time, as far as a snapshot holds them (`covered`: model -> seq)."""

    before: float
    covered: dict[int, int]


@dataclass(slots=True)
class Retained:
    """Models with older events that their snapshots do not hold."""

    uncovered: list[int]


Command = Append | Keep | Sweep | Release | CreateModel | DropModel | Prune | Erase | Retain
Outcome = Appended | Kept | Swept | Erased | Retained | int | None
