"""The journal: SQLite through apsw, the only durable truth for models, events, ids and what waits.

One connection, used by one thread at a time: at start by whoever recovers, then by the writer.
A commit takes a list of commands; together they are one transaction (group commit).

Events carry a kind, a range of `seq` and the validated bytes of the request. The outcome of an
event is a function of this file alone, so a replay gives the same model to the last bit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import apsw

from aucstream import __version__
from aucstream_service.errors.exceptions import JournalDamaged, JournalUnavailable, RowsDamaged, StartRefused
from aucstream_service.journal import checksums, commands, wal
from aucstream_service.journal.event_codec import without
from aucstream_service.journal.ids import Ids
from aucstream_service.journal.integrity import (
    check_log,
    check_structure,
    check_tables,
    damaged,
    is_unwritable,
    no_space,
    unreadable,
)
from aucstream_service.journal.migrations import is_current, marks, meta, migrate
from aucstream_service.journal.rules import IdRecord, IdState, PendingSpec
from aucstream_service.journal.transaction import Transaction, is_row, runs
from aucstream_service.settings import Durability
from aucstream_service.storage.files import Files

# os: SQLite writes the WAL at each commit but leaves the flush to the kernel (checkpoints do flush),
# so a killed process loses nothing and a power cut loses the newest commits.
_SYNCHRONOUS: dict[Durability, str] = {"disk": "FULL", "os": "NORMAL", "memory": "OFF"}
CHECKPOINT_PAGES = 1_000  # of the WAL, before they are moved into the file
PAGE_ROWS, PAGE_BYTES = 2_000, 1 << 20  # read at once for an export, between commits
PURGE_ROWS = 5_000  # rows of a deleted model removed per transaction, so that learning never waits long


class Journal:
    """SQLite file of one data directory."""

    def __init__(
        self,
        path: Path,
        durability: Durability,
        max_ids: int,
        id_seconds: float = float("inf"),
        files: Files | None = None,
        vfs: str | None = None,
    ) -> None:
        self.path = path
        self.durability = durability
        self.max_ids = max_ids
        self.id_seconds = id_seconds
        self.files = files or Files()
        self.vfs = vfs
        self.flushed_before = False  # every commit of the process before was flushed (durability disk)
        self.versions: list[str] = []  # of the library, that wrote this journal, oldest first
        self._wal_pages = 0
        self._frames = 0  # of the log, that commits have acknowledged; what lies behind them was not
        self._counts: tuple[dict[Any, Any], ...] = ()  # `_countings` before the transaction that is under way
        self.failure: apsw.Error | None = None  # of the first write of a start: `reopen` comes before any commit
        self._late: list[tuple[int, int, list[tuple[str, int]]]] = []  # model, seq, ids: what `start_model` left undone
        self._scrubbing = False  # raw records were removed: the log that still holds them must go
        self._seq: dict[int, int] = {}
        self._pending: dict[int, PendingSpec] = {}
        self._marks: set[str] = set()  # kinds of event that older versions cannot read
        self._connection: apsw.Connection | None = None
        self._dropped = False

    @property
    def _db(self) -> apsw.Connection:
        if self._connection is None:
            raise JournalUnavailable("journal", "an open journal, it is closed")
        return self._connection

    def open(self) -> None:
        """Open or create the file, check that it is sound, and bring its tables up to date.

        Where the disk is full, or takes no writes, what is there is read and `failure` says why nothing can be written.

        Raises
        ------
        StartRefused
        """
        db: apsw.Connection | None = None
        try:
            db = self._connect()
            self._configure(db)
            check_log(db, self.path, self.files)
            check_structure(db, self.path)
            self.flushed_before = meta(db, "durability", "") == "disk" if is_current(db) else False
            try:
                self._begin(db)
            except apsw.Error as error:
                if not is_unwritable(error):
                    raise
                if db.in_transaction:
                    db.execute("ROLLBACK")
                if not is_current(db):
                    raise no_space(self.path, error) from error
                self.failure = error
            check_tables(db, self.path)
            self.files.sync_folder(self.path.parent)
        except (apsw.Error, OSError, StartRefused) as error:
            self._connection = db
            self.close(failed=True)
            if isinstance(error, StartRefused):
                if str(self.path) in error.expected:
                    raise
                raise StartRefused(f"{error.expected} ({self.path})") from error
            raise unreadable(self.path, error) from error
        self._connection = db
        self._marks = marks(db)
        self.ids = Ids(db, self.max_ids, self.id_seconds)
        self._dropped = bool(self._rows("SELECT 1 FROM models WHERE name IS NULL LIMIT 1"))

    def _begin(self, db: apsw.Connection) -> None:
        """Write for the first time after a start."""
        # What a killed process left in the log may not have reached the disk, however well it reads now:
        # it must before anything is added.
        self._frames = max(db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)[0], 0)
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        self._frames = 0
        migrate(db)
        self._note_start(db, again=self.files.is_scant(self.path.parent))

    def _connect(self) -> apsw.Connection:
        return apsw.Connection(str(self.path), vfs=self.vfs)

    def _configure(self, db: apsw.Connection) -> None:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        if list(db.execute("PRAGMA journal_mode = WAL")) != [("wal",)]:  # SQLite does not raise
            raise StartRefused(f"a journal with a write-ahead log, {self.path} could not be given one")
        db.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[self.durability]}")
        db.execute("PRAGMA foreign_keys = OFF")
        db.execute("PRAGMA secure_delete = ON")  # what is removed held raw features
        db.set_wal_hook(self._note_pages)  # and no checkpoint by itself: SQLite says nothing when one fails

    def reopen(self) -> None:
        """Open the file again after a failure, as the last acknowledged commit left it.

        A commit that failed may lie whole in the log, and a flush that failed may have marked pages as written that are
        not. So the log is cut behind the last acknowledged commit, written to a new file and flushed, and then moved
        into the database file, whose pages are written and flushed anew. Whoever sent what was cut was answered 503.

        Raises
        ------
        JournalDamaged
            Acknowledged commits cannot be read.
        apsw.Error, OSError, StartRefused
            The disk still fails.
        """
        self.close(failed=True)
        self._renew_log()
        db = self._connect()
        try:
            self._configure(db)
            frames, _ = db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
            if max(frames, 0) < self._frames:
                raise JournalDamaged(
                    f"{self._frames} frames of acknowledged commits in the log of {self.path}, got {max(frames, 0)}"
                )
            db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            self._frames = self._wal_pages = 0
            self._note_start(db, again=True)  # a full disk that took what was there may not take more
        except BaseException:
            self._connection = db
            self.close(failed=True)
            raise
        self._connection = db
        self._marks = marks(db)
        self.ids.use(db)
        for counts, before in zip(self._countings, self._counts, strict=False):
            counts.clear()
            counts.update(before)
        self._counts = ()
        self._dropped = True  # perhaps: a look tells
        try:
            self._finish_start()
        except BaseException:
            self.close(failed=True)
            raise
        self.failure = None

    def _finish_start(self) -> None:
        """Do what the start could not write."""
        if not self._late:
            return
        self._counts = tuple(map(dict, self._countings))
        self._db.execute("BEGIN IMMEDIATE")
        for model, seq, skipped in self._late:
            self.ids.forget_later(model, seq)
            self.ids.release(model, skipped)
        self._db.execute("COMMIT")
        self._counts = ()
        self._late.clear()

    def _renew_log(self) -> None:
        """Write the acknowledged part of the log to a new file, which takes the place of the log."""
        path = self.path.with_name(f"{self.path.name}-wal")
        if not self.files.exists(path):
            return
        data = self.files.read(path)
        data = data[: wal.size_of(data, self._frames)]
        if not data:
            self.files.remove(path)
        else:
            temporary = path.with_name(f"{path.name}.new")
            file = self.files.create(temporary)
            try:
                view = memoryview(data)
                while view:
                    view = view[self.files.write(file, view) :]
                self.files.sync(file)
            finally:
                self.files.close(file)
            self.files.rename(temporary, path)
        self.files.sync_folder(path.parent)

    @property
    def _countings(self) -> tuple[dict[Any, Any], ...]:
        """What a transaction changes in memory."""
        return self._seq, self._pending, self.ids.final, self.ids.pending

    def _note_start(self, db: apsw.Connection, *, again: bool) -> None:
        """Note who writes from now on, and how safely; `again`: write what is known, too, to see that it can be."""
        before = meta(db, "versions", "").split()
        self.versions = before if before[-1:] == [__version__] else [*before, __version__]
        known = {"durability": self.durability, "versions": " ".join(self.versions[-20:])}
        changed = [(key, value) for key, value in known.items() if again or meta(db, key, "") != value]
        if changed:
            db.execute("BEGIN IMMEDIATE")
            db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", changed)
            db.execute("COMMIT")

    def _note_pages(self, _db: apsw.Connection, _name: str, pages: int) -> int:
        self._wal_pages = self._frames = pages
        return 0

    def checkpoint(self) -> None:
        """Move the log into the file when it is long enough.

        Like after a commit, an exception means that the file must not be used again before `reopen`: after a
        failed flush the kernel may count pages as written that are not.
        """
        if self._scrubbing:
            self._scrubbing = False
            self._wal_pages = 0
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            self._frames = 0
        elif self._wal_pages >= CHECKPOINT_PAGES:
            self._wal_pages = 0
            frames, moved = self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            if frames == moved:  # the next commit begins the log anew
                self._frames = 0

    def close(self, *, failed: bool = False) -> None:
        """Close; after a failed write the file is left as it is (no checkpoint is tried)."""
        if self._connection is None:
            return
        if failed:
            self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self._connection.close()
        self._connection = None

    def borrow(self, db: apsw.Connection) -> None:
        """Read from a connection of somebody else."""
        self._connection = db

    def size(self) -> int:
        """Return the bytes of the file and of its WAL."""
        size = 0
        for path in (self.path, self.path.with_name(f"{self.path.name}-wal")):
            with contextlib.suppress(OSError):
                size += path.stat().st_size
        return size

    def last_seq(self, model: int) -> int:
        """Return the seq of a model's newest event, 0 without one."""
        return self._integer("SELECT coalesce(max(seq_last), 0) FROM events WHERE model = ?", model)

    def _rows(self, sql: str, *bindings: apsw.SQLiteValue) -> list[tuple[Any, ...]]:
        return list(self._db.execute(sql, bindings))

    def _integer(self, sql: str, *bindings: apsw.SQLiteValue) -> int:
        return int(self._rows(sql, *bindings)[0][0])

    # ---- reading, at start -------------------------------------------------------------------

    def models(self) -> list[commands.ModelRecord]:
        """Return the registry, or raise JournalDamaged."""
        rows = self._rows(f"SELECT {', '.join(checksums.COVERED['models'])}, checksum FROM models ORDER BY model")
        if meta(self._db, "models", "0") != str(len(rows)):
            raise damaged("as many models as were registered", self.path, f"{len(rows)} models")
        for *values, checksum in rows:
            if checksums.of_row(tuple(values)) != checksum:
                raise damaged("the registry that was written", self.path, f"another row for model {values[0]}")
        return [commands.ModelRecord(*values) for *values, _ in rows if values[1] is not None]

    def base(self, model: int) -> bytes | None:
        """Return the uploaded snapshot a model began with, unless it was pruned."""
        rows = self._rows("SELECT payload FROM bases WHERE model = ?", model)
        return bytes(rows[0][0]) if rows else None

    def events(self, model: int, after: int) -> Iterator[commands.EventRecord]:
        """Yield the events of a model that hold a seq above `after`, in order; raises RowsDamaged."""
        cursor = self._db.execute(
            "SELECT seq_first, seq_last, kind, payload, received_at, checksum FROM events"
            " WHERE model = ? AND seq_last > ? ORDER BY seq_first",
            (model, after),
        )
        for seq_first, seq_last, kind, payload, received_at, checksum in cursor:
            if checksums.of_event(model, seq_first, seq_last, kind, received_at, payload) != checksum:
                raise RowsDamaged(f"the events {seq_first} to {seq_last} that were written, the journal holds others")
            yield commands.EventRecord(seq_first, seq_last, kind, payload, received_at)

    def start_model(
        self, model: int, seq: int, pending: PendingSpec | None = None, skipped: Sequence[tuple[str, int]] = ()
    ) -> Iterator[None]:
        """Note where a model stands after replay, and free the ids of rows that it skipped; in steps.

        Raises
        ------
        RowsDamaged
        """
        if self.failure is None:
            self.ids.forget_later(model, seq)
        else:
            self._late.append((model, seq, list(skipped)))
        yield from self.ids.start(model, seq)
        if skipped and self.failure is None:
            self._db.execute("BEGIN IMMEDIATE")
            self.ids.release(model, skipped)
            self._db.execute("COMMIT")
        self._seq[model] = seq
        self._pending[model] = pending or PendingSpec()

    # ---- writing -----------------------------------------------------------------------------

    def commit(self, group: Sequence[commands.Command]) -> list[commands.Outcome]:
        """Carry commands out as one transaction; when this returns they are durable.

        Any exception means that nothing is known about the file: it must not be used again before `reopen`.
        """
        db = self._db
        self._counts = tuple(map(dict, self._countings))
        db.execute("BEGIN IMMEDIATE")
        stores_events = self.durability != "memory"
        transaction = Transaction(
            db, self.ids, self._seq, self._pending, stores_events=stores_events, marks=self._marks
        )
        outcomes: list[commands.Outcome] = []
        for run in runs(group):
            if is_row(run[0]):
                outcomes += transaction.append_rows(cast("Sequence[commands.Append]", run))
            else:
                outcomes.append(self._carry_out(transaction, run[0]))
        db.execute("COMMIT")
        self._counts = ()
        return outcomes

    def _carry_out(self, transaction: Transaction, command: commands.Command) -> commands.Outcome:
        match command:
            case commands.Append():
                return transaction.append(command)
            case commands.Keep():
                return transaction.keep(command)
            case commands.Sweep():
                return transaction.sweep(command.at)
            case commands.Release():
                return self._release(command)
            case commands.CreateModel():
                return self._create(command)
            case commands.Change():
                if command.name is not None:
                    self._db.execute("UPDATE models SET name = ? WHERE model = ?", (command.name, command.model))
                    self._seal(command.model)
                return transaction.change(command)
            case commands.DropModel():
                self._drop(command.model)
            case commands.Prune():
                self._prune(command.model, command.seq)
            case commands.Erase():
                return self._erase(command)
            case commands.Retain():
                return self._retain(command)
            case commands.ReadEvents():
                return self._read_events(command)
            case commands.ReadPending():
                return self.ids.page(command, PAGE_ROWS, PAGE_BYTES) if command.model in self._seq else None
        return None

    def _read_events(self, read: commands.ReadEvents) -> commands.Page | None:
        """Return events, one at least, until they are large together; of a rollback what comes before its snapshot."""
        model = read.model
        if model not in self._seq:
            return None
        until = self._seq[model] if read.until is None else read.until
        page = commands.Page([], read.after, until, more=False)
        size = 0
        for seq_first, seq_last, kind, payload, received_at, checksum in self._db.execute(
            "SELECT seq_first, seq_last, kind, payload, received_at, checksum FROM events"
            " WHERE model = ? AND seq_first > ? AND seq_first <= ? ORDER BY seq_first",
            (model, read.after, until),
        ):
            if size > PAGE_BYTES or len(page.records) >= PAGE_ROWS:
                page.more = True
                break
            if checksums.of_event(model, seq_first, seq_last, kind, received_at, payload) != checksum:
                page.damaged = True
                break
            size += len(payload)
            if kind == commands.Kind.ROLLBACK:
                payload = payload[: payload.index(b"\n")]
            page.records.append(commands.EventRecord(seq_first, seq_last, kind, payload, received_at))
            page.last = seq_last
        return page

    def _prune(self, model: int, seq: int) -> None:
        self._db.execute("DELETE FROM events WHERE model = ? AND seq_last <= ?", (model, seq))
        self._db.execute("DELETE FROM bases WHERE model = ?", (model,))
        self._db.execute("UPDATE models SET pruned_seq = max(pruned_seq, ?) WHERE model = ?", (seq, model))
        self._seal(model)

    def _erase(self, erase: commands.Erase) -> commands.EraseOutcome:
        model = erase.model
        events: list[tuple[int, tuple[int, int, int, float, bytes]]] = []
        removed = 0
        for event, *head, payload in self._db.execute(
            "SELECT event, seq_first, seq_last, kind, received_at, payload FROM events WHERE model = ?"
            f" AND kind IN ({', '.join(str(int(kind)) for kind in sorted(commands.ROWS))})",
            (model,),
        ):
            rest, lines = without(payload, erase.id)
            if not lines:
                continue
            seq = head[0] + lines[-1]
            if seq > erase.covered:
                return commands.EraseOutcome(0, seq, self.ids.pending[model])
            removed += len(lines)
            events.append((event, (*head, rest)))
        self._scrubbing = True
        for event, row in events:
            checksum = checksums.of_event(model, *row)
            self._db.execute("UPDATE events SET payload = ?, checksum = ? WHERE event = ?", (row[-1], checksum, event))
        record = self.ids.find(model, erase.id)
        if record is not None and record.state in (IdState.WAITING, IdState.EARLY):
            removed += 1
            self.ids.remove(model, [erase.id])
            if record.state is IdState.WAITING:  # a label that comes later is answered as expired
                self.ids.settle(model, [(erase.id, IdRecord(IdState.DISCARDED, seq=self._seq[model]))], erase.at)
        return commands.EraseOutcome(removed, 0, self.ids.pending[model])

    def _retain(self, retain: commands.Retain) -> commands.RetainOutcome:
        uncovered = []
        for model, covered in retain.covered.items():
            recent = self._rows(
                "SELECT seq_first FROM events WHERE model = ? AND received_at >= ? ORDER BY seq_first LIMIT 1",
                *(model, retain.before),
            )
            seq = recent[0][0] - 1 if recent else self.last_seq(model)
            if not self._rows("SELECT 1 FROM events WHERE model = ? AND seq_last <= ? LIMIT 1", model, seq):
                continue
            if seq > covered:
                uncovered.append(model)
            else:
                self._scrubbing = True
                self._prune(model, seq)
        return commands.RetainOutcome(uncovered)

    def _release(self, release: commands.Release) -> int:
        if release.model in self._seq:  # else it was dropped meanwhile
            self.ids.release(release.model, release.ids)
        return self._seq.get(release.model, 0)

    def _create(self, create: commands.CreateModel) -> int:
        if create.replaces is not None:
            self._drop(create.replaces)
        self._db.execute(
            "INSERT INTO models(name, spec, created_at, base_seq, seed) VALUES (?,?,?,?,?)",
            (create.name, create.spec, create.created_at, create.base_seq, create.seed),
        )
        model = self._db.last_insert_rowid()
        self._seal(model)
        self._count_models()
        if create.base is not None:
            self._db.execute("INSERT INTO bases(model, payload) VALUES (?,?)", (model, create.base))
        self._seq[model] = create.base_seq
        self._pending[model] = create.pending
        self.ids.begin(model)
        return model

    def _drop(self, model: int) -> None:
        self._db.execute("UPDATE models SET name = NULL WHERE model = ?", (model,))
        self._seal(model)
        self._seq.pop(model, None)
        self._pending.pop(model, None)
        self.ids.drop(model)
        self._dropped = True

    def _seal(self, model: int) -> None:
        """Bring the checksum of a model's line in the registry up to date."""
        columns = ", ".join(checksums.COVERED["models"])
        for row in self._rows(f"SELECT {columns} FROM models WHERE model = ?", model):
            self._db.execute("UPDATE models SET checksum = ? WHERE model = ?", (checksums.of_row(row), model))

    def _count_models(self) -> None:
        self._db.execute("INSERT OR REPLACE INTO meta SELECT 'models', count(*) FROM models")

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
            "DELETE FROM pending WHERE row IN (SELECT row FROM pending WHERE model = ? LIMIT ?)",
        ):
            self._db.execute(sql, (model, PURGE_ROWS))
            removed += self._db.changes()
        if removed == 0:
            self._db.execute("DELETE FROM bases WHERE model = ?", (model,))
            self._db.execute("DELETE FROM models WHERE model = ?", (model,))
            self._count_models()
        self._db.execute("COMMIT")
