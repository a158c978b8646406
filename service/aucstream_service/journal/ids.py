"""Ids of examples: tables `ids` (learned or expired) and `pending` (what waits).

Used by the journal's thread within its transactions. Counts are kept here and are exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import apsw

from aucstream_service.errors.exceptions import RowsDamaged
from aucstream_service.journal import checksums, commands
from aucstream_service.journal.rules import IdRecord, IdState, Prediction

IDS_SLACK = 64  # ids over the limit are deleted when they are a 64th too many, not one by one
STEP_ROWS = 256  # rows that expire, and bytes of their features, in one transaction at most
STEP_BYTES = 1 << 20
CHECKED_ROWS = 5_000  # at start, before the loop looks elsewhere
AGED_ROWS = 5_000  # ids that are too old are forgotten so many at a time

Row = tuple[str, IdRecord]
_STATES = tuple(IdState)  # by number: they begin at 0

_FIND = "SELECT fate, sign, seq, digest, score, probability, predicted_seq FROM ids WHERE model = ? AND id = ?"
_PENDING = "SELECT id, sign, digest, score, probability, seq, length(features), expires_at FROM pending WHERE model = ?"


class Ids:
    """Ids of all models in one database."""

    def __init__(self, db: apsw.Connection, max_ids: int, seconds: float) -> None:
        self._db = db
        self.max_ids = max_ids
        self.seconds = seconds
        self.final: dict[int, int] = {}  # model -> ids that were learned or expired
        self.pending: dict[int, int] = {}  # model -> predictions and early labels that wait
        self.oldest_at: dict[int, float] = {}  # model -> when its oldest id was remembered, as of the last look
        self._aging: list[int] = []

    def use(self, db: apsw.Connection) -> None:
        """Go on with another connection to the same file."""
        self._db = db

    def start(self, model: int, seq: int) -> Iterator[None]:
        """Check and count what is there, without ids after `seq`.

        In steps, so that others may have the loop: a million take seconds.

        Raises
        ------
        RowsDamaged
        """
        counts = []
        for table, condition in (("ids", f"AND seq <= {seq:d}"), ("pending", "")):
            columns = ", ".join(checksums.COVERED[table])
            count = 0
            for *values, checksum in self._db.execute(
                f"SELECT {columns}, checksum FROM {table} WHERE model = ? {condition}", (model,)
            ):
                if checksums.of_row(tuple(values)) != checksum:
                    raise RowsDamaged(f"the rows of {table} that were written, the journal holds another")
                count += 1
                if count % CHECKED_ROWS == 0:
                    yield
            counts.append(count)
        self.final[model], self.pending[model] = counts  # not before all rows are good

    def forget_later(self, model: int, seq: int) -> None:
        """Forget ids after the last event of a model, which a weaker level of durability leaves."""
        self._db.execute("DELETE FROM ids WHERE model = ? AND seq > ?", (model, seq))

    def begin(self, model: int) -> None:
        """Start with a new model."""
        self.final[model] = self.pending[model] = 0

    def drop(self, model: int) -> None:
        """Forget a model; its rows are purged later."""
        self.final.pop(model, None)
        self.pending.pop(model, None)
        self.oldest_at.pop(model, None)

    # ---- reading -----------------------------------------------------------------------------

    def find(self, model: int, id_: str) -> IdRecord | None:
        """Return the record of an id."""
        if self.final[model]:
            for state, sign, seq, digest, score, probability, predicted_seq in self._db.execute(_FIND, (model, id_)):
                first = None if digest is None else Prediction(digest, score, probability, predicted_seq)
                return IdRecord(_STATES[state], sign, seq, first)
        if self.pending[model]:
            for row in self._db.execute(f"{_PENDING} AND id = ?", (model, id_)):
                return _pending(row)[1]
        return None

    def due(self, model: int, at: float) -> Iterator[Row]:
        """Yield what expires by now, the oldest first: one step of it."""
        size = 0
        rows = self._db.execute(
            f"{_PENDING} AND expires_at <= ? ORDER BY expires_at, row LIMIT ?", (model, at, STEP_ROWS)
        )
        for row in rows:
            id_, record = _pending(row)
            size += record.size
            yield id_, record
            if size > STEP_BYTES:
                return

    def oldest(self, model: int, count: int) -> list[Row]:
        """Return what would expire first, so many of it."""
        rows = self._db.execute(f"{_PENDING} ORDER BY expires_at, row LIMIT ?", (model, count))
        return [_pending(row) for row in rows]

    def features(self, model: int, id_: str) -> bytes:
        """Return the features of a prediction that waits."""
        rows = list(self._db.execute("SELECT features FROM pending WHERE model = ? AND id = ?", (model, id_)))
        return bytes(rows[0][0])

    def first_features(self, model: int) -> bytes | None:
        """Return the features of any prediction that waits."""
        for row in self._db.execute(
            "SELECT features FROM pending WHERE model = ? AND features IS NOT NULL LIMIT 1", (model,)
        ):
            return bytes(row[0])
        return None

    def page(self, read: commands.ReadPending, rows: int, size: int) -> commands.Page:
        """Return some of what waits; so many rows of the table, of any model, are looked at."""
        columns = ", ".join(checksums.COVERED["pending"])
        until = read.until
        if until is None:
            until = int(str(next(iter(self._db.execute("SELECT coalesce(max(row), 0) FROM pending")))[0]))
        page = commands.Page([], until, until, more=False)
        seen = read_bytes = 0
        for row, *values, checksum in self._db.execute(
            f"SELECT row, {columns}, checksum FROM pending WHERE row > ? AND row <= ? ORDER BY row LIMIT ?",
            (read.after, until, rows + 1),
        ):
            if seen >= rows or read_bytes > size:
                page.more = True
                break
            seen += 1
            page.last = row
            model, id_, sign, _, score, probability, seq, features, at, expires_at = values
            if model != read.model:
                continue
            if checksums.of_row(tuple(values)) != checksum:
                page.damaged = True
                break
            read_bytes += len(features or b"")
            record = commands.WaitingRecord(id_, sign, score, probability, seq, features, at, expires_at)
            page.records.append(record)
        return page

    # ---- writing -----------------------------------------------------------------------------

    def wait(self, model: int, rows: list[tuple[str, IdRecord, bytes | None]], at: float) -> None:
        """Add predictions with their features, and early labels, that wait."""
        self._db.executemany(
            "INSERT INTO pending(model, id, sign, digest, score, probability, seq, features, at, expires_at, checksum)"
            " VALUES (?,?,?,?,?,?,?,?,?,?,?)",
            [
                _sealed(model, id_, float(record.sign), *_answer(record), features, float(at), float(record.expires_at))
                for id_, record, features in rows
            ],
        )
        self.pending[model] += len(rows)

    def remove(self, model: int, ids: Iterable[str]) -> None:
        """Remove what waits no longer."""
        for id_ in ids:
            self._db.execute("DELETE FROM pending WHERE model = ? AND id = ?", (model, id_))
            self.pending[model] -= self._db.changes()

    def release(self, model: int, ids: Iterable[tuple[str, int]]) -> None:
        """Forget ids as they became final at a seq; those that became so again since then stay."""
        for id_, seq in ids:
            self._db.execute("DELETE FROM ids WHERE model = ? AND id = ? AND seq = ?", (model, id_, seq))
            self.final[model] -= self._db.changes()

    def settle(self, model: int, rows: list[Row], at: float) -> None:
        """Remember ids that were learned or expired."""
        self._db.executemany(
            "INSERT INTO ids(model, id, seq, sign, at, fate, digest, score, probability, predicted_seq, checksum)"
            " VALUES (?,?,?,?,?,?,?,?,?,?,?)",
            [
                _sealed(model, id_, record.seq, float(record.sign), float(at), int(record.state), *_answer(record))
                for id_, record in rows
            ],
        )
        self.final[model] += len(rows)
        excess = self.final[model] - self.max_ids
        if excess > self.max_ids // IDS_SLACK:
            self._db.execute(
                "DELETE FROM ids WHERE model = ? AND seq <="
                " (SELECT seq FROM ids WHERE model = ? ORDER BY seq LIMIT 1 OFFSET ?)",
                (model, model, excess - 1),
            )
            self.final[model] -= self._db.changes()

    def age(self, at: float) -> None:
        """Forget some ids that are too old, of one model at a call."""
        if not self._aging:
            self._aging = list(self.final)
        while self._aging:
            model = self._aging[-1]
            if not self.final.get(model):
                self.oldest_at.pop(model, None)
                self._aging.pop()
                continue
            oldest = self._db.execute(
                "SELECT seq, at FROM ids WHERE model = ? ORDER BY seq LIMIT ?", (model, AGED_ROWS)
            )
            last = old = 0
            since = at
            for seq, remembered_at in oldest:
                if remembered_at > at - self.seconds:
                    since = remembered_at
                    break
                last, old = seq, old + 1
            self.oldest_at[model] = since
            if old:
                self._db.execute("DELETE FROM ids WHERE model = ? AND seq <= ?", (model, last))
                self.final[model] -= self._db.changes()
            if old < AGED_ROWS:
                self._aging.pop()
            return


def _answer(record: IdRecord) -> tuple[Any, ...]:
    return record.prediction or (None,) * 4


def _sealed(*values: Any) -> tuple[Any, ...]:
    return (*values, checksums.of_row(values))


def _pending(row: tuple[Any, ...]) -> Row:
    id_, sign, digest, score, probability, seq, size, expires_at = row
    if size is None:
        return id_, IdRecord(IdState.EARLY, sign, expires_at=expires_at)
    first = Prediction(digest, score, probability, seq)
    return id_, IdRecord(IdState.WAITING, prediction=first, size=size, expires_at=expires_at)
