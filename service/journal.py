"""The journal: SQLite through apsw, the only durable truth for models, events and ids.

One connection, used by one thread at a time: at start by whoever recovers, then by the writer.
A commit takes a list of commands; together they are one transaction (group commit).

Events carry a kind, a range of `seq` and the validated bytes of the request. The outcome of an
event is a function of this file alone, so a replay gives the same model to the last bit.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from service.errors import JournalUnavailable, StartRefused
from service.settings import Durability

# os: SQLite writes the WAL at each commit but leaves the flush to the kernel (checkpoints do flush),
# so a killed process loses nothing and a power cut loses the newest commits.
_SYNCHRONOUS: dict[Durability, str] = {"disk": "FULL", "os": "NORMAL", "memory": "OFF"}
IDS_SLACK = 64  # ids over the limit are deleted when they are a 64th too many, not one by one
PURGE_ROWS = 5_000  # rows of a deleted model removed per transaction, so that learning never waits long


class Kind(enum.IntEnum):
    """What an event is. The numbers are on disk: never change or reuse one."""

    LEARN = 1  # payload: one learn body, or several as a JSON array or as lines
    # Kept for delayed labels: 2 prediction that waits for its label, 3 label, 4 expiry.


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


@dataclass(slots=True)
class Append:
    """Append the rows of one request as one event, each id at most once."""

    model: int
    kind: Kind
    payload: Callable[[Sequence[int] | None], bytes]  # the bytes of these rows (None: of all)
    signs: Sequence[float]
    ids: Sequence[str | None] | None
    mode: Mode
    received_at: float


@dataclass(slots=True)
class Appended:
    """What became of the rows of an Append.

    `taken` are the row numbers that got `seq_first`..`seq_last` (None: all of them); `duplicates`
    holds row -> first seq, `conflicts` row -> sign learned first. With conflicts under Mode.ALL
    nothing was taken.
    """

    seq_first: int
    seq_last: int
    taken: list[int] | None
    duplicates: dict[int, int]
    conflicts: dict[int, float]


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


@dataclass(slots=True)
class DropModel:
    """Forget a model; its rows are purged later, in steps."""

    model: int


@dataclass(slots=True)
class Prune:
    """Remove the events of a model up to `seq`, and its base: snapshots hold them."""

    model: int
    seq: int


Command = Append | CreateModel | DropModel | Prune
Outcome = Appended | int | None


class Journal:
    """SQLite file of one data directory."""

    def __init__(self, path: Path, durability: Durability, max_ids: int) -> None:
        self.path = path
        self.durability = durability
        self.max_ids = max_ids
        self._seq: dict[int, int] = {}
        self._ids: dict[int, int] = {}
        self._connection: apsw.Connection | None = None
        self._dropped = False

    @property
    def _db(self) -> apsw.Connection:
        if self._connection is None:
            raise JournalUnavailable("journal", "an open journal, it is closed")
        return self._connection

    def open(self) -> None:
        """Open or create the file and bring its tables up to date."""
        try:
            db = apsw.Connection(str(self.path))
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
            db.execute("PRAGMA journal_mode = WAL")
            db.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[self.durability]}")
            db.execute("PRAGMA foreign_keys = OFF")
            _migrate(db)
        except apsw.Error as error:
            raise StartRefused(f"a readable journal, got {self.path}: {error}") from error
        self._connection = db
        self._dropped = bool(self._rows("SELECT 1 FROM models WHERE name IS NULL LIMIT 1"))

    def close(self, *, failed: bool = False) -> None:
        """Close; after a failed write the file is left as it is (no checkpoint is tried)."""
        if self._connection is None:
            return
        if failed:
            self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self._connection.close()
        self._connection = None

    def size(self) -> int:
        """Return the bytes of the file and of its WAL."""
        found = 0
        for path in (self.path, self.path.with_name(f"{self.path.name}-wal")):
            with contextlib.suppress(OSError):
                found += path.stat().st_size
        return found

    def last_seq(self, model: int) -> int:
        """Return the seq of a model's newest event, 0 without one."""
        return self._integer("SELECT coalesce(max(seq_last), 0) FROM events WHERE model = ?", model)

    def _rows(self, sql: str, *bindings: apsw.SQLiteValue) -> list[tuple[Any, ...]]:
        return list(self._db.execute(sql, bindings))

    def _integer(self, sql: str, *bindings: apsw.SQLiteValue) -> int:
        return int(self._rows(sql, *bindings)[0][0])

    # ---- reading, at start -------------------------------------------------------------------

    def models(self) -> list[ModelRecord]:
        """Return the registry."""
        rows = self._db.execute(
            "SELECT model, name, spec, created_at, base_seq, seed, pruned_seq FROM models WHERE name IS NOT NULL ORDER BY model"
        )
        return [ModelRecord(*row) for row in rows]

    def base(self, model: int) -> bytes | None:
        """Return the uploaded snapshot a model began with, unless it was pruned."""
        rows = self._rows("SELECT payload FROM bases WHERE model = ?", model)
        return bytes(rows[0][0]) if rows else None

    def events(self, model: int, after: int) -> Iterator[EventRecord]:
        """Yield the events of a model that hold a seq above `after`, in order."""
        cursor = self._db.execute(
            "SELECT seq_first, seq_last, kind, payload, received_at FROM events"
            " WHERE model = ? AND seq_last > ? ORDER BY seq_first",
            (model, after),
        )
        for row in cursor:
            yield EventRecord(*row)

    def start_model(self, model: int, seq: int) -> None:
        """Tell where a model stands after replay; later ids (of a weaker level) are forgotten."""
        self._seq[model] = seq
        self._db.execute("DELETE FROM ids WHERE model = ? AND seq > ?", (model, seq))
        self._ids[model] = self._integer("SELECT count(*) FROM ids WHERE model = ?", model)

    # ---- writing -----------------------------------------------------------------------------

    def commit(self, commands: Sequence[Command]) -> list[Outcome]:
        """Carry the commands out as one transaction; when this returns they are durable.

        Any exception means that nothing is known about the file: it must not be used again.
        """
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        outcomes: list[Outcome] = []
        for command in commands:
            match command:
                case Append():
                    outcomes.append(self._append(command))
                case CreateModel():
                    outcomes.append(self._create(command))
                case DropModel():
                    self._drop(command.model)
                    outcomes.append(None)
                case Prune():
                    db.execute("DELETE FROM events WHERE model = ? AND seq_last <= ?", (command.model, command.seq))
                    db.execute("DELETE FROM bases WHERE model = ?", (command.model,))
                    db.execute("UPDATE models SET pruned_seq = ? WHERE model = ?", (command.seq, command.model))
                    outcomes.append(None)
        db.execute("COMMIT")
        return outcomes

    def _append(self, append: Append) -> Appended:
        model = append.model
        before = self._seq[model]
        taken: list[int] | None = None
        duplicates: dict[int, int] = {}
        conflicts: dict[int, float] = {}
        rows = len(append.signs)
        if append.ids is not None and any(id_ is not None for id_ in append.ids):
            fresh: list[int] = []
            inside: dict[str, tuple[int, float]] = {}
            for row, (id_, sign) in enumerate(zip(append.ids, append.signs, strict=True)):
                if id_ is None:
                    fresh.append(row)
                    continue
                first = inside.get(id_) or self._seen(model, id_)
                if first is None:
                    fresh.append(row)
                    inside[id_] = (before + len(fresh), sign)
                elif first[1] == sign:
                    duplicates[row] = first[0]
                else:
                    conflicts[row] = first[1]
                    if append.mode is not Mode.SKIP:
                        break
            if conflicts and append.mode is Mode.ALL:
                return Appended(before, before, [], {}, conflicts)
            if len(fresh) < rows:
                taken = fresh
                rows = len(fresh)
            if rows:
                self._remember(model, inside, append.received_at)
        if rows == 0:
            return Appended(before, before, taken, duplicates, conflicts)
        last = before + rows
        if self.durability != "memory":
            self._db.execute(
                "INSERT INTO events(model, seq_first, seq_last, kind, payload, received_at) VALUES (?,?,?,?,?,?)",
                (model, before + 1, last, int(append.kind), append.payload(taken), append.received_at),
            )
        self._seq[model] = last
        return Appended(before + 1, last, taken, duplicates, conflicts)

    def _seen(self, model: int, id_: str) -> tuple[int, float] | None:
        rows = self._rows("SELECT seq, sign FROM ids WHERE model = ? AND id = ?", model, id_)
        return (int(rows[0][0]), float(rows[0][1])) if rows else None

    def _remember(self, model: int, ids: dict[str, tuple[int, float]], at: float) -> None:
        self._db.executemany(
            "INSERT INTO ids(model, id, seq, sign, at) VALUES (?,?,?,?,?)",
            [(model, id_, seq, sign, at) for id_, (seq, sign) in ids.items()],
        )
        self._ids[model] += len(ids)
        excess = self._ids[model] - self.max_ids
        if excess > self.max_ids // IDS_SLACK:
            self._db.execute(
                "DELETE FROM ids WHERE model = ? AND seq <="
                " (SELECT seq FROM ids WHERE model = ? ORDER BY seq LIMIT 1 OFFSET ?)",
                (model, model, excess - 1),
            )
            self._ids[model] -= excess

    def _create(self, create: CreateModel) -> int:
        if create.replaces is not None:
            self._drop(create.replaces)
        self._db.execute(
            "INSERT INTO models(name, spec, created_at, base_seq, seed) VALUES (?,?,?,?,?)",
            (create.name, create.spec, create.created_at, create.base_seq, create.seed),
        )
        model = self._db.last_insert_rowid()
        if create.base is not None:
            self._db.execute("INSERT INTO bases(model, payload) VALUES (?,?)", (model, create.base))
        self._seq[model] = create.base_seq
        self._ids[model] = 0
        return model

    def _drop(self, model: int) -> None:
        self._db.execute("UPDATE models SET name = NULL WHERE model = ?", (model,))
        self._seq.pop(model, None)
        self._ids.pop(model, None)
        self._dropped = True

    @property
    def purging(self) -> bool:
        """Whether rows of dropped models are left to purge."""
        return self._dropped

    def purge(self) -> None:
        """Remove some rows of a dropped model, in one transaction."""
        rows = self._rows("SELECT model FROM models WHERE name IS NULL LIMIT 1")
        if not rows:
            self._dropped = False
            return
        model = rows[0][0]
        self._db.execute("BEGIN IMMEDIATE")
        removed = 0
        for sql in (
            "DELETE FROM events WHERE event IN (SELECT event FROM events WHERE model = ? LIMIT ?)",
            "DELETE FROM ids WHERE (model, id) IN (SELECT model, id FROM ids WHERE model = ? LIMIT ?)",
            "DELETE FROM pending WHERE (model, id) IN (SELECT model, id FROM pending WHERE model = ? LIMIT ?)",
        ):
            self._db.execute(sql, (model, PURGE_ROWS))
            removed += self._db.changes()
        if removed == 0:
            self._db.execute("DELETE FROM bases WHERE model = ?", (model,))
            self._db.execute("DELETE FROM models WHERE model = ?", (model,))
        self._db.execute("COMMIT")


# ---- migrations: named, applied once, in this order, never edited after a release -----------------


def first_tables(db: apsw.Connection) -> None:
    """Models, events, ids, pending examples."""
    db.execute(
        """
        CREATE TABLE models(
            model INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused: a name created again is another model
            name TEXT UNIQUE,                         -- NULL: dropped, its rows are being purged
            spec TEXT NOT NULL,
            created_at REAL NOT NULL,
            base_seq INTEGER NOT NULL,
            seed INTEGER NOT NULL,
            pruned_seq INTEGER NOT NULL DEFAULT 0);
        CREATE TABLE bases(                           -- an uploaded snapshot a model began with
            model INTEGER PRIMARY KEY,
            payload BLOB NOT NULL);
        CREATE TABLE events(
            event INTEGER PRIMARY KEY,
            model INTEGER NOT NULL,
            seq_first INTEGER NOT NULL,
            seq_last INTEGER NOT NULL,
            kind INTEGER NOT NULL,
            payload BLOB NOT NULL,
            received_at REAL NOT NULL);
        CREATE UNIQUE INDEX events_by_seq ON events(model, seq_first);
        CREATE TABLE ids(                             -- ids that were learned
            model INTEGER NOT NULL,
            id TEXT NOT NULL,
            seq INTEGER NOT NULL,
            sign REAL NOT NULL,
            at REAL NOT NULL,
            PRIMARY KEY (model, id)) WITHOUT ROWID;
        CREATE INDEX ids_by_seq ON ids(model, seq);
        CREATE TABLE pending(                         -- predictions that wait for their label
            model INTEGER NOT NULL,
            id TEXT NOT NULL,
            seq INTEGER NOT NULL,
            features BLOB NOT NULL,
            score REAL,
            predicted_at REAL NOT NULL,
            expires_at REAL NOT NULL,
            PRIMARY KEY (model, id)) WITHOUT ROWID;
        CREATE INDEX pending_by_expiry ON pending(model, expires_at);
        """
    )


MIGRATIONS: tuple[Callable[[apsw.Connection], None], ...] = (first_tables,)


def _migrate(db: apsw.Connection) -> None:
    db.execute("BEGIN IMMEDIATE")
    db.execute("CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID")
    rows = list(db.execute("SELECT value FROM meta WHERE key = 'migrations'"))
    applied = str(rows[0][0]).split() if rows else []
    known = [migration.__name__ for migration in MIGRATIONS]
    if applied != known[: len(applied)]:
        db.execute("ROLLBACK")
        raise StartRefused(
            f"a journal with the tables {' '.join(known)}, got {' '.join(applied)}: it was made by a newer version"
        )
    for migration in MIGRATIONS[len(applied) :]:
        migration(db)
    db.execute("INSERT OR REPLACE INTO meta VALUES ('migrations', ?)", (" ".join(known),))
    db.execute("COMMIT")
