"""Rows that are in the journal and wait to be applied."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from aucstream.features.number_rows import NumberRows
from aucstream_service.errors.exceptions import JournalGap
from aucstream_service.journal.column_events import event_of, is_columns
from aucstream_service.journal.commands import ROWS, AppendOutcome, DerivedEvent, EventRecord, Kind
from aucstream_service.journal.event_codec import EventRow, LabelledPrediction, event_rows, features_of
from aucstream_service.journal.row_batch import RowBatch

# Rows of one request that are learned by themselves, not with those of other requests: at least so many as a block,
# or as dicts.
FEW = 16
BLOCK = 128

# Score and probability that a row had when it was predicted; None: it was not.
PriorPrediction = tuple[float, float | None] | None


@dataclass(slots=True)
class Learned:
    """What became of one request's rows.

    `scores` belong to the rows that got a seq, in order; NaN: skipped as non-finite (`skipped`: some were).
    """

    outcome: AppendOutcome
    scores: list[float]
    skipped: bool


class Change(NamedTuple):
    """An event that no row brings."""

    kind: Kind
    payload: bytes
    state: Any = None  # of a rollback: a model that has taken the snapshot over, where one was made ahead


class Applied(NamedTuple):
    """What an event did that no row brings: its seq, the rows learned after it, and those not learned any more."""

    seq: int
    examples: int
    undone: int


@dataclass(slots=True)
class QueuedRows:
    """Rows of one event; without features and signs: a seq each, and nothing to learn."""

    outcome: AppendOutcome | DerivedEvent
    rows: RowBatch
    received_at: float
    future: asyncio.Future[Any] | None = None  # of Learned, or of Applied
    priors: Sequence[PriorPrediction] | None = None
    scores: list[float] = field(default_factory=list)
    skipped: bool = False  # a row that was applied, as non-finite
    change: Change | None = None  # what an event does that no row brings

    def __len__(self) -> int:
        return self.outcome.seq_last - self.outcome.seq_first + 1

    @property
    def many(self) -> bool:
        """Whether the rows that are left are learned by themselves, not with those of other requests."""
        count = len(self) - len(self.scores)
        if self.rows.block is not None or isinstance(self.rows.features, NumberRows):
            return count > FEW
        return count >= BLOCK and len(self.rows.features) > 0 and self.priors is None


def queued_request(
    rows: RowBatch, outcome: AppendOutcome, at: float, future: asyncio.Future[Learned] | None
) -> QueuedRows:
    """Return the rows of a request that got a seq."""
    predictions = outcome.predictions
    if not predictions:
        if outcome.rows is not None:
            rows = rows.take(outcome.rows)
        elif rows.block is not None:
            rows.signs = rows.block.y
        rows.lines = ()  # they are in the journal
        return QueuedRows(outcome, rows, at, future)
    numbers = range(len(rows)) if outcome.rows is None else outcome.rows
    first = [predictions.get(row) for row in numbers]
    return QueuedRows(
        outcome,
        RowBatch(
            [
                rows.features[row] if each is None else features_of(each.features)
                for row, each in zip(numbers, first, strict=True)
            ],
            [float(rows.signs[row]) for row in numbers],
            None if rows.weights is None else [float(rows.weights[row]) for row in numbers],
            None if rows.ids is None else [rows.ids[row] for row in numbers],
            size=rows.size + sum(len(each.features) for each in predictions.values()),
        ),
        at,
        future,
        list(map(_prior, first)),
    )


def queued_derived(event: DerivedEvent) -> QueuedRows:
    """Return the rows of an event that no request brought whole."""
    predictions = event.predictions
    rows = RowBatch(
        [features_of(each.features) for each in predictions],
        [each.sign for each in predictions],
        ids=[each.id for each in predictions],
        size=sum(len(each.features) for each in predictions),
    )
    return QueuedRows(event, rows, event.at, priors=list(map(_prior, predictions)))


def queued_change(event: DerivedEvent, change: Change, future: asyncio.Future[Applied]) -> QueuedRows:
    """Return an event that no row brings."""
    return QueuedRows(event, RowBatch(()), event.at, future, change=change)


def queued_replay(event: EventRecord, first: int) -> QueuedRows:
    """Return the rows of a journalled event from seq `first` on."""
    outcome = AppendOutcome(first, event.seq_last)
    start = first - event.seq_first
    if event.kind not in ROWS:
        return QueuedRows(outcome, RowBatch(()), event.received_at, change=Change(Kind(event.kind), event.payload))
    if event.kind == Kind.DISCARD:
        return QueuedRows(outcome, RowBatch(()), event.received_at)
    if is_columns(event.payload):
        columns = event_of(event.payload)
        erased = [row for row in columns.erased if row >= start]
        if erased:
            raise _removed(event.seq_first + min(erased))
        weights, ids = columns.each_weight, columns.ids
        rows = RowBatch(
            columns.features[start:],
            columns.signs[start:],
            None if weights is None else weights[start:],
            None if ids is None else ids[start:],
        )
        return QueuedRows(outcome, rows, event.received_at)
    bodies: list[EventRow] = []
    for seq, body in enumerate(event_rows(event.payload)[start:], first):
        if body is None:
            raise _removed(seq)
        bodies.append(body)
    rows = RowBatch(
        [body.features for body in bodies],
        [replay_sign(body.label) for body in bodies],
        [body.weight for body in bodies] if any(body.weight != 1.0 for body in bodies) else None,
        [body.id for body in bodies],
    )
    priors = list(map(_prior, bodies)) if any(body.score is not None for body in bodies) else None
    return QueuedRows(outcome, rows, event.received_at, priors=priors)


def _removed(seq: int) -> JournalGap:
    return JournalGap(
        f"the event {seq}, its record was removed on request: restore a readable snapshot from after that"
    )


def _prior(row: LabelledPrediction | EventRow | None) -> PriorPrediction:
    return None if row is None or row.score is None else (row.score, row.probability)


def replay_sign(label: Any) -> float:
    """Return the sign of a label that was checked before it was journalled."""
    return 1.0 if label == 1 else -1.0
