"""Checks of the journal's file before anything is written to it, and what to do where one fails."""

from __future__ import annotations

import contextlib
import logging
import re
import shlex
from pathlib import Path

import apsw

from aucstream_service.errors.exceptions import JournalDamaged, StartRefused
from aucstream_service.journal import wal
from aucstream_service.journal.migrations import meta, migrate
from aucstream_service.storage.files import Files

_WRITES = frozenset(
    (apsw.SQLITE_IOERR_WRITE, apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_TRUNCATE, apsw.SQLITE_IOERR_DIR_FSYNC)
)

log = logging.getLogger("aucstream")


def check_log(db: apsw.Connection, journal: Path, files: Files) -> None:
    """Refuse a log with commits behind a damaged place; must come before anything is written."""
    path = journal.with_name(f"{journal.name}-wal")
    frames = wal.read(files.read(path)) if files.exists(path) else None
    if frames is None:
        return
    read, _ = db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
    lost = wal.lost(frames, max(read, 0))
    if not lost:
        return
    if meta(db, "durability", "disk") == "disk":
        raise JournalDamaged(
            f"a whole write-ahead log, got {path}: at least {lost} acknowledged commits lie behind a damaged "
            "place. Restore a backup, or move this one file away to go on without what it holds"
        )
    log.warning("journal: %s: commits that were not flushed are lost", path)


def damaged(expected: str, path: Path, got: str) -> JournalDamaged:
    """Return the error of a file that cannot be trusted: what to do is part of it."""
    return JournalDamaged(
        f"{expected}, got {path}: {got}. Restore a backup; or begin a new directory with what the snapshots hold, "
        f"without what was learned after them, ids and waiting predictions: "
        f"`aucstream fsck {shlex.quote(str(path.parent))} --salvage NEW_DIR`"
    )


def unreadable(path: Path, error: Exception) -> StartRefused:
    """Return the error of a journal that cannot be read, damaged or not."""
    if isinstance(error, (apsw.CorruptError, apsw.NotADBError)):
        return damaged("a readable journal", path, str(error))
    if isinstance(error, apsw.FullError):
        return no_space(path, error)
    return StartRefused(f"a readable journal, got {path}: {error}")


def is_unwritable(error: apsw.Error) -> bool:
    """Return whether an error says that the disk is full or takes no writes, and nothing about what it holds."""
    return isinstance(error, apsw.FullError) or getattr(error, "extendedresult", 0) in _WRITES


def no_space(path: Path, error: Exception) -> StartRefused:
    """Return the error of a journal that must be written before it can be used, and what to do."""
    return StartRefused(f"room to write {path}, got {error}: free space on its disk, then start again")


def check_structure(db: apsw.Connection, path: Path) -> None:
    """Raise JournalDamaged unless tables and indexes fit each other."""
    faults = [str(row[0]) for row in db.execute("PRAGMA integrity_check(5)")]
    if faults != ["ok"]:
        raise damaged("a sound journal", path, "; ".join(" ".join(faults).splitlines()))


def check_tables(db: apsw.Connection, path: Path) -> None:
    """Raise JournalDamaged unless the tables are described as this version makes them.

    SQLite believes the description in the file: a changed letter in it is another column, or another type.
    """
    with contextlib.closing(apsw.Connection(":memory:")) as empty:
        migrate(empty)
        expected = _tables(empty)
    tables = _tables(db)
    for name, text in expected.items():
        if tables.get(name) != text:
            raise damaged("the tables of a journal", path, f"another description of {name.decode()}")


def _tables(db: apsw.Connection) -> dict[bytes, bytes]:
    """Return the description of each table and index, without comments and spaces; a damaged one may be no text."""
    rows = db.execute("SELECT CAST(name AS BLOB), CAST(sql AS BLOB) FROM sqlite_master WHERE sql IS NOT NULL")
    return {bytes(name): b"".join(re.sub(rb"--[^\n]*", b"", bytes(sql)).split()) for name, sql in rows}
