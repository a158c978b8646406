"""One transaction of the journal: what its commands do to the events, the ids and what waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby

import apsw

from aucstream_service.journal import checksums, commands, rules
from aucstream_service.journal.column_events import is_columns
from aucstream_service.journal.event_codec import LabelledPrediction, event_line, expired_line
from aucstream_service.journal.ids import STEP_ROWS, Ids, Row
from aucstream_service.journal.migrations import COLUMN_EVENTS, LIFE_EVENTS, mark
from aucstream_service.journal.row_batch import RowBatch

JOIN_BYTES = 32 << 20  # features of waiting predictions that one body may bring back; a transaction: twice that
RUN_ROWS, RUN_BYTES = 128, 1 << 20  # single rows that become one event: SQLite holds no value over a gigabyte


class Transaction:
    """Commands that are committed together.

    Parameters
    ----------
    db : apsw.Connection
    ids : Ids
    seqs : dict of int to int
        The newest event of each model; it moves on.
    pending : dict of int to rules.PendingSpec
        How long predictions wait, by model.
    stores_events : bool
        False: events get their seqs, and are not written (durability memory).
    marks : set of str
        Of the journal, as `migrations.marks`; those of new kinds of event are added.
    """

    def __init__(
        self,
        db: apsw.Connection,
        ids: Ids,
        seqs: dict[int, int],
        pending: dict[int, rules.PendingSpec],
        *,
        stores_events: bool,
        marks: set[str],
    ) -> None:
        self._db = db
        self._ids = ids
        self._seq = seqs
        self._pending = pending
        self._stores_events = stores_events
        self._marks = marks
        self._restored = 0  # bytes of features of predictions that are learned in this transaction

    # ---- events ------------------------------------------------------------------------------

    def _event(self, model: int, kind: commands.Kind, rows: int, payload: Callable[[], bytes], at: float) -> None:
        """Write one event of so many rows at the end of a model."""
        before = self._seq[model]
        self._seq[model] = before + rows
        if self._stores_events:
            head = (model, before + 1, before + rows, int(kind), float(at))
            data = payload()
            name = LIFE_EVENTS if kind not in commands.ROWS else COLUMN_EVENTS if is_columns(data) else None
            if name is not None and name not in self._marks:
                mark(self._db, name)
                self._marks.add(name)
            self._db.execute(
                "INSERT INTO events(model, seq_first, seq_last, kind, received_at, payload, checksum)"
                " VALUES (?,?,?,?,?,?,?)",
                (*head, data, checksums.of_event(*head, data)),
            )

    def change(self, change: commands.Change) -> commands.DerivedEvent:
        """Append an event that no row brings."""
        model = change.model
        self._event(model, change.kind, 1, lambda: change.payload, change.at)
        if change.pending is not None:
            self._pending[model] = change.pending
        seq = self._seq[model]
        return commands.DerivedEvent(change.kind, seq, seq, [], change.at)

    # ---- rows that have a label, labels by id ----------------------------------------------------

    def append_rows(self, appends: Sequence[commands.Append]) -> list[commands.AppendOutcome]:
        """Append single rows as few events: to write an event costs more than to write a row of it."""
        model = appends[0].model
        first = self._seq[model] + 1
        pending = self._ids.pending[model]
        lines = [append.rows.payload() for append in appends]
        start = 0
        while start < len(lines):
            stop, size = start + 1, len(lines[start])
            while stop < len(lines) and size + len(lines[stop]) <= RUN_BYTES:
                size += len(lines[stop])
                stop += 1
            payload = partial(b"\n".join, lines[start:stop])
            self._event(model, commands.Kind.LEARN, stop - start, payload, appends[stop - 1].received_at)
            start = stop
        return [commands.AppendOutcome(seq, seq, pending=pending) for seq in range(first, first + len(appends))]

    def append(self, append: commands.Append) -> commands.AppendOutcome:
        """Append the rows of one request as one event."""
        model, at, ids = append.model, append.received_at, append.rows.ids or ()
        records, expired = self._records(model, ids, at)
        before = self._seq[model]
        outcome = commands.AppendOutcome(before, before, expired=expired)
        count = len(append.rows)
        oldest: list[Row] = []
        if any(id_ is not None for id_ in ids):
            rows, ended, excess = self._sort(append, records, outcome)
            if outcome.refusals and append.mode is commands.Mode.ALL:
                pending = self._ids.pending[model]
                return commands.AppendOutcome(
                    before, before, [], refusals=outcome.refusals, expired=expired, pending=pending
                )
            self._ids.remove(model, ended)
            self._ids.settle(model, [(id_, records[id_]) for row in rows if (id_ := ids[row]) is not None], at)  # type: ignore[misc]
            oldest = self._ids.oldest(model, excess) if excess > 0 else []
            early = sorted(outcome.early - outcome.duplicates.keys())
            self._ids.wait(model, [(id_, records[id_], None) for row in early if (id_ := ids[row]) is not None], at)  # type: ignore[misc]
            if len(rows) < count:
                outcome.rows, count = rows, len(rows)
        if count:
            outcome.seq_first, outcome.seq_last = before + 1, before + count
            self._event(model, append.kind, count, lambda: _payload(append.rows, outcome), at)
        outcome.dropped = self._drop(model, oldest, at)
        outcome.pending = self._ids.pending[model]
        return outcome

    def _records(
        self, model: int, ids: Sequence[str | None], at: float
    ) -> tuple[dict[str, rules.IdRecord | None], list[commands.DerivedEvent]]:
        """Return the records of ids; what of them is due expires first, as far as there is room for it."""
        records = {id_: self._ids.find(model, id_) for id_ in ids if id_ is not None}
        due = [(id_, record) for id_, record in records.items() if record is not None and _is_due(record, at)]
        return records, self._expire(model, due, at, records) if due else []

    def _features(self, model: int, id_: str, record: rules.IdRecord) -> bytes:
        """Return the features of a prediction that is learned now."""
        self._restored += record.size
        return self._ids.features(model, id_)

    def _sort(
        self, append: commands.Append, records: dict[str, rules.IdRecord | None], outcome: commands.AppendOutcome
    ) -> tuple[list[int], list[str], int]:
        """Return the rows that get a seq, the ids that wait no longer, and how many must go for those that wait now.

        The other rows are noted in the outcome, and the records are brought up to date.
        """
        batch = append.rows
        assert batch.ids is not None
        before = outcome.seq_first
        spec = self._pending[append.model]
        room = self._room(append.model)
        holds = 0
        size = 0
        rows: list[int] = []
        ended: list[str] = []
        for row, (id_, sign) in enumerate(zip(batch.ids, map(float, batch.signs), strict=True)):
            if id_ is None:
                rows.append(row)
                continue
            record = records[id_]
            action: rules.Action | rules.Refusal
            if _is_due(record, append.received_at):
                action = rules.Refusal(rules.Reason.BUSY)
            elif append.kind is commands.Kind.LABEL:
                action = rules.on_label(record, sign, hold=spec.hold_early_seconds > 0)
            else:
                action = rules.on_learn(record, sign, lambda row=row: batch.digest(row))  # type: ignore[misc]
            if (
                action is rules.Action.HOLD
                and room <= 0
                and not (spec.when_full == "drop-oldest" and holds < spec.capacity)
            ):
                action = rules.Refusal(rules.Reason.FULL)
            elif action is rules.Action.JOIN and record is not None:
                size += record.size
                if size > JOIN_BYTES:
                    action = rules.Refusal(rules.Reason.TOO_LARGE)
                elif self._restored + record.size > 2 * JOIN_BYTES:
                    action = rules.Refusal(rules.Reason.BUSY)
            if isinstance(action, rules.Refusal):
                outcome.refusals[row] = action
                if append.mode is not commands.Mode.SKIP:
                    break
            elif action is rules.Action.SAME:
                assert record is not None
                outcome.duplicates[row] = record.seq
                if record.state is rules.IdState.EARLY:
                    outcome.duplicates[row] = before
                    outcome.early.add(row)
            elif action is rules.Action.HOLD:
                room -= 1
                holds += 1
                outcome.early.add(row)
                expires_at = append.received_at + spec.hold_early_seconds
                records[id_] = rules.IdRecord(rules.IdState.EARLY, sign, expires_at=expires_at)
            else:
                first = None
                if record is not None:
                    room += 1
                    ended.append(id_)
                if action is rules.Action.JOIN:
                    assert record is not None and record.prediction is not None
                    first = record.prediction
                    weight = 1.0 if batch.weights is None else float(batch.weights[row])
                    features = self._features(append.model, id_, record)
                    outcome.predictions[row] = LabelledPrediction(
                        id_, features, sign, weight, first.score, first.probability
                    )
                rows.append(row)
                records[id_] = rules.IdRecord(rules.IdState.LEARNED, sign, before + len(rows), first)
        return rows, ended, -room if holds else 0

    # ---- predictions -----------------------------------------------------------------------------

    def keep(self, keep: commands.Keep) -> commands.KeepOutcome:
        """Keep predictions until their labels come; learn those whose label was there first."""
        model, at, batch = keep.model, keep.received_at, keep.rows
        records, derived = self._records(model, batch.ids, at)
        spec = self._pending[model]
        if self._ids.pending[model] + len(batch) > spec.capacity:
            derived += self._expire(model, list(self._ids.due(model, at)), at, records)
        room = self._room(model)
        before = self._seq[model]
        outcome = commands.KeepOutcome([None] * len(batch), derived=derived)
        pending: list[tuple[str, rules.IdRecord, bytes | None]] = []
        learned: list[Row] = []
        predictions: list[LabelledPrediction] = []
        for row, (id_, features, first) in enumerate(zip(batch.ids, batch.features, batch.firsts, strict=True)):
            record = records[id_]
            action = rules.Refusal(rules.Reason.BUSY) if _is_due(record, at) else rules.on_predict(record, first.digest)
            if action is rules.Action.KEEP and room <= 0:
                if spec.when_full == "refuse":
                    action = rules.Refusal(rules.Reason.FULL)
                elif spec.when_full == "score-only" or len(pending) >= spec.capacity:
                    outcome.answers[row] = first
                    outcome.unkept.add(row)
                    continue
            if isinstance(action, rules.Refusal):
                outcome.refusals[row] = action
                if keep.mode is not commands.Mode.SKIP:
                    break
                continue
            outcome.answers[row] = first
            if action is rules.Action.SAME:
                assert record is not None
                outcome.answers[row] = record.prediction
            elif action is rules.Action.KEEP:
                room -= 1
                record = rules.IdRecord(
                    rules.IdState.WAITING, prediction=first, size=len(features), expires_at=at + spec.ttl_seconds
                )
                records[id_] = record
                pending.append((id_, record, features))
            else:
                assert record is not None
                room += 1  # the label waits no longer
                predictions.append(LabelledPrediction(id_, features, record.sign, 1.0, first.score, first.probability))
                record = rules.IdRecord(rules.IdState.LEARNED, record.sign, before + len(predictions), first)
                records[id_] = record
                learned.append((id_, record))
        if not (outcome.refusals and keep.mode is commands.Mode.ALL):
            if learned:
                derived.append(self._derive(model, commands.Kind.LABEL, learned, predictions, at))
            oldest = self._ids.oldest(model, -room) if pending and room < 0 else []
            self._ids.wait(model, pending, at)
            outcome.count = len(pending)
            derived += self._drop(model, oldest, at)
        outcome.pending = self._ids.pending[model]
        return outcome

    def _room(self, model: int) -> int:
        """Return how many more may wait; not far below 0, so that a smaller capacity is reached in steps."""
        return max(self._pending[model].capacity - self._ids.pending[model], -STEP_ROWS)

    def _drop(self, model: int, oldest: Sequence[Row], at: float) -> list[commands.DerivedEvent]:
        """Discard what waits, before its time, as one event; early labels are forgotten."""
        self._ids.remove(model, (id_ for id_, record in oldest if record.state is rules.IdState.EARLY))
        waiting = [row for row in oldest if row[1].state is rules.IdState.WAITING]
        if not waiting:
            return []
        rows = [
            (id_, rules.IdRecord(rules.IdState.DISCARDED, 0.0, seq, record.prediction))
            for seq, (id_, record) in enumerate(waiting, self._seq[model] + 1)
        ]
        event = self._derive(model, commands.Kind.DISCARD, rows, [], at)
        event.made_room = True
        return [event]

    def _derive(
        self, model: int, kind: commands.Kind, rows: list[Row], predictions: list[LabelledPrediction], at: float
    ) -> commands.DerivedEvent:
        """Write an event of rows that waited: they are learned as predictions, or discarded."""
        before = self._seq[model]
        self._ids.remove(model, (id_ for id_, _ in rows))
        self._ids.settle(model, rows, at)
        lines = map(event_line, predictions) if predictions else (expired_line(id_) for id_, _ in rows)
        self._event(model, kind, len(rows), lambda: b"\n".join(lines), at)
        return commands.DerivedEvent(kind, before + 1, before + len(rows), predictions, at)

    # ---- what expires ----------------------------------------------------------------------------

    def sweep(self, at: float) -> commands.SweepOutcome:
        """Let what is due expire, of all models: one step of it."""
        outcome = commands.SweepOutcome()
        rows = 0
        for model in [model for model, count in self._ids.pending.items() if count]:
            due = list(self._ids.due(model, at))
            if due:
                outcome.expired.append((model, self._expire(model, due, at, {}), self._ids.pending[model]))
                rows += len(due)
                outcome.more = True
            if rows >= STEP_ROWS:
                break
        self._ids.age(at)
        return outcome

    def _expire(
        self, model: int, due: Sequence[Row], at: float, records: dict[str, rules.IdRecord | None]
    ) -> list[commands.DerivedEvent]:
        """Let predictions expire as one event, and bring their records up to date; early labels are forgotten.

        Those to be learned are left for a later transaction where this one has brought back enough.
        """
        self._ids.remove(model, (id_ for id_, record in due if record.state is rules.IdState.EARLY))
        learn = self._pending[model].on_expiry == "negative"
        state, sign = (rules.IdState.NEGATIVE, -1.0) if learn else (rules.IdState.DISCARDED, 0.0)
        rows: list[Row] = []
        predictions: list[LabelledPrediction] = []
        before = self._seq[model]
        for id_, record in due:
            first = record.prediction
            if first is None:
                continue
            if learn:
                if self._restored + record.size > 2 * JOIN_BYTES:
                    break
                features = self._features(model, id_, record)
                predictions.append(LabelledPrediction(id_, features, sign, 1.0, first.score, first.probability))
            rows.append((id_, rules.IdRecord(state, sign, before + len(rows) + 1, first)))
        derived = []
        if rows:
            derived.append(
                self._derive(model, commands.Kind.NEGATIVE if learn else commands.Kind.DISCARD, rows, predictions, at)
            )
        for id_, _ in due:
            if id_ in records:
                records[id_] = self._ids.find(model, id_)
        return derived


def runs(group: Sequence[commands.Command]) -> Iterator[Sequence[commands.Command]]:
    """Cut commands into those that are carried out together: single rows of one model in a row, or one command."""
    for model, run in groupby(group, _model_of_row):
        part, step = list(run), 1 if model is None else RUN_ROWS
        yield from (part[start : start + step] for start in range(0, len(part), step))


def _model_of_row(command: commands.Command) -> int | None:
    return command.model if isinstance(command, commands.Append) and is_row(command) else None


def is_row(command: commands.Command) -> bool:
    """Return whether a command appends a single row, as a line and without an id."""
    if not isinstance(command, commands.Append):
        return False
    rows = command.rows
    return len(rows.signs) == 1 and rows.ids is None and len(rows.lines) == 1


def _payload(batch: RowBatch, outcome: commands.AppendOutcome) -> bytes:
    predictions = outcome.predictions
    if not predictions:
        return batch.payload(outcome.rows)
    rows = range(len(batch)) if outcome.rows is None else outcome.rows
    return b"\n".join(event_line(predictions[row]) if row in predictions else batch.line(row) for row in rows)


def _is_due(record: rules.IdRecord | None, at: float) -> bool:
    return (
        record is not None and record.state in (rules.IdState.WAITING, rules.IdState.EARLY) and record.expires_at <= at
    )
