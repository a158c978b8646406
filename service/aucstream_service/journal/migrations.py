"""The tables of the journal: migrations, named, applied once, in this order, never edited after a release."""

from __future__ import annotations

from collections.abc import Callable

import apsw

from aucstream_service.errors.exceptions import StartRefused
from aucstream_service.journal import checksums


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


def delayed_labels(db: apsw.Connection) -> None:
    """What became of an id and its first answer; predictions and early labels that wait."""
    db.execute(
        """
        ALTER TABLE ids ADD COLUMN fate INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE ids ADD COLUMN digest BLOB;       -- this and the next three: NULL if never predicted
        ALTER TABLE ids ADD COLUMN score REAL;
        ALTER TABLE ids ADD COLUMN probability REAL;
        ALTER TABLE ids ADD COLUMN predicted_seq INTEGER;
        DROP TABLE pending;                           -- it was not used
        CREATE TABLE pending(
            row INTEGER PRIMARY KEY,
            model INTEGER NOT NULL,
            id TEXT NOT NULL,
            sign REAL NOT NULL,                       -- of an early label
            digest BLOB,
            score REAL,
            probability REAL,
            seq INTEGER,
            features BLOB,                            -- NULL: an early label
            at REAL NOT NULL,
            expires_at REAL NOT NULL);
        CREATE UNIQUE INDEX pending_by_id ON pending(model, id);
        CREATE INDEX pending_by_expiry ON pending(model, expires_at);
        """
    )


def row_checksums(db: apsw.Connection) -> None:
    """A checksum in every row, and the number of models."""
    db.create_scalar_function("row_checksum", lambda table, *values: checksums.of(table, values), deterministic=True)
    for table, columns in checksums.COVERED.items():
        db.execute(f"ALTER TABLE {table} ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0")
        db.execute(f"UPDATE {table} SET checksum = row_checksum('{table}', {', '.join(columns)})")
    db.create_scalar_function("row_checksum", None)
    db.execute("INSERT OR REPLACE INTO meta SELECT 'models', count(*) FROM models")


MIGRATIONS: tuple[Callable[[apsw.Connection], None], ...] = (first_tables, delayed_labels, row_checksums)

# What an older version cannot read of a journal is noted behind the names of the migrations when it is first written.
# A version that does not know a name there refuses the journal, with a sentence that says why.
COLUMN_EVENTS = "column_events"
LIFE_EVENTS = "life_events"  # another spec, another name, an evaluation that begins anew
MARKS = frozenset({COLUMN_EVENTS, LIFE_EVENTS})


def meta(db: apsw.Connection, key: str, default: str) -> str:
    """Return a line of the table `meta`, which an empty journal does not have yet."""
    if not list(db.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'")):
        return default
    rows = list(db.execute("SELECT value FROM meta WHERE key = ?", (key,)))
    return str(rows[0][0]) if rows else default


def mark(db: apsw.Connection, name: str) -> None:
    """Note, in a transaction of the caller, that the journal holds what versions that do not know this name cannot read."""
    assert name in MARKS
    applied = meta(db, "migrations", "").split()
    if name not in applied:
        db.execute("INSERT OR REPLACE INTO meta VALUES ('migrations', ?)", (" ".join([*applied, name]),))


def marks(db: apsw.Connection) -> set[str]:
    """Return the marks of a journal that was opened."""
    return set(MARKS.intersection(meta(db, "migrations", "").split()))


def fits(applied: list[str]) -> bool:
    """Return whether these are the migrations of this version, or its first ones, and marks that it knows."""
    names = [migration.__name__ for migration in MIGRATIONS]
    tables = [name for name in applied if name not in MARKS]
    return tables == names[: len(tables)]


def is_current(db: apsw.Connection) -> bool:
    """Return whether the tables of a file are those of this version, which then reads it as it is."""
    if not list(db.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'")):
        return False
    applied = meta(db, "migrations", "").split()
    return fits(applied) and len([name for name in applied if name not in MARKS]) == len(MIGRATIONS)


def migrate(db: apsw.Connection) -> None:
    """Bring the tables up to date, or raise StartRefused."""
    db.execute("BEGIN IMMEDIATE")
    db.execute("CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID")
    rows = list(db.execute("SELECT value FROM meta WHERE key = 'migrations'"))
    applied = str(rows[0][0]).split() if rows else []
    names = [migration.__name__ for migration in MIGRATIONS]
    if not fits(applied):
        db.execute("ROLLBACK")
        raise StartRefused(
            f"a journal with the tables {' '.join(names)} and events of the kinds {' '.join(sorted(MARKS))}, got "
            f"{' '.join(applied)}: it was written by a newer version, or damaged; start it with that version"
        )
    marked = [name for name in applied if name in MARKS]
    for migration in MIGRATIONS[len(applied) - len(marked) :]:
        migration(db)
    if applied != names + marked:
        db.execute("INSERT OR REPLACE INTO meta VALUES ('migrations', ?)", (" ".join(names + marked),))
    db.execute("COMMIT")
