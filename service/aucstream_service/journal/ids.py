"""What the journal knows of event ids: tables `ids` (learned or expired) and `pending` (what waits).

Used by the journal's thread within its transactions. Counts are kept here and are exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import apsw

from aucstream_service.errors.exceptions import RowsDamaged
from aucstream_service.journal import checksums
from aucstream_service.journal.rules import Fate, Known, Prediction

IDS_SLACK = 64  # ids over the limit are deleted when they are a 64th too many, not one by one
STEP_ROWS = 256  # rows that expire, and bytes of their features, in one transaction at most
STEP_BYTES = 1 << 20
CHECKED_ROWS = 5_000  # at start, before the loop looks elsewhere
AGED_ROWS = 5_000  # ids that are too old are forgotten so many at a time

Row = tuple[str, Known]
_FATES = tuple(Fate)  # by number: they begin at 0

_FIND = "SELECT fate, sign, seq, digest, score, probability, predicted_seq FROM ids WHERE model = ? AND id = ?"
_WAITING = "SELECT id, sign, digest, score, probability, seq, length(features), expires_at FROM pending WHERE model = ?"


class Ids:
    """Ids of all models in one database."""

    def __init__(self, db: apsw.Connection, max_ids: int, seconds: float) -> None:
        self._db = db
        self.max_ids = max_ids
        self.seconds = seconds
        self.settled: dict[int, int] = {}  # model -> ids that were learned or expired
        self.waiting: dict[int, int] = {}  # model -> predictions and early labels
        self._aging: list[int] = []

    def start(self, model: int, seq: int) -> Iterator[None]:
        """Check and count what is there; later ids (of a weaker level of durability) are forgotten.

        In steps, so that others may have the loop: a million take seconds.

        Raises
        ------
        RowsDamaged
        """
        self._db.execute("DELETE FROM ids WHERE model = ? AND seq > ?", (model, seq))
        found = {}
        for table in ("ids", "pending"):
            columns = ", ".join(checksums.COVERED[table])
            count = 0
            for *values, checksum in self._db.execute(
                f"SELECT {columns}, checksum FROM {table} WHERE model = ?", (model,)
            ):
                if checksums.of_row(tuple(values)) != checksum:
                    raise RowsDamaged(f"the rows of {table} that were written, the journal holds another")
                count += 1
                if count % CHECKED_ROWS == 0:
                    yield
            found[table] = count
        self.settled[model], self.waiting[model] = found["ids"], found["pending"]

    def begin(self, model: int) -> None:
        """Start with a new model."""
        self.settled[model] = self.waiting[model] = 0

    def drop(self, model: int) -> None:
        """Forget a model; its rows are purged later."""
        self.settled.pop(model, None)
        self.waiting.pop(model, None)

    # ---- reading -----------------------------------------------------------------------------

    def find(self, model: int, id_: str) -> Known | None:
        """Return what is known of an id."""
        if self.settled[model]:
            for fate, sign, seq, digest, score, probability, predicted_seq in self._db.execute(_FIND, (model, id_)):
                first = None if digest is None else Prediction(digest, score, probability, predicted_seq)
                return Known(_FATES[fate], sign, seq, first)
        if self.waiting[model]:
            for row in self._db.execute(f"{_WAITING} AND id = ?", (model, id_)):
                return _waiting(row)[1]
        return None

    def due(self, model: int, at: float) -> Iterator[Row]:
        """Yield what expires by now, the oldest first: one step of it."""
        size = 0
        rows = self._db.execute(
            f"{_WAITING} AND expires_at <= ? ORDER BY expires_at, row LIMIT ?", (model, at, STEP_ROWS)
        )
        for row in rows:
            found = _waiting(row)
            size += found[1].size
            yield found
            if size > STEP_BYTES:
                return

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

    # ---- writing -----------------------------------------------------------------------------

    def wait(self, model: int, rows: list[tuple[str, Known, bytes | None]], at: float) -> None:
        """Add predictions with their features, and early labels, that wait."""
        self._db.executemany(
            "INSERT INTO pending(model, id, sign, digest, score, probability, seq, features, at, expires_at, checksum)"
            " VALUES (?,?,?,?,?,?,?,?,?,?,?)",
            [
                _sealed(
                    *(model, id_, float(known.sign), *(known.prediction or (None,) * 4)),
                    *(features, float(at), float(known.expires_at)),
                )
                for id_, known, features in rows
            ],
        )
        self.waiting[model] += len(rows)

    def remove(self, model: int, ids: Iterable[str]) -> None:
        """Remove what waits no longer."""
        for id_ in ids:
            self._db.execute("DELETE FROM pending WHERE model = ? AND id = ?", (model, id_))
            self.waiting[model] -= self._db.changes()

    def release(self, model: int, ids: Iterable[tuple[str, int]]) -> None:
        """Forget ids as they were settled at a seq; settled again since then they stay."""
        for id_, seq in ids:
            self._db.execute("DELETE FROM ids WHERE model = ? AND id = ? AND seq = ?", (model, id_, seq))
            self.settled[model] -= self._db.changes()

    def settle(self, model: int, rows: list[Row], at: float) -> None:
        """Remember ids that were learned or expired."""
        self._db.executemany(
            "INSERT INTO ids(model, id, seq, sign, at, fate, digest, score, probability, predicted_seq, checksum)"
            " VALUES (?,?,?,?,?,?,?,?,?,?,?)",
            [
                _sealed(
                    *(model, id_, known.seq, float(known.sign), float(at), int(known.fate)),
                    *(known.prediction or (None,) * 4),
                )
                for id_, known in rows
            ],
        )
        self.settled[model] += len(rows)
        excess = self.settled[model] - self.max_ids
        if excess > self.max_ids // IDS_SLACK:
            self._db.execute(
                "DELETE FROM ids WHERE model = ? AND seq <="
                " (SELECT seq FROM ids WHERE model = ? ORDER BY seq LIMIT 1 OFFSET ?)",
                (model, model, excess - 1),
            )
            self.settled[model] -= self._db.changes()

    def age(self, at: float) -> None:
        """Forget some ids that are too old, of one model at a call."""
        if not self._aging:
            self._aging = list(self.settled)
        while self._aging:
            model = self._aging[-1]
            if not self.settled.get(model):
                self._aging.pop()
                continue
            oldest = self._db.execute(
                "SELECT seq, at FROM ids WHERE model = ? ORDER BY seq LIMIT ?", (model, AGED_ROWS)
            )
            last = old = 0
            for seq, remembered_at in oldest:
                if remembered_at > at - self.seconds:
                    break
                last, old = seq, old + 1
            if old:
                self._db.execute("DELETE FROM ids WHERE model = ? AND seq <= ?", (model, last))
                self.settled[model] -= self._db.changes()
            if old < AGED_ROWS:
                self._aging.pop()
            return


def _sealed(*values: Any) -> tuple[Any, ...]:
    return (*values, checksums.of_row(values))


def _waiting(row: tuple[Any, ...]) -> Row:
    id_, sign, digest, score, probability, seq, size, expires_at = row
    if size is None:
        return id_, Known(Fate.HELD, sign, expires_at=expires_at)
    first = Prediction(digest, score, probability, seq)
    return id_, Known(Fate.WAITING, prediction=first, size=size, expires_at=expires_at)
